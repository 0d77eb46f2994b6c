"""Crops of an image: random for training, fixed for validation. Geometry only, no pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aiperf.data.visiting_order import draws

# Different salts give different random numbers for the same image and epoch.
_SALT_RESIZED = 1
_SALT_PAD = 2

_ATTEMPTS = 10
_LOG_RATIO = (math.log(3 / 4), math.log(4 / 3))
_AREA = (0.08, 1.0)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of a stored image, in its pixels. It is scaled to the network's size and optionally mirrored."""

    top: int
    left: int
    height: int
    width: int
    is_mirrored: bool = False


class Crop(Protocol):
    """Rule that selects the rectangle of each stored image that the network receives."""

    def numbers(self, images: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.float64]:
        """Random numbers in [0, 1) for the rectangles of images, (images, numbers per image), by number, seed and epoch."""

    def box(self, height: int, width: int, numbers: NDArray[np.float64]) -> Box:
        """Return the rectangle of one stored image that is scaled to the input. `numbers`: the row of the method `numbers`."""
        ...


@dataclass(frozen=True, slots=True)
class ResizedCrop:
    """Random resized crop of GoogLeNet (Szegedy et al. 2014).

    8–100 % of the area at an aspect ratio of 3/4 to 4/3, and a flip. torchvision's rules: ten attempts, then the
    largest legal box at the centre.
    """

    def numbers(self, images: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.float64]:
        return draws(images, 2 * _ATTEMPTS + 3, seed, epoch, _SALT_RESIZED)

    def box(self, height: int, width: int, numbers: NDArray[np.float64]) -> Box:
        u = numbers.tolist()
        is_mirrored = u[-1] < 0.5
        for attempt in range(_ATTEMPTS):
            area = height * width * (_AREA[0] + (_AREA[1] - _AREA[0]) * u[2 * attempt])
            ratio = math.exp(_LOG_RATIO[0] + (_LOG_RATIO[1] - _LOG_RATIO[0]) * u[2 * attempt + 1])
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                return Box(int(u[-3] * (height - h + 1)), int(u[-2] * (width - w + 1)), h, w, is_mirrored)
        w = min(width, round(height * 4 / 3))
        h = min(height, round(width * 4 / 3))
        return Box((height - h) // 2, (width - w) // 2, h, w, is_mirrored)


@dataclass(frozen=True, slots=True)
class CentreCrop:
    """Centre square with a side of `share` of the shorter side: 224/256 for ImageNet, 1 for the whole."""

    share: float

    def numbers(self, images: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.float64]:
        return np.zeros((len(images), 0))

    def box(self, height: int, width: int, numbers: NDArray[np.float64]) -> Box:
        side = max(1, round(min(height, width) * self.share))
        return Box((height - side) // 2, (width - side) // 2, side, side)


@dataclass(frozen=True, slots=True)
class Shifts:
    top: NDArray[np.int64]
    left: NDArray[np.int64]
    is_mirrored: NDArray[np.bool_]


def shifts(images: NDArray[np.int64], padding: int, seed: int, epoch: int, *, flips: bool = True) -> Shifts:
    """Return random positions from 0 to 2 · padding pixels, equal for equal images, seed and epoch. `flips`: mirror half."""
    u = draws(images, 3, seed, epoch, _SALT_PAD)
    places = (u[:, :2] * (2 * padding + 1)).astype(np.int64)
    return Shifts(places[:, 0], places[:, 1], (u[:, 2] < 0.5) & flips)
