"""Sequence of an attempt's messages: an epoch's end is reported at once, its checkpoint when the file is written."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass

import msgspec

from aiperf.data.errors import DamagedData
from aiperf.data.opened import OpenData
from aiperf.journal.events import CheckpointNotWritten, CheckpointWritten
from aiperf.journal.messages import CorruptImagesFound, EpochDone, Message, Train
from aiperf.train.rank_context import RankContext
from aiperf.train.stages import Stage


@dataclass(frozen=True, slots=True)
class EpochMessage:
    """Message on the end of an epoch. Its `checkpoint` is set when the file is written."""

    message: EpochDone
    file: Future[bool]
    is_last: bool


AttemptMessages = Generator["Message | EpochMessage | None", None, None]
"""Messages of an attempt. None after each step, so that a delayed message can be sent."""


def in_order(messages: AttemptMessages, order: Train, context: RankContext) -> Iterator[Message]:
    """Yield the messages of an attempt in the sequence in which the driver receives them.

    The last epoch's message and all messages after it wait for its checkpoint file, because another trial can inherit from a
    finished one. Corrupt images are reported before the message of the step that read them.
    """
    awaiting_file: deque[EpochMessage] = deque()
    delayed: deque[Message | EpochMessage] = deque()
    corrupt = _Corrupt(order.worker, context.data)
    try:
        for message in messages:
            yield from corrupt.new_images()
            while awaiting_file and awaiting_file[0].file.done():
                yield from _checkpoint_result(awaiting_file.popleft())
            match message:
                case None:
                    pass
                case EpochMessage(done, file, is_last) if not file.done() and not is_last:
                    yield done
                    awaiting_file.append(message)
                case EpochMessage(_, file, _) if file.done() and not delayed:
                    yield from _settled(message)
                case EpochMessage():
                    delayed.append(message)
                case _ if delayed:
                    delayed.append(message)
                case _:
                    yield message
    except DamagedData:  # report the image that exceeded the limit, too
        yield from corrupt.new_images()
        raise
    while delayed:
        last = delayed.popleft()
        if isinstance(last, EpochMessage):
            yield from _waited_for(last, context, order.progress_seconds)
            while awaiting_file and awaiting_file[0].file.done():
                yield from _checkpoint_result(awaiting_file.popleft())
        else:
            yield last


def _waited_for(last: EpochMessage, context: RankContext, every: float) -> Iterator[Message]:
    began = time.monotonic()
    while not last.file.done():
        context.liveness.enter(Stage.CHECKPOINT, every + context.conf.start_seconds)  # a slow disk is not a hung rank
        wait([last.file], timeout=every)
        if not last.file.done():
            yield _with_wait(last.message, time.monotonic() - began).advanced
    for message in _settled(last):
        yield _with_wait(message, time.monotonic() - began) if isinstance(message, EpochDone) else message


class _Corrupt:
    def __init__(self, worker: int, data: OpenData) -> None:
        self._worker = worker
        self._data = data
        self._reported = 0

    def new_images(self) -> tuple[Message, ...]:
        corrupt = self._data.corrupt
        if len(corrupt) == self._reported:
            return ()
        self._reported = len(corrupt)
        return (CorruptImagesFound(worker=self._worker, files=corrupt),)


def _settled(epoch: EpochMessage) -> tuple[Message, ...]:
    result = _checkpoint_result(epoch)
    if any(isinstance(message, CheckpointWritten) for message in result):
        return (msgspec.structs.replace(epoch.message, checkpoint=True),)
    return epoch.message, *result


def _checkpoint_result(epoch: EpochMessage) -> tuple[Message, ...]:
    """A full or missing disk costs the checkpoint, not the trial."""
    sums = epoch.message.advanced
    try:
        is_written = epoch.file.result()
    except OSError as error:
        return (CheckpointNotWritten(trial=sums.trial, attempt=sums.attempt, epoch=sums.epoch, reason=str(error)),)
    return (CheckpointWritten(trial=sums.trial, attempt=sums.attempt, epoch=sums.epoch),) if is_written else ()


def _with_wait(message: EpochDone, seconds: float) -> EpochDone:
    sums = message.advanced
    waited = msgspec.structs.replace(sums, checkpoint_seconds=sums.checkpoint_seconds + seconds)
    return msgspec.structs.replace(message, advanced=waited)
