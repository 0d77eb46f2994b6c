"""Decoding of an image at the network's size: JPEG by libjpeg-turbo or nvJPEG (not run on a GPU yet), others by Pillow."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import simplejpeg
import torch
from numpy.typing import NDArray
from PIL import Image
from threadpoolctl import ThreadpoolController

from aiperf.data.batches import Waiting
from aiperf.data.crops import Box, Crop
from aiperf.errors import BadConfiguration

# libjpeg-turbo decodes at n/8 of the size for any n, but has vector code for 1/2, 1/4 and 1/8 only. Measured: a scale
# between 1 and 1/2 takes as long as the whole image.
_SCALE_WORTH_WHILE = 2


class Corrupt(Exception):
    """An image that cannot be decoded. The message is that of the decoder."""


def decode(encoded: bytes, box_of: Callable[[int, int], Box], out: NDArray[np.uint8]) -> None:
    """Decode a rectangle of an image, scale it with antialiasing to the size of `out`, and write it into `out`.

    `box_of`: called with height and width of the stored image, returns the rectangle. `out`: uint8 (height, width, channels)
    with 1 or 3 channels. Raise Corrupt if decoding fails. Warnings of libjpeg (stray bytes) are ignored.
    """
    height, width, channels = out.shape
    try:
        pixels, box = _jpeg(encoded, box_of, height, width, channels)
    except ValueError:
        # No JPEG, CMYK or stray bytes: Pillow decodes all of them, or raises.
        pixels = _by_pillow(encoded, channels)
        box = box_of(*pixels.shape[:2])
    region = pixels[box.top : box.top + box.height, box.left : box.left + box.width]
    if region.shape[:2] == (height, width):
        out[...] = region[:, ::-1] if box.is_mirrored else region
        return
    planes = torch.from_numpy(region).permute(2, 0, 1)[None]
    scaled = torch.nn.functional.interpolate(planes, (height, width), mode="bilinear", antialias=True)[0]
    if box.is_mirrored:
        scaled = scaled.flip(2)
    torch.from_numpy(out).permute(2, 0, 1).copy_(scaled)


def decoding_threads(count: int) -> ThreadPoolExecutor:
    """Threads with one OpenMP thread each, not a team of all cores. The search for libraries takes 8 ms: it is made once."""
    openmp = ThreadpoolController().select(user_api="openmp")

    def limit() -> None:
        torch.get_num_threads()  # torch sets the number at its first use in a thread, and not again
        openmp.limit(limits=1)

    return ThreadPoolExecutor(count, "aiperf-decode", initializer=limit)


def check(encoded: bytes) -> None:
    """Raise Corrupt if the image cannot be decoded as a whole."""
    try:
        simplejpeg.decode_jpeg(encoded)
    except ValueError:
        _by_pillow(encoded, 3)


def _jpeg(
    encoded: bytes, box_of: Callable[[int, int], Box], height: int, width: int, channels: int
) -> tuple[NDArray[np.uint8], Box]:
    full_height, full_width, _, _ = simplejpeg.decode_jpeg_header(encoded)
    box = box_of(full_height, full_width)
    enough = max(height / box.height, width / box.width)
    pixels = simplejpeg.decode_jpeg(
        encoded,
        colorspace="RGB" if channels == 3 else "GRAY",
        min_height=math.ceil(full_height * enough),
        min_width=math.ceil(full_width * enough),
        min_factor=_SCALE_WORTH_WHILE,
    )
    down, across = pixels.shape[0] / full_height, pixels.shape[1] / full_width
    if down == across == 1:
        return pixels, box
    top, left = int(box.top * down), int(box.left * across)
    return pixels, Box(
        top,
        left,
        min(max(height, round(box.height * down)), pixels.shape[0] - top),
        min(max(width, round(box.width * across)), pixels.shape[1] - left),
        box.is_mirrored,
    )


def _by_pillow(encoded: bytes, channels: int) -> NDArray[np.uint8]:
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(encoded)) as image:
            # Warnings about palettes and EXIF blocks do not affect the pixels.
            warnings.simplefilter("ignore")
            pixels = np.array(_in_bytes(image).convert("RGB" if channels == 3 else "L"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Corrupt(str(error)) from error
    return pixels.reshape(*pixels.shape[:2], channels)


def _in_bytes(image: Image.Image) -> Image.Image:
    """Return an image of 16 bits with the higher 8 bits of its values. Pillow would clip them at 255."""
    is_wide = image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))
    if is_wide:
        return Image.fromarray((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
    if image.mode.startswith(("I", "F")):
        raise Corrupt(
            f"pixels must have 8 or 16 bits without a sign, but are of mode {image.mode!r}: scale them to 8 bits"
        )
    return image


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
    """Return a file for nvJPEG with its rectangle. None for other formats, damaged headers, and colours but YCbCr and grey."""
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
    """Return the rectangles, uint8 (side, side, channels), on `device`. None for a file that nvJPEG refuses."""
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
                f"dataset.decoder=gpu failed: torchvision has no nvJPEG ({error}). Install the build for torch's CUDA, or use "
                "dataset.decoder=cpu"
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
