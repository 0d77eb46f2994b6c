"""Messages of an attempt, in the driver's sequence, and the sums of seconds and images that they report.

Time between two steps of a pass is input time, a step is busy time, and the rest of an epoch is neither.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass

import msgspec

from aiperf.data.errors import DamagedData
from aiperf.journal.events import CheckpointNotWritten, CheckpointWritten
from aiperf.journal.messages import Advanced, CorruptImagesFound, EpochDone, Message, Sums, Train
from aiperf.rules.procedure import ends_interval
from aiperf.train.heartbeat import Stage
from aiperf.train.rank_context import RankContext


@dataclass(frozen=True, slots=True)
class StepTimes:
    """A finished step. Times are seconds since the command to train was received."""

    begin: float
    end: float
    images: int
    """Images that all ranks have processed since the previous step. Ranks are not exactly in step, and some may belong to other
    steps. Padding and corrupt images are never counted."""
    is_training: bool
    communication_seconds: float = 0.0
    """Gradient exchange within the step that the backward pass did not hide."""


class Reports:
    """Schedule of a trial's progress reports: about every `progress_seconds`, and at each edge of the measured window."""

    def __init__(self, trial: int, attempt: int, progress_seconds: float, edges: tuple[float, ...]) -> None:
        self.trial = trial
        self.attempt = attempt
        self._every = progress_seconds
        self._edges = sorted(edges)
        self._last = 0.0
        self.sums = Sums()

    def begin_epoch(self) -> Sums:
        self.sums.training_images = self.sums.validation_images = 0
        return self.sums

    def is_due(self, now: float, left: float) -> bool:
        """An edge of the window is reported at once: the interval ends at the driver's receipt. `left`: of the epoch."""
        return ends_interval(now - self._last, left, self._every) or any(
            self._last < edge <= now for edge in self._edges
        )

    def reported(self, now: float) -> None:
        self._last = now


class EpochClock:
    """Sums of one epoch, seconds since the order. For both passes: `begin_pass`, `step` for each step. At the end `finish`."""

    def __init__(self, reports: Reports, epoch: int, batch_size: int, images: int) -> None:
        """`batch_size`: images per accelerator. `images`: of both passes, over all ranks."""
        self._reports = reports
        self._epoch = epoch
        self._batch_size = batch_size
        self._images = images
        self._sums = reports.begin_epoch()
        self._began: float | None = None
        self._now = 0.0

    def begin_pass(self, now: float) -> None:
        """The time until the first step is input time."""
        self._now = now
        if self._began is None:
            self._began = now

    def step(self, span: StepTimes, *, is_asked: bool = False) -> Advanced | None:
        """Return a progress report if one is due or if `is_asked`, otherwise None."""
        sums, begin = self._sums, max(span.begin, self._now)
        seconds = max(0.0, span.end - begin)
        sums.input_seconds += begin - self._now
        sums.busy_seconds += seconds
        sums.communication_seconds += min(span.communication_seconds, seconds)
        if span.is_training:
            sums.training_images += span.images
        else:
            sums.validation_images += span.images
            sums.validation_seconds += seconds
        self._now = begin + seconds
        return self._advanced() if is_asked or self._reports.is_due(self._now, self._left()) else None

    def _left(self) -> float:
        """Return remaining seconds, an upper bound: validation is faster than training."""
        assert self._began is not None, "steps belong to a pass"
        done = self._sums.training_images + self._sums.validation_images
        return (self._now - self._began) * max(0, self._images - done) / done if done else math.inf

    def trained(self, images: int) -> None:
        """Add `images` training images of all ranks that no step has reported, at the end of the training pass."""
        self._sums.training_images += images

    def exchanged(self, seconds: float) -> None:
        """Add seconds in which ranks averaged statistics or summed results. They are busy and communication time."""
        self._sums.busy_seconds += seconds
        self._sums.communication_seconds += seconds

    def stood_still(self, seconds: float) -> None:
        """Add seconds in which training was paused to copy a checkpoint."""
        self._sums.checkpoint_seconds += seconds

    def finish(self, now: float, training_images: int, validation_images: int) -> Advanced:
        """A sum that was reported larger before is kept, because sums must never decrease."""
        self._now = max(now, self._now)
        self._sums.training_images = max(self._sums.training_images, training_images)
        self._sums.validation_images = max(self._sums.validation_images, validation_images)
        return self._advanced()

    def _advanced(self) -> Advanced:
        self._reports.reported(self._now)
        return Advanced(
            trial=self._reports.trial,
            attempt=self._reports.attempt,
            epoch=self._epoch,
            batch_size=self._batch_size,
            **msgspec.structs.asdict(self._sums),
        )


@dataclass(frozen=True, slots=True)
class EpochMessage:
    """Message on the end of an epoch, and the future of its checkpoint file (`Writer.submit`)."""

    message: EpochDone
    file: Future[str | None]
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
    reported = 0

    def new_corrupt_images() -> Iterator[Message]:
        nonlocal reported
        corrupt = context.data.corrupt
        if len(corrupt) > reported:
            reported = len(corrupt)
            yield CorruptImagesFound(worker=order.worker, files=corrupt)

    try:
        for message in messages:
            yield from new_corrupt_images()
            while awaiting_file and awaiting_file[0].file.done():
                yield from _checkpoint_result(awaiting_file.popleft())
            match message:
                case None:
                    pass
                case EpochMessage(done, file, is_last) if not file.done() and not is_last:
                    yield done
                    awaiting_file.append(message)
                case EpochMessage(_, file, _) if file.done() and not delayed:
                    yield from (message.message, *_checkpoint_result(message))
                case EpochMessage():
                    delayed.append(message)
                case _ if delayed:
                    delayed.append(message)
                case _:
                    yield message
    except DamagedData:  # report the image that exceeded the limit, too
        yield from new_corrupt_images()
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
    yield _with_wait(last.message, time.monotonic() - began)
    yield from _checkpoint_result(last)


def _checkpoint_result(epoch: EpochMessage) -> tuple[Message, ...]:
    """A full or missing disk costs the checkpoint, not the trial."""
    sums = epoch.message.advanced
    try:
        sha256 = epoch.file.result()
    except OSError as error:
        return (CheckpointNotWritten(trial=sums.trial, attempt=sums.attempt, epoch=sums.epoch, reason=str(error)),)
    written = CheckpointWritten(trial=sums.trial, attempt=sums.attempt, epoch=sums.epoch, sha256=sha256)
    return () if sha256 is None else (written,)


def _with_wait(message: EpochDone, seconds: float) -> EpochDone:
    sums = message.advanced
    waited = msgspec.structs.replace(sums, checkpoint_seconds=sums.checkpoint_seconds + seconds)
    return msgspec.structs.replace(message, advanced=waited)
