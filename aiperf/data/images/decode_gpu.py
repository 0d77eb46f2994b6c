"""Decoding of JPEG images on an NVIDIA accelerator, by nvJPEG through torchvision. (Not run on a GPU yet.)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import simplejpeg
import torch
from numpy.typing import NDArray

from aiperf.data.batches import Waiting
from aiperf.data.images.crops import Box, Crop
from aiperf.errors import BadConfiguration

_COLOURS = ("YCbCr", "Gray")
_AT_ONCE = 64
_NOT_BUILT = "not compiled with nvJPEG"
_REFUSED = "Error while decoding JPEG images"
"""Start of torchvision's message if nvJPEG cannot decode an image. Full memory and device failures have other messages."""


@dataclass(frozen=True, slots=True)
class Jpeg:
    """A JPEG file that nvJPEG can decode, and its rectangle that becomes the network's input."""

    encoded: torch.Tensor
    box: Box


def require_nvjpeg(device: torch.device) -> None:
    if device.type != "cuda" or torch.version.cuda is None:
        raise BadConfiguration(
            "dataset.decoder=gpu needs an NVIDIA accelerator and a torch built for CUDA, but found "
            f"device {str(device)!r} and torch {torch.__version__}: use dataset.decoder=cpu"
        )


def jpeg(encoded: bytes, crop: Crop, numbers: NDArray[np.float64]) -> Jpeg | None:
    """Return a JPEG file to be decoded by nvJPEG, with its rectangle. None if the CPU must decode the file.

    The CPU decodes other formats, files with a damaged header, and colours other than YCbCr and grey.
    """
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(encoded)
    except ValueError:
        return None
    if colours not in _COLOURS:
        return None
    return Jpeg(torch.frombuffer(bytearray(encoded), dtype=torch.uint8), crop.box(height, width, numbers))


def decoded(
    jpegs: Sequence[Jpeg], side: int, channels: int, device: torch.device, waiting: Waiting = nullcontext
) -> list[torch.Tensor | None]:
    """Return the rectangles of JPEG files, uint8 (side, side, channels), on `device`. None for a file that nvJPEG refuses.

    `waiting`: gives a context manager for each wait for the device.
    """
    images: list[torch.Tensor | None] = []
    for start in range(0, len(jpegs), _AT_ONCE):
        some = jpegs[start : start + _AT_ONCE]
        with waiting():
            whole = _whole(some, channels, device)
        for jpeg, image in zip(some, whole, strict=True):
            images.append(None if image is None else _scaled(image, jpeg.box, side))
    return images


def _whole(jpegs: Sequence[Jpeg], channels: int, device: torch.device) -> list[torch.Tensor | None]:
    from torchvision.io import ImageReadMode, decode_jpeg  # imported here, since it takes seconds

    if device.type == "cuda":
        # torchvision decodes on a stream of its own, into memory that kernels of this one may still read
        passed = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        passed.record(torch.cuda.current_stream(device))
        passed.synchronize()
    mode = ImageReadMode.RGB if channels == 3 else ImageReadMode.GRAY
    try:
        return list(decode_jpeg([each.encoded for each in jpegs], mode, device))
    except RuntimeError as error:
        if _NOT_BUILT in str(error):
            raise BadConfiguration(
                f"dataset.decoder=gpu needs a torchvision with nvJPEG, but found one without ({error}): install the build "
                "for the same CUDA as torch, or use dataset.decoder=cpu"
            ) from error
        if _REFUSED not in str(error):
            raise
    # one refused image fails the whole list
    return [None] if len(jpegs) == 1 else [image for each in jpegs for image in _whole([each], channels, device)]


def _scaled(image: torch.Tensor, box: Box, side: int) -> torch.Tensor:
    region = image[None, :, box.top : box.top + box.height, box.left : box.left + box.width].to(torch.float32)
    # as floats, since CUDA does not scale bytes
    scaled = torch.nn.functional.interpolate(region, (side, side), mode="bilinear", antialias=True)[0].round_()
    return (scaled.flip(2) if box.is_mirrored else scaled).permute(1, 2, 0).to(torch.uint8)
