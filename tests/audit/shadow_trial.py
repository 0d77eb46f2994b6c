"""Auditor's counts of one trial's work: images, epochs and results, each image of an epoch once.

It shares no code with interpret, the work log and score, so that a mistake there is not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiperf.journal.events import BatchReduced, EpochFinished, Progress, TrialStarted, Work
from tests.audit.laws import LOST, ONCE, SCORE, BrokenLaw
from tests.audit.true_work import Sums


@dataclass(frozen=True, slots=True)
class Row:
    """Counted interval."""

    start: float
    end: float
    training: int
    validation: int


@dataclass(slots=True)
class ShadowTrial:
    """Counts of one trial over all its attempts. Each method takes an event and raises BrokenLaw if it breaks a law."""

    operations: tuple[int, int]
    """Operations of one image in training and in validation."""
    saved: int = 0
    """Last epoch with a checkpoint."""
    epoch: int = 1
    """Current epoch."""
    batch_size: int = 0
    """Batch size of the current pass."""
    whole: tuple[int, int] = (0, 0)
    """Training and validation images of an epoch of the attempt."""
    images: tuple[int, int] = (0, 0)
    """Images of the current pass so far."""
    validation_losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    rows: dict[int, list[Row]] = field(default_factory=dict)
    """Counted rows by epoch."""
    _done_by: dict[int, int] = field(default_factory=dict)
    """Attempt of each epoch's rows."""

    def begin(self, event: TrialStarted) -> None:
        """Start an attempt after the last saved epoch, and remove later counts."""
        if event.epoch != self.saved + 1:
            raise BrokenLaw(
                LOST,
                f"trial {event.trial} continues with epoch {event.epoch}, but epoch {self.saved} was saved last",
                event.trial,
            )
        self.epoch, self.batch_size, self.images = event.epoch, event.batch_size, (0, 0)
        del self.validation_losses[event.epoch - 1 :], self.accuracies[event.epoch - 1 :]

    def restart_epoch(self, event: BatchReduced) -> None:
        """Out of memory: remove the counts of the epoch."""
        self.rows.pop(self.epoch, None)
        self.batch_size, self.images = event.to_batch_size, (0, 0)

    def book(self, event: Progress | EpochFinished, work: Work, reached: Collection[Sums] | None) -> None:
        """Add an interval. `reached`: sums that the attempt truly reported, if known."""
        if event.epoch != self.epoch:
            raise BrokenLaw(ONCE, f"trial {event.trial} is in epoch {self.epoch}, not {event.epoch}", event.trial)
        for name in ("busy", "communication", "validation", "input", "checkpoint"):
            seconds = getattr(work, f"{name}_seconds")
            if not 0 <= seconds <= work.end - work.start:
                raise BrokenLaw(SCORE, f"{seconds!r} s {name} in {work.end - work.start!r} s", event.trial)
        images = (self.images[0] + work.training_images, self.images[1] + work.validation_images)
        if not self._can_be(images, reached) or min(work.training_images, work.validation_images) < 0:
            known = "" if reached is None else f" reported (training, validation, batch) {sorted(reached)}"
            raise BrokenLaw(
                ONCE,
                f"{images} images of epoch {event.epoch} of trial {event.trial} are booked at batch {self.batch_size}. Attempt "
                f"{event.attempt}{known or f' has epochs of {self.whole}'}",
                event.trial,
            )
        self.images = images
        if self._done_by.get(event.epoch) != event.attempt:
            self._done_by[event.epoch] = event.attempt
            self.rows[event.epoch] = []
        row = Row(work.start, work.end, work.training_images, work.validation_images)
        self.rows.setdefault(event.epoch, []).append(row)

    def _can_be(self, images: tuple[int, int], reached: Collection[Sums] | None) -> bool:
        if reached is None:
            return images[0] <= self.whole[0] and images[1] <= self.whole[1]
        if images == self.whole:
            # The message of a finished epoch may arrive after the restart of the next one with a smaller batch.
            return any((training, validation) == images for training, validation, _ in reached)
        return (*images, self.batch_size) in reached

    def end_epoch(self, event: EpochFinished) -> None:
        """Check that all images of the epoch are counted."""
        if event.epoch != self.epoch:
            raise BrokenLaw(
                ONCE, f"epoch {event.epoch} of trial {event.trial} ended in epoch {self.epoch}", event.trial
            )
        if self.images != self.whole:
            raise BrokenLaw(
                LOST,
                f"epoch {event.epoch} of trial {event.trial} ended with {self.images} images booked, of {self.whole}",
                event.trial,
            )
        assert event.validation_loss is not None, "a simulated network is a graph"
        self.validation_losses.append(event.validation_loss)
        self.accuracies.append(event.accuracy)
        if event.checkpoint:
            self.saved = event.epoch
        self.epoch += 1
        self.images = (0, 0)

    def is_over(self, schedule: Mapping[str, Any], round_: int) -> bool:
        """Return True if the trial is over by a schedule's rounds and patience."""
        return _is_over(schedule, round_, self.validation_losses)

    def nears_its_end(self, schedule: Mapping[str, Any], round_: int) -> bool:
        """Return True if the current epoch may be the last, which it is if the loss does not fall."""
        return _is_over(schedule, round_, [*self.validation_losses, math.inf])


def _is_over(schedule: Mapping[str, Any], round_: int, losses: Sequence[float]) -> bool:
    epochs = schedule["epochs"]
    if len(losses) >= epochs[min(round_, len(epochs)) - 1]:
        return True
    best, since = math.inf, 0
    for loss in losses:
        best, since = (loss, 0) if loss < best - schedule["improvement"] else (best, since + 1)
    patience: int = schedule["patience"] + schedule["patience_step"] * (round_ - 1)
    largest: int = schedule["largest_patience"]
    return since >= min(patience, largest)
