"""What a trainer is given: batches on its device, of one pass over a split, and the time it waited for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.visiting_order import Step, shuffled, steps, training_steps


@dataclass(frozen=True, slots=True)
class Batch:
    """One rank's images of one step."""

    images: torch.Tensor
    """(count, channels, height, width), normalised, on the device asked for."""
    labels: torch.Tensor
    """(count,) int64, on the same device."""
    count: int
    """Images in this batch; less than asked for in the last step, or where a corrupt image was skipped."""
    global_count: int
    """Images that all ranks together were dealt in this step: weigh a rank's gradient by count · ranks / global_count for
    the exact mean (a corrupt image that a rank skips is still in it)."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One walk of one rank over a split. Equal passes give equal batches."""

    batch: int
    """Images of one rank in a step."""
    rank: int
    ranks: int
    device: torch.device
    channels_last: bool
    dtype: torch.dtype
    is_training: bool
    """Shuffled and augmented; otherwise in the order of the files, with centre crops."""
    augment: bool
    epoch: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        assert 0 <= self.rank < self.ranks and self.batch > 0, self

    def order(self, images: int) -> NDArray[np.int64]:
        """The epoch's order of all images, the same for every rank."""
        return shuffled(images, self.seed, self.epoch) if self.is_training else np.arange(images)

    def steps(self, images: int) -> tuple[Step, ...]:
        """The steps of the pass, the same for every rank."""
        cut = training_steps if self.is_training else steps
        return cut(images, self.batch, self.ranks)


class Batches(Protocol):
    """The batches of one pass, in order. Closing early lets go of what was prepared ahead."""

    def __len__(self) -> int:
        """Steps of the pass, the same on every rank."""
        ...

    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def close(self) -> None: ...


class Split(Protocol):
    """The training or the validation images of an opened set."""

    @property
    def images(self) -> int: ...
    def walk(self, walk: Pass) -> Batches:
        """The batches of a pass, from its first; those prepared by `prime` are used."""
        ...

    def prime(self, walk: Pass) -> None:
        """Begins to prepare a pass in the background, so that its first step need not wait."""
        ...

    def close(self) -> None: ...
