"""File of detections: true and found boxes of each validation image, from which anyone can compute the quality again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from aiperf.accounting.average_precision import ImageDetections
from aiperf.atomic_files import replace_file
from aiperf.errors import BadConfiguration
from aiperf.given_file import fault_of, read_json

LARGEST = 256 << 20
"""Bytes of a file: 4 million boxes."""
_Truth = tuple[float, float, float, float, int]
_Found = tuple[float, float, float, float, float, int]


class _Image(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    truth: list[_Truth]
    """x1, y1, x2, y2, class."""
    found: list[_Found]
    """x1, y1, x2, y2, score, class."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    images: list[_Image]


def write_detections(path: Path, images: Sequence[ImageDetections]) -> None:
    """Write boxes to a new JSON file. Raise BadConfiguration if it exists."""
    if path.exists():
        raise BadConfiguration(
            f"detections are written to a new file, but found {str(path)!r}: name another, or remove it"
        )
    rows = [
        _Image(
            [(*box, int(label)) for *box, label in image.truth.tolist()],
            [(*box, int(label)) for *box, label in image.found.tolist()],
        )
        for image in images
    ]
    replace_file(path, msgspec.json.encode(_File(rows)) + b"\n")


def read_detections(path: Path) -> list[ImageDetections]:
    """Return the boxes of each image. Raise BadConfiguration if the file is damaged or too large."""
    rule = (
        '--detections is {"images": [{"truth": [[x1, y1, x2, y2, class], …], '
        '"found": [[x1, y1, x2, y2, score, class], …]}, …]}'
    )
    found = read_json(path, rule, _File, "correct it, or name such a file", largest=LARGEST)
    if not any(image.truth for image in found.images):
        raise fault_of(path, rule, "name a file of images with boxes")("has no true box")
    return [
        ImageDetections(np.array(image.truth, float).reshape(-1, 5), np.array(image.found, float).reshape(-1, 6))
        for image in found.images
    ]
