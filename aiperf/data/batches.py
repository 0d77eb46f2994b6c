"""Interfaces between data sets and training: batches of images on a device, in one pass over training or validation images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NotRequired, Protocol, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.visiting_order import OrderStep, shuffled, steps, training_steps


@dataclass(frozen=True, slots=True)
class Batch:
    """Images and targets of one rank (process that trains on one accelerator) in one step."""

    images: torch.Tensor
    """(count, channels, height, width), normalised, in the requested dtype and on the requested device."""
    targets: torch.Tensor
    """Values that the network learns, by image, on the same device.

    Classification: (count,) int64. Detection: (count, rows, 5) float32 with x1, y1, x2, y2 in pixels and the class from 1.
    Empty rows are zero and follow the others.
    """
    count: int
    """Images in this batch. Less than requested in the last step, or if a corrupt image was skipped."""
    global_count: int
    """Images of all ranks in this step. Weigh a rank's gradient by count · ranks / global_count for the exact mean. Corrupt
    images that a rank skips are included."""
    numbers: NDArray[np.int64]
    """Numbers of the images in their split (count,), from 0."""


Waiting = Callable[[], AbstractContextManager[None]]


class RankBatches(TypedDict):
    rank: int
    ranks: int
    device: torch.device
    channels_last: bool
    """True: channels are the last dimension in memory (torch.channels_last)."""
    dtype: torch.dtype
    waiting: NotRequired[Waiting]
    """For the waits of dataset.decoder=gpu. Default: they are not reported."""


@dataclass(frozen=True, slots=True)
class DataPass:
    """Parameters of one pass of one rank (training process) over a split. Equal passes give equal batches."""

    batch: int
    rank: int
    ranks: int
    device: torch.device
    channels_last: bool
    dtype: torch.dtype
    is_training: bool
    """True: shuffled and augmented. False: in the order of the files, with centre crops."""
    augment: bool
    epoch: int = 0
    seed: int = 0
    waiting: Waiting = nullcontext

    def __post_init__(self) -> None:
        assert 0 <= self.rank < self.ranks and self.batch > 0, self

    def order(self, images: int) -> NDArray[np.int64]:
        """Return the numbers of all images in the order of this pass, the same for every rank."""
        return shuffled(images, self.seed, self.epoch) if self.is_training else np.arange(images)

    def steps(self, images: int) -> tuple[OrderStep, ...]:
        """Return ranges of positions in the order of the images. Raise DataError for fewer images than ranks."""
        cut = training_steps if self.is_training else steps
        return cut(images, self.batch, self.ranks)


class Batches(ABC):
    """Iterator over the batches of one rank in one pass, in the order of the steps. Its length is the number of steps."""

    def __init__(self, walk: DataPass, images: int) -> None:
        self._walk = walk
        self._order = walk.order(images)
        self._steps = walk.steps(images)
        self._next = 0

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Batch]:
        return self

    @abstractmethod
    def __next__(self) -> Batch: ...

    def close(self) -> None:
        """End the pass and discard the batches that were prepared in advance. Iteration ends then."""
        self._next = len(self._steps)

    def _next_step(self) -> OrderStep:
        if self._next == len(self._steps):
            raise StopIteration
        self._next += 1
        return self._steps[self._next - 1]

    def _mine(self, step: OrderStep) -> NDArray[np.int64]:
        return self._order[step.share(self._walk.rank, self._walk.ranks)]


class Split(Protocol):
    """Split of an opened data set: its training images or its validation images."""

    @property
    def images(self) -> int: ...

    def walk(self, walk: DataPass) -> Batches:
        """Return an iterator over the batches of the pass `walk`. Batches that `prime` has prepared for an equal pass are used.

        Raise DataError for fewer images than ranks. The iterator raises DataError if files are damaged or were changed. Both
        raise BadConfiguration if dataset.decoder=gpu is impossible here.
        """

    def prime(self, walk: DataPass) -> None:
        """Begin to prepare the first batches of the pass `walk` in background threads, and return at once.

        A later call of `walk` with an equal pass uses these batches. A split in memory does nothing. Raise the
        errors of `walk`.
        """

    def close(self) -> None:
        """Close the files and release the memory of the split. Call it after the last pass."""
        ...
