"""Mean average precision of detections at an intersection over union of 0.5, computed by pycocotools."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiperf.errors import BadConfiguration

MOST_FOUND = 100
"""Detections of a class in an image that are evaluated, best scores first, as in COCO's definition."""


@dataclass(frozen=True, slots=True)
class ImageDetections:
    """True boxes and detections of one image. Classes are numbers from 1."""

    truth: NDArray[np.float64]
    """(boxes, 5): x1, y1, x2, y2, class."""
    found: NDArray[np.float64]
    """(detections, 6): x1, y1, x2, y2, score, class."""


def mean_average_precision(images: Sequence[ImageDetections]) -> float:
    """Return mAP@0.5, 0..1, at 101 recall points, over classes with a true box. The order of `images` decides ties."""
    if not any(len(image.truth) for image in images):
        raise BadConfiguration(
            f"mean average precision needs true boxes, but found none in {len(images)} images: choose a data set "
            "with boxes (dataset=)"
        )
    coco, evaluation = (_imported(name) for name in ("coco", "cocoeval"))
    classes = sorted({int(label) for image in images for label in (*image.truth[:, 4], *image.found[:, 5])})
    numbers = range(1, len(images) + 1)
    common = {"images": [{"id": number} for number in numbers], "categories": [{"id": label} for label in classes]}
    with redirect_stdout(io.StringIO()):  # pycocotools prints its progress
        sides = []
        for rows in (_annotations([image.truth for image in images]), _annotations([image.found for image in images])):
            side = coco.COCO()
            side.dataset = {**common, "annotations": list(rows)}
            side.createIndex()
            sides.append(side)
        evaluated = evaluation.COCOeval(*sides, iouType="bbox")
        evaluated.params.iouThrs = np.array([0.5])
        evaluated.params.maxDets = [MOST_FOUND]
        evaluated.params.areaRng, evaluated.params.areaRngLbl = [[0.0, np.inf]], ["all"]
        evaluated.evaluate()
        evaluated.accumulate()
    # (recall points, classes), -1 for a class without a true box
    precision = evaluated.eval["precision"][0, :, :, 0, 0]
    return float(precision[precision > -1].mean())


def _annotations(images: Sequence[NDArray[np.float64]]) -> Iterator[dict[str, Any]]:
    """Rows of 6 values are detections with a score."""
    number = 0
    for image, rows in enumerate(images, start=1):
        for x1, y1, x2, y2, *rest in rows.tolist():
            number += 1
            score = {"score": rest[0]} if len(rest) == 2 else {}
            box = [x1, y1, x2 - x1, y2 - y1]
            shared = {"id": number, "image_id": image, "category_id": int(rest[-1]), "iscrowd": 0}
            yield {**shared, **score, "bbox": box, "area": box[2] * box[3]}


def require_pycocotools() -> None:
    """Raise BadConfiguration if pycocotools cannot be imported. Call it before a run, because mAP needs pycocotools."""
    _imported("coco")


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(f"pycocotools.{module}")
    except ImportError as error:
        raise BadConfiguration(
            f"mean average precision is computed by pycocotools, which cannot be imported ({error}): "
            "pip install 'aiperf-cluster[weather]'"
        ) from error
