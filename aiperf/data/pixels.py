"""Operations on batches of pixels: padding, cropping, mirroring, noise and normalisation, on CPU or accelerator.

Inputs are bytes (count, height, width, channels), as decoders write them. Outputs are floats (count, channels, height, width).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.crops import Shifts
from aiperf.data.visiting_order import draws


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor on `device`. A copy to CUDA is asynchronous.

    A copy from memory that is not pinned waits for the stream, `non_blocking` or not (CUDA C++ programming guide, asynchronous
    concurrent execution). Pinned memory comes from torch's caching allocator and is not reused before the copy is complete.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)


def shifted(images: torch.Tensor, shifts: Shifts, padding: int) -> torch.Tensor:
    """Return each image padded with zeros, cropped to its size at its position, and mirrored if selected."""
    count, height, width, channels = images.shape
    padded = images.new_zeros((count, height + 2 * padding, width + 2 * padding, channels))
    padded[:, padding : padding + height, padding : padding + width] = images
    # Every window of every image as a view. Selecting one per image copies only the selected windows.
    row, column = padded.stride(1), padded.stride(2)
    windows = padded.as_strided(
        (count, 2 * padding + 1, 2 * padding + 1, height, width, channels),
        (padded.stride(0), row, column, row, column, 1),
    )
    device = images.device
    top, left = (to_device(torch.from_numpy(places), device) for places in (shifts.top, shifts.left))
    cut = windows[torch.arange(count, device=device), top, left]
    is_mirrored = to_device(torch.from_numpy(shifts.is_mirrored), device)
    return torch.where(is_mirrored[:, None, None, None], cut.flip(2), cut)


class Normaliser:
    """Conversion of pixels to (pixel / 255 − mean) / std of each channel. The constants are kept on each device."""

    def __init__(self, image: int, mean: Sequence[float], std: Sequence[float]) -> None:
        self._shape = (image, image, len(mean))
        # In the layout of an image, so that a batch is one long product: 8 times faster than broadcasting over channels.
        self._scale = torch.tensor([1 / (255 * s) for s in std], dtype=torch.float32).repeat(image * image)
        self._shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], dtype=torch.float32).repeat(
            image * image
        )
        self._on: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, images: torch.Tensor, dtype: torch.dtype, channels_last: bool) -> torch.Tensor:
        if images.device not in self._on:
            self._on[images.device] = (self._scale.to(images.device), self._shift.to(images.device))
        scale, shift = self._on[images.device]
        flat = images.reshape(len(images), -1).to(torch.float32).mul_(scale).add_(shift).to(dtype)
        planes = flat.view(-1, *self._shape).permute(0, 3, 1, 2)
        return planes.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)


_BANK = 4096
_SALT_BANK, _SALT_CHOICE = 21, 22


class PixelNoise:
    """Noise for images: a bank of 4096 noise images with nearly normal values, the same on every machine."""

    def __init__(self, shape: tuple[int, int, int], deviation: float) -> None:
        """`shape`: height, width, channels. `deviation`: as a share of a pixel's range."""
        # Sum of four uniform draws, scaled to deviation 1.
        even = draws(np.arange(_BANK * int(np.prod(shape)), dtype=np.int64), 4, _SALT_BANK).sum(1)
        noise = np.rint((even.reshape(_BANK, *shape) - 2) * (np.sqrt(3) * deviation * 255))
        self._bank = torch.from_numpy(noise.astype(np.int16))
        self._on: dict[torch.device, torch.Tensor] = {}

    def added(self, pixels: torch.Tensor, images: NDArray[np.int64], seed: int, epoch: int) -> torch.Tensor:
        """Return uint8 pixels with noise added, clipped to 0..255. Equal images, seed and epoch give equal noise."""
        if pixels.device not in self._on:
            self._on[pixels.device] = self._bank.to(pixels.device)
        bank = self._on[pixels.device]
        chosen = (draws(images, 1, seed, epoch, _SALT_CHOICE)[:, 0] * _BANK).astype(np.int64)
        return (bank[to_device(torch.from_numpy(chosen), pixels.device)] + pixels).clamp_(0, 255).to(torch.uint8)
