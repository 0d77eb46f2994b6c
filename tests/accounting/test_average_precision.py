"""mAP@0.5 equals an independent definition, written from the text of COCO's evaluation without pycocotools."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.average_precision import ImageDetections, mean_average_precision
from aiperf.errors import BadConfiguration

RECALLS = np.linspace(0.0, 1.0, 101)


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the intersection over union of two boxes."""
    sides = [min(one[axis + 2], other[axis + 2]) - max(one[axis], other[axis]) for axis in (0, 1)]
    common = max(0.0, sides[0]) * max(0.0, sides[1])
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return common / (sum(areas) - common)


def hits(image: ImageDetections, label: int) -> list[tuple[float, bool]]:
    """Return score and success of each detection of a class, best first. Each true box is found once."""
    truth = [row[:4].tolist() for row in image.truth if row[4] == label]
    ranked = sorted((row for row in image.found.tolist() if row[5] == label), key=lambda row: -row[4])
    is_free, result = [True] * len(truth), []
    for row in ranked:
        best, chosen = 0.5, None
        for index, box in enumerate(truth):
            if is_free[index] and overlap(row, box) >= best:
                best, chosen = overlap(row, box), index
        if chosen is not None:
            is_free[chosen] = False
        result.append((row[4], chosen is not None))
    return result


def defined(images: Sequence[ImageDetections]) -> float:
    """Return the mean over the true classes of the interpolated precision at 101 recall points."""
    precisions = []
    for label in sorted({int(row[4]) for image in images for row in image.truth}):
        positives = sum(int(row[4]) == label for image in images for row in image.truth)
        ranked = sorted((hit for image in images for hit in hits(image, label)), key=lambda hit: -hit[0])
        true = np.cumsum([is_true for _, is_true in ranked])
        recall, precision = true / positives, true / np.arange(1, len(ranked) + 1)
        for point in RECALLS:
            reached = precision[recall >= point]
            precisions.append(reached.max() if len(reached) else 0.0)
    return float(np.mean(precisions))


@st.composite
def images(draw: st.DrawFn) -> ImageDetections:
    """Few boxes on a coarse grid, so that overlaps of exactly 0.5, duplicates and equal scores are frequent."""
    side, label = st.integers(1, 4), st.integers(1, 3)

    def box() -> list[float]:
        left, top = draw(st.integers(0, 4)), draw(st.integers(0, 4))
        return [left, top, left + draw(side), top + draw(side)]

    truth = [[*box(), draw(label)] for _ in range(draw(st.integers(0, 3)))]
    found = []
    for _ in range(draw(st.integers(0, 5))):
        is_copied = draw(st.booleans()) and len(truth) > 0
        where = truth[draw(st.integers(0, len(truth) - 1))][:4] if is_copied else box()
        found.append([*where, draw(st.integers(1, 4)) / 4, draw(label)])
    return ImageDetections(np.array(truth, float).reshape(-1, 5), np.array(found, float).reshape(-1, 6))


@settings(max_examples=200, deadline=None)
@given(st.lists(images(), min_size=1, max_size=5).filter(lambda each: any(len(image.truth) for image in each)))
def test_precision_equals_an_independent_definition(some: list[ImageDetections]) -> None:
    assert mean_average_precision(some) == pytest.approx(defined(some), abs=1e-9)


def only(truth: list[list[float]], found: list[list[float]]) -> ImageDetections:
    return ImageDetections(np.array(truth, float).reshape(-1, 5), np.array(found, float).reshape(-1, 6))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], 0.0),
        ([[0, 0, 4, 4, 0.9, 1]], 1.0),
        ([[0, 0, 4, 2, 0.9, 1]], 1.0),  # an overlap of exactly 0.5
        ([[0, 0, 4, 1.9, 0.9, 1]], 0.0),
        ([[0, 0, 4, 4, 0.9, 2]], 0.0),  # a class without a true box does not count
        ([[0, 0, 4, 4, 0.9, 1], [0, 0, 4, 4, 0.8, 1]], 1.0),  # a duplicate after the hit
        ([[8, 8, 9, 9, 0.9, 1], [0, 0, 4, 4, 0.8, 1]], 0.5),  # a wrong box before the hit
    ],
)
def test_one_true_box_by_hand(found: list[list[float]], expected: float) -> None:
    assert mean_average_precision([only([[0, 0, 4, 4, 1]], found)]) == pytest.approx(expected, abs=1e-9)


def test_images_without_true_boxes_are_refused() -> None:
    with pytest.raises(BadConfiguration, match="needs true boxes, but found none in 1 images"):
        mean_average_precision([only([], [[0, 0, 4, 4, 0.9, 1]])])


def test_missing_pycocotools_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycocotools.coco", None)

    with pytest.raises(BadConfiguration, match=r"pip install 'aiperf-cluster\[weather\]'"):
        mean_average_precision([only([[0, 0, 4, 4, 1]], [])])
