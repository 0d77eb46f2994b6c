"""Sets with their pixels in memory. A batch is made by a few tensor operations when it is needed.

No thread is used: on a CPU it would take time from training, and on an accelerator the operations are enqueued in
microseconds. A small set without augmentation is normalised once and reordered for each pass, so that a batch is a
slice. With noise it is also normalised in each pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.batches import Batch, Batches, DataPass
from aiperf.data.images.crops import shifts
from aiperf.data.images.pixels import Normaliser, PixelNoise, shifted, to_device
from aiperf.data.visiting_order import OrderStep

# Share of an accelerator's memory that a set may take. Larger sets stay on the host and are copied batch by batch.
_SHARE_OF_ACCELERATOR = 1 / 32


# Largest normalised set, in bytes, that is reordered at once: a copy takes about 1 ms. Between two steps the CPU caches hold
# the network, so a single batch takes 0.28 ms for 128 digits on one core, in a step of 48 ms (2-core AMD EPYC).
_SMALL = 4 * 2**20


class PixelStore(Protocol):
    """Images as bytes, by their index."""

    @property
    def nbytes(self) -> int: ...
    def gather(self, images: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Return uint8 (count, height, width, channels) on `device`. `images`: int64 indices (count,) on the host."""


class PixelsInMemory:
    """Pixels in memory: one tensor on the host, and a copy on each accelerator with enough free memory."""

    def __init__(self, images: torch.Tensor, rows: NDArray[np.int64] | None = None) -> None:
        """`images`: uint8 (images, height, width, channels).

        `rows`: indices (count,) of the valid images. None if all are valid.
        """
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
            return self._resident[device].index_select(0, to_device(images, device))
        # index_select into pinned memory, so that the copy to the device does not wait for what is enqueued there
        rows = torch.empty((len(images), *self._images.shape[1:]), dtype=torch.uint8, pin_memory=device.type == "cuda")
        return to_device(torch.index_select(self._images, 0, images, out=rows), device)

    def _fits(self, device: torch.device) -> bool:
        if device.type != "cuda":
            return False
        return self.nbytes <= torch.cuda.get_device_properties(device).total_memory * _SHARE_OF_ACCELERATOR


class InMemory:
    """A split of images that are pixels in memory."""

    def __init__(
        self,
        pixels: PixelStore,
        labels: NDArray[np.int64],
        normalise: Normaliser,
        padding: int = 0,
        noise: PixelNoise | None = None,
        flips: bool = True,
    ) -> None:
        """Read a split from memory.

        `padding`: pixels added at each side before training images are cropped at a random position and, with `flips`,
        mirrored with probability 1/2. 0 for neither. `noise`: added to training images, different in each epoch.
        """
        self._pixels = pixels
        self._labels = torch.from_numpy(labels)
        self._normalise = normalise
        self._padding = padding
        self._noise = noise
        self._flips = flips
        self._normalised: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}
        self._primed: _InlineBatches | None = None

    @property
    def images(self) -> int:
        return len(self._labels)

    def walk(self, walk: DataPass) -> Batches:
        primed, self._primed = self._primed, None
        if primed is not None and primed.walk == walk:
            return primed
        return _InlineBatches(self, walk)

    def prime(self, walk: DataPass) -> None:
        """Prepare the pass's order and its first batch."""
        self._primed = _InlineBatches(self, walk)
        self._primed.make_first()

    def close(self) -> None:
        """Do nothing, because only memory is held."""

    def batch(self, walk: DataPass, order: NDArray[np.int64], step: OrderStep) -> Batch:
        """Return one rank's batch of a step. `order`: (images,)."""
        mine = order[step.share(walk.rank, walk.ranks)]
        numbers = torch.from_numpy(mine.copy())  # the order is shared, and read-only
        pixels = self._pixels.gather(numbers, walk.device)
        if walk.augment and self._padding:
            pixels = shifted(
                pixels, shifts(mine, self._padding, walk.seed, walk.epoch, flips=self._flips), self._padding
            )
        if walk.is_training and self._noise is not None:
            pixels = self._noise.added(pixels, mine, walk.seed, walk.epoch)
        labels = to_device(self._labels[numbers], walk.device)
        images = self._normalise(pixels, walk.dtype, walk.channels_last)
        return Batch(images, labels, len(mine), step.images)

    def laid_out(self, walk: DataPass, order: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return all normalised images (images, channels, height, width) and labels (images,) in the order of a pass.

        None for a set that is augmented or not small.
        """
        if walk.augment and self._padding:
            return None
        device, dtype = walk.device, walk.dtype
        if self.images * self._normalise.values * dtype.itemsize > _SMALL:
            return None
        if walk.is_training and self._noise is not None:
            numbers = torch.from_numpy(order.copy())  # it is shared, and read-only
            pixels = self._noise.added(self._pixels.gather(numbers, device), order, walk.seed, walk.epoch)
            return self._normalise(pixels, dtype, walk.channels_last), to_device(self._labels[numbers], device)
        if (device, dtype) not in self._normalised:
            pixels = self._pixels.gather(torch.arange(self.images), device)
            self._normalised[device, dtype] = self._normalise(pixels, dtype, channels_last=True)
        rows, labels = self._normalised[device, dtype].permute(0, 2, 3, 1), self._labels
        if walk.is_training:  # else the order is that of the set
            numbers = torch.from_numpy(order.copy())  # it is shared, and read-only
            rows, labels = rows.index_select(0, to_device(numbers, device)), labels[numbers]
        layout = torch.channels_last if walk.channels_last else torch.contiguous_format
        return rows.permute(0, 3, 1, 2).contiguous(memory_format=layout), to_device(labels, device)


class _InlineBatches:
    def __init__(self, split: InMemory, walk: DataPass) -> None:
        self.walk = walk
        self._split = split
        self._order = walk.order(split.images)
        self._steps = walk.steps(split.images)
        self._laid_out = split.laid_out(walk, self._order)
        self._first: Batch | None = None
        self._next = 0

    def make_first(self) -> None:
        self._first = self._batch(self._steps[0])

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._next == len(self._steps):
            raise StopIteration
        batch, self._first = self._first or self._batch(self._steps[self._next]), None
        self._next += 1
        return batch

    def _batch(self, step: OrderStep) -> Batch:
        if self._laid_out is None:
            return self._split.batch(self.walk, self._order, step)
        mine = step.share(self.walk.rank, self.walk.ranks)
        images, labels = self._laid_out
        return Batch(images[mine], labels[mine], mine.stop - mine.start, step.images)

    def close(self) -> None:
        self._next = len(self._steps)
        self._first = None
