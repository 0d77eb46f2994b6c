"""Which word of an attempt is said when: an epoch's end at once, its checkpoint when the file stands, all in their order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass

import msgspec

from aiperf.data.errors import DamagedData
from aiperf.data.opened import OpenData
from aiperf.journal.messages import EpochDone, Saved, Skipped, Train, Unsaved, Word
from aiperf.train.rank_context import RankContext
from aiperf.train.stages import Stage


@dataclass(frozen=True, slots=True)
class WhenWritten:
    """An epoch's word, whose `checkpoint` becomes true when the file stands."""

    word: EpochDone
    file: Future[bool]
    is_last: bool


AttemptWords = Generator["Word | WhenWritten | None", None, None]
"""None: a step went by, and a word that was held back may be ready."""


def in_order(words: AttemptWords, order: Train, context: RankContext) -> Iterator[Word]:
    """The words of an attempt as the driver is to hear them.

    The end of an epoch is said at once; whether its checkpoint stands follows, if it is not known yet. The last epoch's word,
    and what comes after it, waits for the file, since a trial that is done can be inherited from; what that takes is said
    meanwhile. Corrupt images are told of before the word
    of the step that met them.
    """
    said: deque[WhenWritten] = deque()
    held: deque[Word | WhenWritten] = deque()
    corrupt = _Corrupt(order.worker, context.data)
    try:
        for word in words:
            yield from corrupt.met_since()
            while said and said[0].file.done():
                yield from _known(said.popleft())
            match word:
                case None:
                    pass
                case WhenWritten(done, file, is_last) if not file.done() and not is_last:
                    yield done
                    said.append(word)
                case WhenWritten(_, file, _) if file.done() and not held:
                    yield from _settled(word)
                case WhenWritten():
                    held.append(word)
                case _ if held:
                    held.append(word)
                case _:
                    yield word
    except DamagedData:  # the image that was one too many has a name too
        yield from corrupt.met_since()
        raise
    while held:
        last = held.popleft()
        if isinstance(last, WhenWritten):
            yield from _waited_for(last, context, order.progress_seconds)
            while said and said[0].file.done():
                yield from _known(said.popleft())
        else:
            yield last


def _waited_for(last: WhenWritten, context: RankContext, every: float) -> Iterator[Word]:
    """Nothing is trained any more: what the last file still takes, training stands still for, and says so now and then."""
    began = time.monotonic()
    while not last.file.done():
        context.liveness.enter(
            Stage.CHECKPOINT, every + context.conf.start_seconds
        )  # a slow disk is no rank that hangs
        wait([last.file], timeout=every)
        if not last.file.done():
            yield _stood_still(last.word, time.monotonic() - began).advanced
    for word in _settled(last):
        yield _stood_still(word, time.monotonic() - began) if isinstance(word, EpochDone) else word


class _Corrupt:
    """The corrupt images that this process has met, as it tells of them."""

    def __init__(self, worker: int, data: OpenData) -> None:
        self._worker = worker
        self._data = data
        self._told = 0

    def met_since(self) -> tuple[Word, ...]:
        """All of them, where there are more than were told of."""
        met = self._data.corrupt
        if len(met) == self._told:
            return ()
        self._told = len(met)
        return (Skipped(worker=self._worker, files=met),)


def _settled(epoch: WhenWritten) -> tuple[Word, ...]:
    """An epoch's word, and what became of its file."""
    known = _known(epoch)
    if any(isinstance(word, Saved) for word in known):
        return (msgspec.structs.replace(epoch.word, checkpoint=True),)
    return epoch.word, *known


def _known(epoch: WhenWritten) -> tuple[Word, ...]:
    """What became of the file of an epoch. A disk that is full or gone costs the checkpoint, not the trial."""
    sums = epoch.word.advanced
    try:
        stands = epoch.file.result()
    except OSError as error:
        return (Unsaved(trial=sums.trial, attempt=sums.attempt, epoch=sums.epoch, reason=str(error)),)
    return (Saved(trial=sums.trial, attempt=sums.attempt, epoch=sums.epoch),) if stands else ()


def _stood_still(word: EpochDone, seconds: float) -> EpochDone:
    sums = word.advanced
    waited = msgspec.structs.replace(sums, checkpoint_seconds=sums.checkpoint_seconds + seconds)
    return msgspec.structs.replace(word, advanced=waited)
