"""Data sets with all pixels in memory. Batches are computed when needed: a thread would take processor time from training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.batches import Batch, Batches, DataPass
from aiperf.data.crops import shifts
from aiperf.data.pixels import Normaliser, PixelNoise, shifted, to_device

# Share of an accelerator's memory that a set may take. Larger sets stay on the host and are copied batch by batch.
_SHARE_OF_ACCELERATOR = 1 / 32


class PixelStore(Protocol):
    def gather(self, images: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Return the pixels of images, int64 (count,) on the CPU, on `device`: uint8 (count, height, width, channels)."""


class PixelsInMemory:
    """Pixels in memory: one tensor on the host, and a copy on each accelerator with enough free memory."""

    def __init__(self, images: torch.Tensor, rows: NDArray[np.int64] | None = None) -> None:
        """`rows`: indices (count,) of the valid images. None if all are valid."""
        assert images.dtype == torch.uint8 and images.dim() == 4, images.shape
        self._images = images
        self._rows = None if rows is None else torch.from_numpy(rows)
        self._resident: dict[torch.device, torch.Tensor] = {}

    def gather(self, images: torch.Tensor, device: torch.device) -> torch.Tensor:
        if self._rows is not None:
            images = self._rows[images]
        if device.type == "cpu":
            return self._images.index_select(0, images)
        if device not in self._resident and self._fits(device):
            self._resident[device] = self._images.to(device)
        if device in self._resident:
            return self._resident[device].index_select(0, to_device(images, device))
        # index_select into pinned memory, so that the copy to the device does not wait for what is enqueued there
        rows = torch.empty((len(images), *self._images.shape[1:]), dtype=torch.uint8, pin_memory=device.type == "cuda")
        return to_device(torch.index_select(self._images, 0, images, out=rows), device)

    def _fits(self, device: torch.device) -> bool:
        if device.type != "cuda":
            return False
        return self._images.nbytes <= torch.cuda.get_device_properties(device).total_memory * _SHARE_OF_ACCELERATOR


@dataclass(slots=True)
class InMemory:
    pixels: PixelStore
    labels: NDArray[np.int64]
    normalise: Normaliser
    padding: int = 0
    """Pixels added at each side before a random crop and flip."""
    noise: PixelNoise | None = None
    """New in each training epoch."""
    flips: bool = True

    @property
    def images(self) -> int:
        return len(self.labels)

    def walk(self, walk: DataPass) -> Batches:
        return _InlineBatches(self, walk)

    def prime(self, walk: DataPass) -> None:
        """Do nothing, because batches from memory need no preparation."""

    def close(self) -> None:
        """Do nothing, because the split holds memory only."""

    def batch(self, walk: DataPass, mine: NDArray[np.int64], of_all_ranks: int) -> Batch:
        numbers = torch.from_numpy(mine.copy())  # the order is shared, and read-only
        pixels = self.pixels.gather(numbers, walk.device)
        if walk.augment and self.padding:
            pixels = shifted(pixels, shifts(mine, self.padding, walk.seed, walk.epoch, flips=self.flips), self.padding)
        if walk.is_training and self.noise is not None:
            pixels = self.noise.added(pixels, mine, walk.seed, walk.epoch)
        labels = to_device(torch.from_numpy(self.labels[mine]), walk.device)
        images = self.normalise(pixels, walk.dtype, walk.channels_last)
        return Batch(images, labels, len(mine), of_all_ranks, mine)


class _InlineBatches(Batches):
    def __init__(self, split: InMemory, walk: DataPass) -> None:
        super().__init__(walk, split.images)
        self._split = split

    def __next__(self) -> Batch:
        step = self._next_step()
        return self._split.batch(self._walk, self._mine(step), step.images)
