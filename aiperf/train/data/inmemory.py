"""Sets that stand in memory as pixels: each batch is a few tensor operations, done where and when it is needed.

No thread takes part: on a processor that trains, one would only take time from the training; on an accelerator the
operations are enqueued in microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.train.data.batches import Batch, Batches, Pass
from aiperf.train.data.crops import shifts
from aiperf.train.data.order import Step
from aiperf.train.data.pixels import Normaliser, shifted

# Share of an accelerator's memory that a set may take; larger sets stay on the host and are copied batch by batch.
_SHARE_OF_ACCELERATOR = 1 / 32


class Pixels(Protocol):
    """Images as bytes, by their number."""

    @property
    def nbytes(self) -> int: ...
    def gather(self, images: torch.Tensor, device: torch.device) -> torch.Tensor:
        """uint8 (count, height, width, channels) on `device`, of the images numbered by an int64 tensor on the host."""
        ...


class Stored:
    """Pixels that are held: one tensor on the host, and a copy on each accelerator that has room for it."""

    def __init__(self, images: torch.Tensor, rows: NDArray[np.int64] | None = None) -> None:
        """`images`: uint8 (images, height, width, channels); `rows`: the ones that count, where some are corrupt."""
        assert images.dtype == torch.uint8 and images.dim() == 4, images.shape
        self._images = images
        self._rows = None if rows is None else torch.from_numpy(rows)
        self._resident: dict[torch.device, torch.Tensor] = {}

    @property
    def nbytes(self) -> int:
        return self._images.nbytes

    def gather(self, images: torch.Tensor, device: torch.device) -> torch.Tensor:
        if self._rows is not None:
            images = self._rows[images]
        if device.type == "cpu":
            return self._images.index_select(0, images)
        if device not in self._resident and self._fits(device):
            self._resident[device] = self._images.to(device)
        if device in self._resident:
            return self._resident[device].index_select(0, images.to(device, non_blocking=True))
        # index_select into pinned memory, so that the copy to the device does not wait for what is enqueued there
        rows = torch.empty((len(images), *self._images.shape[1:]), dtype=torch.uint8, pin_memory=device.type == "cuda")
        return torch.index_select(self._images, 0, images, out=rows).to(device, non_blocking=True)

    def _fits(self, device: torch.device) -> bool:
        if device.type != "cuda":
            return False
        return self.nbytes <= torch.cuda.get_device_properties(device).total_memory * _SHARE_OF_ACCELERATOR


class InMemory:
    """A split whose images are pixels in memory."""

    def __init__(self, pixels: Pixels, labels: NDArray[np.int64], normalise: Normaliser, padding: int = 0) -> None:
        """`padding`: pixels added at each side before training images are cut back at random and flipped; 0: neither."""
        self._pixels = pixels
        self._labels = torch.from_numpy(labels)
        self._normalise = normalise
        self._padding = padding

    @property
    def images(self) -> int:
        return len(self._labels)

    def walk(self, walk: Pass) -> Batches:
        return _InlineBatches(self, walk)

    def prime(self, walk: Pass) -> None:
        """Nothing needs preparing but the order, which is kept."""
        walk.order(self.images)

    def close(self) -> None:
        """Holds nothing but memory."""

    def batch(self, walk: Pass, order: NDArray[np.int64], step: Step) -> Batch:
        """One rank's batch of a step."""
        mine = order[step.share(walk.rank, walk.ranks)]
        numbers = torch.from_numpy(mine.copy())  # the order is shared, and read-only
        pixels = self._pixels.gather(numbers, walk.device)
        if walk.augment and self._padding:
            pixels = shifted(pixels, shifts(mine, self._padding, walk.seed, walk.epoch), self._padding)
        labels = self._labels[numbers].to(walk.device, non_blocking=True)
        images = self._normalise(pixels, walk.dtype, walk.channels_last)
        return Batch(images, labels, len(mine), step.images)


class _InlineBatches:
    def __init__(self, split: InMemory, walk: Pass) -> None:
        self._split = split
        self._walk = walk
        self._order = walk.order(split.images)
        self._steps = walk.steps(split.images)
        self._next = 0
        self.waited_seconds = 0.0

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._next == len(self._steps):
            raise StopIteration
        began = time.perf_counter()
        batch = self._split.batch(self._walk, self._order, self._steps[self._next])
        self._next += 1
        self.waited_seconds += time.perf_counter() - began
        return batch

    def close(self) -> None:
        self._next = len(self._steps)
