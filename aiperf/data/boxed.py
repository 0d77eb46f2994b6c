"""Batches of images with boxes (object detection in weather images), read and normalised by threads."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.batches import Batch, Batches, DataPass
from aiperf.data.pixels import to_device
from aiperf.data.visiting_order import draws

_SALT_ROLL = 31

Floats = NDArray[np.float32]


class BoxedImages(Protocol):
    """Images of a split with the boxes of their objects. `read` may be called from many threads."""

    boxes: NDArray[np.int32]
    """(images, BOX_ROWS, 5): ymin, xmin, ymax, xmax, class from 0. Empty rows are −1."""

    def read(self, image: int) -> Floats:
        """Return an image in FP32, not normalised, (channels, height, width). Raise DamagedData if it cannot be read."""
        ...

    def close(self) -> None:
        """Close the files of the images. Call it after the last `read`."""
        ...


def targets_of(boxes: NDArray[np.int32], roll: int = 0, width: int = 0) -> Floats:
    """Return the targets of an image, FP32 (rows, 5): x1, y1, x2, y2 in pixels and the class from 1. Empty rows are zero.

    `boxes`: (rows, 5) with ymin, xmin, ymax, xmax in pixels and the class from 0, −1 for an empty row. `roll`: pixels by which
    the image was rolled to the right. `width`: of the image, required with `roll`.
    """
    used = boxes[boxes[:, 4] >= 0].astype(np.float32)
    targets = np.zeros((len(boxes), 5), np.float32)
    left = (used[:, 1] + roll) % width if roll else used[:, 1]
    columns = (left, used[:, 0], left + used[:, 3] - used[:, 1], used[:, 2], used[:, 4] + 1)
    targets[: len(used)] = np.stack(columns, axis=1)
    return targets


def uncut_rolls(boxes: NDArray[np.int32], width: int) -> NDArray[np.int64]:
    """Return the distances by which an image can be rolled to the right without cutting a box at the edge."""
    is_free = np.ones(width, np.bool_)  # by the column that becomes the first
    for _, left, _, right, label in boxes.tolist():
        if label >= 0:
            is_free[left + 1 : right] = False
    return -np.flatnonzero(is_free) % width


class BoxedSplit:
    """Training or validation images with boxes. Threads read and normalise them some batches before they are needed."""

    def __init__(
        self,
        images: BoxedImages,
        mean: NDArray[np.float64],
        deviation: NDArray[np.float64],
        pool: ThreadPoolExecutor,
        ahead: int,
    ) -> None:
        """`mean`, `deviation`: by channel, (channels,). `ahead`: number of batches that are prepared in advance."""
        self._images = images
        self._scale = (1 / deviation).astype(np.float32)[:, None, None]
        self._shift = (-mean / deviation).astype(np.float32)[:, None, None]
        self.pool = pool
        self.ahead = ahead
        self._primed: tuple[DataPass, _BoxedBatches] | None = None

    @property
    def images(self) -> int:
        return len(self._images.boxes)

    def walk(self, walk: DataPass) -> Batches:
        primed, self._primed = self._primed, None
        if primed is not None and primed[0] == walk:
            return primed[1]
        return _BoxedBatches(self, walk)

    def prime(self, walk: DataPass) -> None:
        if self._primed is None or self._primed[0] != walk:
            self._primed = (walk, _BoxedBatches(self, walk))

    def close(self) -> None:
        self._images.close()

    def image(self, number: int, walk: DataPass) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a normalised image (channels, height, width) and its targets (BOX_ROWS, 5). Augmentation rolls it."""
        pixels = self._images.read(number) * self._scale
        pixels += self._shift
        boxes = self._images.boxes[number]
        if not walk.augment:
            return torch.from_numpy(pixels), torch.from_numpy(targets_of(boxes))
        width = pixels.shape[2]
        possible = uncut_rolls(boxes, width)
        (drawn,) = draws(np.array([number]), 1, walk.seed, walk.epoch, _SALT_ROLL)[0]
        roll = int(possible[int(drawn * len(possible))])
        return torch.from_numpy(np.roll(pixels, roll, axis=2)), torch.from_numpy(targets_of(boxes, roll, width))


class _BoxedBatches(Batches):
    def __init__(self, split: BoxedSplit, walk: DataPass) -> None:
        super().__init__(walk, split.images)
        self._split = split
        self._reading: deque[list[Future[tuple[torch.Tensor, torch.Tensor]]]] = deque()
        self._fill()

    def __next__(self) -> Batch:
        step, walk = self._next_step(), self._walk
        read = [image.result() for image in self._reading.popleft()]
        self._fill()
        images = torch.stack([image for image, _ in read]).to(walk.dtype)
        layout = torch.channels_last if walk.channels_last else torch.contiguous_format
        targets = torch.stack([boxes for _, boxes in read])
        return Batch(
            to_device(images.contiguous(memory_format=layout), walk.device),
            to_device(targets, walk.device),
            len(read),
            step.images,
            self._mine(step),
        )

    def close(self) -> None:
        super().close()
        for image in (image for batch in self._reading for image in batch):
            image.cancel()
        self._reading.clear()

    def _fill(self) -> None:
        while len(self._reading) < self._split.ahead and self._next + len(self._reading) < len(self._steps):
            mine = self._mine(self._steps[self._next + len(self._reading)])
            self._reading.append(
                [self._split.pool.submit(self._split.image, number, self._walk) for number in mine.tolist()]
            )
