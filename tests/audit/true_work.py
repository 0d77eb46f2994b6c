"""Truth about the images in a journal: the true work of simulated workers, or the possible work of real ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from aiperf.data.description import DataSet
from tests.audit.ground_truth import GroundTruth

Sums = tuple[int, int, int]
"""Training images, validation images, and the batch size of their pass."""


class TrueWork(Protocol):
    """Knowledge about the work from outside the journal."""

    def whole_epoch(self, batch_size: int, ranks: int) -> tuple[int, int]:
        """Return training and validation images of an epoch of such steps."""
        ...

    def reached(self, trial: int, attempt: int, epoch: int) -> Collection[Sums] | None:
        """Return the sums that the attempt reported in that epoch. None if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Simulated:
    """Simulated workers: all work is known. Their epochs use all images."""

    ground_truth: GroundTruth
    task: DataSet

    def whole_epoch(self, batch_size: int, ranks: int) -> tuple[int, int]:
        """See `TrueWork`."""
        return self.task.training_images, self.task.validation_images

    def reached(self, trial: int, attempt: int, epoch: int) -> Collection[Sums] | None:
        """See `TrueWork`."""
        return self.ground_truth.sums[trial, attempt].get(epoch, set())


@dataclass(frozen=True, slots=True)
class Real:
    """Real workers: only the journal is known. Their epochs have whole steps (docs/benchmark.md, "What counts")."""

    task: DataSet

    def whole_epoch(self, batch_size: int, ranks: int) -> tuple[int, int]:
        """See `TrueWork`. A set smaller than one step is one step."""
        step, images = batch_size * ranks, self.task.training_images
        return (images // step * step or images), self.task.validation_images

    def reached(self, trial: int, attempt: int, epoch: int) -> Collection[Sums] | None:
        """See `TrueWork`."""
        return None
