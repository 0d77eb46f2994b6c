"""Figures that no run of this program measured: reported points of others, and the prediction of a rehearsal."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aiperf.errors import BadConfiguration
from aiperf.files import what_is_wrong_with
from aiperf.scaling.efficiency import Scaling

COLUMNS = ("label", "accelerators", "global_batch", "images_per_second", "steps_to_target")
PREDICTION = "within-worker.json"
"""File that `rehearse --within-worker` writes."""
FORMAT = "aiperf-within-worker-1"


@dataclass(frozen=True, slots=True)
class ReportedPoint:
    """One line of a file of --points. Its lines of time are unknown."""

    label: str
    accelerators: int
    global_batch: int
    images_per_second: float
    steps_to_target: int | None
    efficiency: float | None = None
    """Accelerator-seconds per image of the smallest point with this label ÷ those of this one. None for a label's only point.
    """

    @property
    def step_seconds(self) -> float:
        return self.global_batch / self.images_per_second


@dataclass(frozen=True, slots=True)
class PredictedPoint:
    """Prediction for one number of accelerators."""

    accelerators: int
    efficiency: float
    """Relative to the fewest accelerators of the measured runs. The evaluation counts as in the runs."""
    gap: float | None
    """Measured − predicted efficiency in percentage points, which the model does not explain. None without a measured point."""


def read_points(path: Path) -> tuple[ReportedPoint, ...]:
    """Return the points of a CSV file with the header COLUMNS. Only steps_to_target may be empty.

    Raises:
        BadConfiguration: no readable file, another header, an empty or wrong value, or a repeated point.
    """
    if (wrong := what_is_wrong_with(path)) is not None:
        raise BadConfiguration(f"--points is a CSV file, but found {str(path)!r}, which is {wrong}: name such a file")
    rows = [[cell.strip() for cell in row] for row in csv.reader(path.read_text("utf-8-sig", "replace").splitlines())]
    if not rows or tuple(rows[0]) != COLUMNS:
        raise BadConfiguration(
            f"--points has the header {','.join(COLUMNS)}, but found {','.join(rows[0]) if rows else ''!r}: write this header"
        )
    found = [_point(line, row) for line, row in enumerate(rows[1:], start=2) if any(row)]
    if len({(each.label, each.accelerators, each.global_batch) for each in found}) < len(found) or not found:
        raise BadConfiguration(
            f"--points has each label, number of accelerators and batch once, but found {len(found)} lines in {str(path)!r} "
            "with repetitions or none at all: give each point once"
        )
    return tuple(_with_efficiency(each, [other for other in found if other.label == each.label]) for each in found)


def _point(line: int, row: Sequence[str]) -> ReportedPoint:
    if len(row) != len(COLUMNS):
        raise BadConfiguration(
            f"a line of --points has {len(COLUMNS)} values, but found {len(row)} in line {line}: correct it"
        )

    def number(index: int) -> float:
        try:
            value = float(row[index])
        except ValueError:
            value = -1.0
        if not 0 < value < 1e18 or (COLUMNS[index] != "images_per_second" and value != int(value)):
            raise BadConfiguration(
                f"{COLUMNS[index]} of --points is a number above 0, and a whole one unless it is a rate, but found "
                f"{row[index]!r} in line {line}: fill the gap or correct it"
            )
        return value

    if not row[0]:
        raise BadConfiguration(f"a point of --points has a label, but found {row[0]!r} in line {line}: name its source")
    steps = int(number(4)) if row[4] else None
    return ReportedPoint(row[0], int(number(1)), int(number(2)), number(3), steps)


def _with_efficiency(point: ReportedPoint, alike: Sequence[ReportedPoint]) -> ReportedPoint:
    base = min(alike, key=lambda each: each.accelerators)
    if len({each.accelerators for each in alike}) < 2:
        return point
    efficiency = (point.images_per_second / point.accelerators) / (base.images_per_second / base.accelerators)
    return replace(point, efficiency=efficiency)


def read_prediction(folder: Path, measured: Scaling) -> tuple[PredictedPoint, ...]:
    """Return the prediction in a folder of `rehearse --within-worker`, for the form of scaling of the measured runs.

    Raises:
        BadConfiguration: no such file, another format, or no prediction for the fewest measured accelerators.
    """
    path = folder / PREDICTION
    if (wrong := what_is_wrong_with(path)) is not None:
        raise BadConfiguration(
            f"--predicted is a folder of `rehearse --within-worker`, but found {str(path)!r}, which is {wrong}: name the "
            "folder that it printed"
        )
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        rows = {int(row["accelerators"]): _rate(row["seconds_per_image"], measured) for row in content[measured.form]}
        is_known = content["format"] == FORMAT
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        is_known, rows = False, {}
    if not is_known:
        raise BadConfiguration(
            f"{PREDICTION} has the format {FORMAT}, but found another content in {str(path)!r}: write it again with "
            "`rehearse --within-worker`"
        )
    base = measured.points[0].accelerators
    if base not in rows:
        raise BadConfiguration(
            f"a prediction begins with the fewest measured accelerators, {base}, but found {sorted(rows)} in {str(path)!r}: "
            "rehearse with a cluster.accelerators that halves to it"
        )
    efficiencies = {pair.accelerators: pair.efficiency for pair in measured.pairs}
    return tuple(
        PredictedPoint(
            size,
            rate / rows[base],
            100 * (efficiencies[size] - rate / rows[base]) if size in efficiencies else None,
        )
        for size, rate in sorted(rows.items())
        if size >= base
    )


def _rate(lines: dict[str, float], measured: Scaling) -> float:
    """Return images per accelerator-second, with the evaluation as it counts in the measured runs."""
    return 1 / sum(
        float(seconds) * (float(measured.evaluation) if line == "evaluation" else 1) for line, seconds in lines.items()
    )
