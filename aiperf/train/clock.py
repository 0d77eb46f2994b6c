"""Where the time of an epoch goes: sums since it began, and the words that report them.

Fed with finished steps (begin and end in seconds since the order was taken), it adds them up and says `Advanced` when a
report is due. Time between two steps of a pass is waiting for input; a step is busy; the rest of an epoch is neither.
It knows no device: who measures a step, and how, is `timeline.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from aiperf.messages import Advanced


@dataclass(slots=True)
class Sums:
    """Since the epoch began; seconds of rank 0, images of all ranks."""

    training_images: int = 0
    validation_images: int = 0
    busy_seconds: float = 0.0
    communication_seconds: float = 0.0
    validation_seconds: float = 0.0
    input_seconds: float = 0.0
    checkpoint_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """A finished step. Times are seconds since the order was taken."""

    begin: float
    end: float
    images: int
    """Of all ranks; padding never counts."""
    is_training: bool
    communication_seconds: float = 0.0
    """Of it: exchange of gradients that the backward pass did not hide."""


class Reports:
    """When a trial's progress is due: every `progress_seconds`, and at each edge of the window.

    One for the whole order, since intervals go on over epochs.
    """

    def __init__(self, trial: int, attempt: int, progress_seconds: float, edges: tuple[float, ...]) -> None:
        self.trial = trial
        self.attempt = attempt
        self._every = progress_seconds
        self._edges = sorted(edge for edge in edges if edge > 0.0)
        self._last = 0.0

    def edges_until(self, now: float) -> Iterator[float]:
        """The edges up to now, each given once."""
        while self._edges and self._edges[0] <= now:
            yield self._edges.pop(0)

    def is_due(self, now: float) -> bool:
        return now - self._last >= self._every

    def said(self, now: float) -> None:
        self._last = now


class EpochClock:
    """The account of one epoch. `begin_pass`, then `step` for each step of the pass; twice; then `finish`."""

    def __init__(self, reports: Reports, epoch: int) -> None:
        self._reports = reports
        self._epoch = epoch
        self._sums = Sums()
        self._now = 0.0

    def begin_pass(self, now: float) -> Iterator[Advanced]:
        """A pass over a split begins: from now on the accelerator waits for input, until the pass's first step."""
        yield from self._until(now, Sums())

    def step(self, span: Span) -> Iterator[Advanced]:
        """Adds a finished step, and the waiting before it.

        What straddles an edge of the window is divided there in proportion to time, as the score divides an interval; the
        parts add up exactly. A step is reported once it is finished, so the images of both parts were really processed.
        """
        begin, seconds = max(span.begin, self._now), max(0.0, span.end - max(span.begin, self._now))
        yield from self._until(begin, Sums(input_seconds=begin - self._now))
        work = Sums(busy_seconds=seconds, communication_seconds=min(span.communication_seconds, seconds))
        if span.is_training:
            work.training_images = span.images
        else:
            work.validation_images, work.validation_seconds = span.images, seconds
        yield from self._until(begin + seconds, work)
        if self._reports.is_due(self._now):
            yield self._advanced(self._sums, self._now)

    def stood_still(self, seconds: float) -> None:
        """Training waited for a checkpoint to be taken."""
        self._sums.checkpoint_seconds += seconds

    def finish(self, now: float, training_images: int, validation_images: int) -> Iterator[Advanced]:
        """The epoch's final sums come last, with the images that all ranks counted.

        Skipped corrupt images make that less than what was dealt to the steps; but sums never fall.
        """
        yield from self._until(now, Sums())
        self._sums.training_images = max(self._sums.training_images, training_images)
        self._sums.validation_images = max(self._sums.validation_images, validation_images)
        yield self._advanced(self._sums, self._now)

    def _until(self, now: float, work: Sums) -> Iterator[Advanced]:
        begin, length = self._now, now - self._now
        for edge in self._reports.edges_until(now):
            share = (edge - begin) / length if length > 0 else 1.0
            yield self._advanced(_plus(self._sums, work, share), edge)
        self._sums = _plus(self._sums, work, 1.0)
        self._now = max(now, begin)

    def _advanced(self, sums: Sums, elapsed: float) -> Advanced:
        self._reports.said(elapsed)
        return Advanced(
            trial=self._reports.trial,
            attempt=self._reports.attempt,
            epoch=self._epoch,
            training_images=sums.training_images,
            validation_images=sums.validation_images,
            busy_seconds=sums.busy_seconds,
            communication_seconds=sums.communication_seconds,
            validation_seconds=sums.validation_seconds,
            input_seconds=sums.input_seconds,
            checkpoint_seconds=sums.checkpoint_seconds,
        )


def _plus(sums: Sums, work: Sums, share: float) -> Sums:
    """The sums with a share of the work; whole images only."""
    share = min(1.0, max(0.0, share))
    added: dict[str, int | float] = {}
    for field in fields(Sums):
        before, more = getattr(sums, field.name), getattr(work, field.name)
        added[field.name] = before + (int(more * share) if isinstance(more, int) else more * share)
    return Sums(**added)  # type: ignore[arg-type]  # each field keeps the type it had
