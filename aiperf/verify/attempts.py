"""What is known of the attempts that are running, line by line: the fold that checks of every interval look at.

It keeps less than the rules' state (`aiperf.rules.state`), and costs a fraction of it: a long run has two million intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiperf.journal.events import (
    BatchReduced,
    EpochFinished,
    ImagesSkipped,
    Progress,
    TrialPrepared,
    TrialStarted,
    WorkerJoined,
)


def whole_epoch(images: int, batch_size: int, ranks: int) -> int:
    """Training images of an epoch in whole steps; a set smaller than one step is one step (docs/benchmark.md, "What counts").

    >>> whole_epoch(1000, 128, 2), whole_epoch(100, 128, 2)
    (768, 100)
    """
    step = batch_size * ranks
    return images // step * step or images


@dataclass(slots=True)
class Attempt:
    """One that is running, or was lost and not begun again."""

    worker: int
    ranks: int
    batch_size: int
    batches: set[int]
    """All that it had: the word of an epoch that has ended may come after that of a smaller batch."""
    worked: float
    """End of its last interval; before its first, when it was prepared or ordered."""
    has_worked: bool = False
    training_images: int = 0
    """Of the epoch in progress."""
    validation_images: int = 0


@dataclass(slots=True)
class Attempts:
    """Attempts by trial, as they stand before the line that is looked at; `take` it afterwards."""

    running: dict[int, Attempt] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    """Of each worker that ever was."""
    skipped: int = 0
    """Corrupt images, as far as they are known."""

    def handlers(self) -> Mapping[type, Callable[[Any], None]]:
        """What it does with which event."""
        return {
            Progress: self._progress,
            EpochFinished: self._epoch,
            TrialStarted: self._started,
            TrialPrepared: self._prepared,
            BatchReduced: self._reduced,
            WorkerJoined: self._joined,
            ImagesSkipped: self._skipped,
        }

    def _progress(self, event: Progress) -> None:
        attempt = self.running[event.trial]
        attempt.worked, attempt.has_worked = event.end, True
        attempt.training_images += event.training_images
        attempt.validation_images += event.validation_images

    def _epoch(self, event: EpochFinished) -> None:
        attempt = self.running[event.trial]
        if event.interval is not None:
            attempt.worked, attempt.has_worked = event.interval.end, True
        attempt.training_images = attempt.validation_images = 0

    def _started(self, event: TrialStarted) -> None:
        ranks, batch = self.ranks[event.worker], event.batch_size
        self.running[event.trial] = Attempt(event.worker, ranks, batch, {batch}, event.at)

    def _prepared(self, event: TrialPrepared) -> None:
        attempt = self.running[event.trial]
        attempt.ranks = event.ranks
        if not attempt.has_worked:
            attempt.worked = event.at

    def _reduced(self, event: BatchReduced) -> None:
        attempt = self.running[event.trial]
        attempt.batch_size = event.to_batch_size
        attempt.batches.add(event.to_batch_size)
        attempt.training_images = attempt.validation_images = 0

    def _joined(self, event: WorkerJoined) -> None:
        self.ranks[event.worker] = event.ranks

    def _skipped(self, event: ImagesSkipped) -> None:
        self.skipped = max(self.skipped, event.images)
