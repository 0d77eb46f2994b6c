"""What the images of a journal are held to: what simulated workers truly did, or what those of a real run can have done."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from aiperf.simulate.model.ground_truth import GroundTruth
from aiperf.simulate.model.simulated_attempt import Task

Sums = tuple[int, int, int]
"""Training images, validation images, and the batch size of their pass."""


class TrueWork(Protocol):
    """What is known of the work besides the journal."""

    def whole_epoch(self, batch_size: int, ranks: int) -> tuple[int, int]:
        """Training and validation images of an epoch of such steps."""
        ...

    def reached(self, trial: int, attempt: int, epoch: int) -> Collection[Sums] | None:
        """What the attempt spoke of in that epoch; None where nobody else has heard it."""
        ...


@dataclass(frozen=True, slots=True)
class Simulated:
    """Simulated workers: all is known. Their epochs are of all images."""

    ground_truth: GroundTruth
    task: Task

    def whole_epoch(self, batch_size: int, ranks: int) -> tuple[int, int]:
        """See `TrueWork`."""
        return self.task.training_images, self.task.validation_images

    def reached(self, trial: int, attempt: int, epoch: int) -> Collection[Sums] | None:
        """See `TrueWork`."""
        return self.ground_truth.sums[trial, attempt].get(epoch, set())


@dataclass(frozen=True, slots=True)
class Real:
    """Real workers: the journal alone has heard them. Their epochs are of whole steps (docs/benchmark.md, "What counts")."""

    task: Task

    def whole_epoch(self, batch_size: int, ranks: int) -> tuple[int, int]:
        """See `TrueWork`. A set smaller than one step is one step."""
        step, images = batch_size * ranks, self.task.training_images
        return (images // step * step or images), self.task.validation_images

    def reached(self, trial: int, attempt: int, epoch: int) -> Collection[Sums] | None:
        """See `TrueWork`."""
        return None
