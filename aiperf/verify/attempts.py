"""Running attempts, line by line, for the checks of intervals: smaller and faster than `aiperf.rules.state`."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiperf.journal import events
from aiperf.verify.check import handles


def whole_epoch(images: int, batch_size: int, ranks: int) -> int:
    """Return the number of training images that an epoch processes, which fill whole steps.

    `images`: size of the training set. `batch_size`: images per rank and step. A set smaller than one step is one step
    (docs/benchmark.md).

    >>> whole_epoch(1000, 128, 2), whole_epoch(100, 128, 2)
    (768, 100)
    """
    step = batch_size * ranks
    return images // step * step or images


@dataclass(slots=True)
class OpenAttempt:
    """Attempt that runs, or that was lost and is not retried yet."""

    worker: int
    ranks: int
    batch_size: int
    batches: set[int]
    """All batch sizes of the attempt. The message of an epoch's end may arrive after that of a smaller batch."""
    worked: float
    """End of its last interval in seconds. Before the first: time of its preparation or order."""
    has_worked: bool = False
    training_images: int = 0
    """Training images in the current epoch so far."""
    validation_images: int = 0
    received: float = 0.0
    """Time of its last message in seconds, as seen by the driver's rules."""


@dataclass(slots=True)
class Attempts:
    """Running attempts by trial, before the current line. After its checks, pass each event to `handlers(attempts)`."""

    running: dict[int, OpenAttempt] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    """Ranks of each worker, also of lost ones."""
    skipped: int = 0
    """Known corrupt images."""

    @handles(events.CheckpointWritten, events.CheckpointNotWritten, events.TrialHeartbeat, events.StepsProfiled)
    def _received(
        self,
        event: events.CheckpointWritten | events.CheckpointNotWritten | events.TrialHeartbeat | events.StepsProfiled,
    ) -> None:
        self.running[event.trial].received = event.at

    @handles(events.Progress)
    def _progress(self, event: events.Progress) -> None:
        attempt = self.running[event.trial]
        attempt.worked, attempt.has_worked, attempt.received = event.end, True, event.at
        attempt.training_images += event.training_images
        attempt.validation_images += event.validation_images

    @handles(events.EpochFinished)
    def _epoch(self, event: events.EpochFinished) -> None:
        attempt = self.running[event.trial]
        if event.interval is not None:
            attempt.worked, attempt.has_worked = event.interval.end, True
        attempt.training_images = attempt.validation_images = 0
        attempt.received = event.at

    @handles(events.TrialStarted)
    def _started(self, event: events.TrialStarted) -> None:
        ranks, batch = self.ranks[event.worker], event.batch_size
        self.running[event.trial] = OpenAttempt(event.worker, ranks, batch, {batch}, event.at, received=event.at)

    @handles(events.TrialPrepared)
    def _prepared(self, event: events.TrialPrepared) -> None:
        attempt = self.running[event.trial]
        attempt.ranks, attempt.received = event.ranks, event.at
        if not attempt.has_worked:
            attempt.worked = event.at

    @handles(events.BatchReduced)
    def _reduced(self, event: events.BatchReduced) -> None:
        attempt = self.running[event.trial]
        attempt.batch_size = event.to_batch_size
        attempt.batches.add(event.to_batch_size)
        attempt.received = event.at
        attempt.training_images = attempt.validation_images = 0

    @handles(events.WorkerJoined)
    def _joined(self, event: events.WorkerJoined) -> None:
        self.ranks[event.worker] = event.ranks

    @handles(events.ImagesSkipped)
    def _skipped(self, event: events.ImagesSkipped) -> None:
        self.skipped = max(self.skipped, event.images)
