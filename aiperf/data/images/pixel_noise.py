"""Noise on the pixels of real images. The noise of an image is a function of (seed, epoch, image)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.images.transfer import to_device
from aiperf.data.visiting_order import draws

_BANK = 4096
_SALT_BANK, _SALT_CHOICE = 21, 22


class PixelNoise:
    """A bank of nearly normal noises, the same on every machine."""

    def __init__(self, shape: tuple[int, int, int], deviation: float) -> None:
        """`shape`: height, width, channels. `deviation`: as a share of a pixel's range."""
        # Sum of four uniform draws, scaled to deviation 1.
        even = draws(np.arange(_BANK * int(np.prod(shape)), dtype=np.int64), 4, _SALT_BANK).sum(1)
        noise = np.rint((even.reshape(_BANK, *shape) - 2) * (np.sqrt(3) * deviation * 255))
        self._bank = torch.from_numpy(noise.astype(np.int16))
        self._on: dict[torch.device, torch.Tensor] = {}

    def added(self, pixels: torch.Tensor, images: NDArray[np.int64], seed: int, epoch: int) -> torch.Tensor:
        """Return uint8 pixels (count, height, width, channels) with noise, clipped to 0..255.

        `pixels`: same shape and type. `images`: their indices (count,).
        """
        if pixels.device not in self._on:
            self._on[pixels.device] = self._bank.to(pixels.device)
        bank = self._on[pixels.device]
        chosen = (draws(images, 1, seed, epoch, _SALT_CHOICE)[:, 0] * _BANK).astype(np.int64)
        return (bank[to_device(torch.from_numpy(chosen), pixels.device)] + pixels).clamp_(0, 255).to(torch.uint8)
