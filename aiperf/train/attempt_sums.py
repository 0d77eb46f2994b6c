"""Where the time of an attempt goes: sums, and the words that report them.

Fed with finished steps (begin and end in seconds since the order was taken), it adds them up and says `Advanced` when a
report is due. Time between two steps of a pass is waiting for input; a step is busy; the rest of an epoch is neither.
It knows no device: who measures a step, and how, is `device_timer.py`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from aiperf.journal.messages import Advanced
from aiperf.rules.procedure import ends_interval


@dataclass(slots=True)
class Sums:
    """Images of all ranks since the epoch began; seconds of rank 0 since the order was taken."""

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
    """Images that all ranks have processed since the step before. Ranks are not quite in step, so these may be of other steps.
    Padding, and corrupt images, never count."""
    is_training: bool
    communication_seconds: float = 0.0
    """Of it: exchange of gradients that the backward pass did not hide."""


class Reports:
    """When a trial's progress is due: about every `progress_seconds`, and at each edge of the window.

    One for the whole order, since intervals go on over epochs.
    """

    def __init__(self, trial: int, attempt: int, progress_seconds: float, edges: tuple[float, ...]) -> None:
        self.trial = trial
        self.attempt = attempt
        self._every = progress_seconds
        self._edges = sorted(edges)
        self._last = 0.0
        self.sums = Sums()

    def begin_epoch(self) -> Sums:
        """An epoch begins: images are counted from 0 again, seconds go on."""
        self.sums.training_images = self.sums.validation_images = 0
        return self.sums

    def is_due(self, now: float, left: float) -> bool:
        """Whether to report at a step that ended now, with about `left` seconds of its epoch to come.

        The driver's interval ends when it hears of it, so the first step to end after an edge of the window reports at
        once: what straddles the edge is then no longer than a step."""
        return ends_interval(now - self._last, left, self._every) or any(
            self._last < edge <= now for edge in self._edges
        )

    def said(self, now: float) -> None:
        self._last = now


class EpochClock:
    """The sums of one epoch. `begin_pass`, then `step` for each step of the pass; twice; then `finish`."""

    def __init__(self, reports: Reports, epoch: int, batch_size: int, images: int) -> None:
        """`batch_size`: per accelerator; `images`: of both passes, over all ranks."""
        self._reports = reports
        self._epoch = epoch
        self._batch_size = batch_size
        self._images = images
        self._sums = reports.begin_epoch()
        self._began: float | None = None
        self._now = 0.0

    def begin_pass(self, now: float) -> None:
        """A pass over a split begins: from now on the accelerator waits for input, until the pass's first step."""
        self._now = now
        if self._began is None:
            self._began = now

    def step(self, span: Span, *, is_asked: bool = False) -> Advanced | None:
        """Adds a finished step, and the waiting before it; gives the word, where one is due or asked for."""
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
        """About how long the epoch will still take, at its pace so far. Validation is quicker than training, so it is less."""
        assert self._began is not None, "steps belong to a pass"
        done = self._sums.training_images + self._sums.validation_images
        return (self._now - self._began) * max(0, self._images - done) / done if done else math.inf

    def trained(self, images: int) -> None:
        """The ranks have come to the end of the training pass, with so many images more."""
        self._sums.training_images += images

    def exchanged(self, seconds: float) -> None:
        """Ranks averaged their statistics or summed their results: training time, as the exchange of gradients is."""
        self._sums.busy_seconds += seconds
        self._sums.communication_seconds += seconds

    def stood_still(self, seconds: float) -> None:
        """Training stood still while a checkpoint was copied."""
        self._sums.checkpoint_seconds += seconds

    def finish(self, now: float, training_images: int, validation_images: int) -> Advanced:
        """The epoch's final sums, with the images that all ranks counted.

        Other ranks may have processed more than had been heard of; sums never fall.
        """
        self._now = max(now, self._now)
        self._sums.training_images = max(self._sums.training_images, training_images)
        self._sums.validation_images = max(self._sums.validation_images, validation_images)
        return self._advanced()

    def _advanced(self) -> Advanced:
        self._reports.said(self._now)
        return Advanced(
            trial=self._reports.trial,
            attempt=self._reports.attempt,
            epoch=self._epoch,
            batch_size=self._batch_size,
            **asdict(self._sums),
        )
