"""Interface of the trainer to the data: batches on its device, in one pass over a split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.visiting_order import OrderStep, shuffled, steps, training_steps


@dataclass(frozen=True, slots=True)
class Batch:
    """Images of one rank in one step."""

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
    numbers: NDArray[np.int64] | None = None
    """Numbers of the images in their split (count,). None if the set does not provide them."""


class RankBatches(TypedDict):
    """Properties that all batches of one rank share."""

    rank: int
    ranks: int
    device: torch.device
    channels_last: bool
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class DataPass:
    """One pass of one rank over a split. Equal passes give equal batches."""

    batch: int
    """Images of one rank in a step."""
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

    def __post_init__(self) -> None:
        assert 0 <= self.rank < self.ranks and self.batch > 0, self

    def order(self, images: int) -> NDArray[np.int64]:
        """Return the numbers of all images in the order of this pass, shape (images,), the same for every rank."""
        return shuffled(images, self.seed, self.epoch) if self.is_training else np.arange(images)

    def steps(self, images: int) -> tuple[OrderStep, ...]:
        """Return the steps of the pass as ranges of its order, the same for every rank. `images`: number of the split."""
        cut = training_steps if self.is_training else steps
        return cut(images, self.batch, self.ranks)


class Batches(Protocol):
    """Batches of one pass, in order. Closing early releases what was prepared ahead."""

    def __len__(self) -> int:
        """Return the steps of the pass, the same on every rank."""

    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def close(self) -> None: ...


class Split(Protocol):
    """Training or validation images of an opened set."""

    @property
    def images(self) -> int: ...
    def walk(self, walk: DataPass) -> Batches:
        """Return the batches of a pass. Batches prepared by `prime` are used."""

    def prime(self, walk: DataPass) -> None:
        """Begin to prepare a pass in the background and return at once, so that its first step need not wait."""

    def close(self) -> None: ...
