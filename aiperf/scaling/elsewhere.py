"""Figures of scaling that this program did not measure: points reported by others (--points), a prediction (--predicted)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from aiperf.errors import BadConfiguration
from aiperf.given_file import fault_of, read_csv, read_json
from aiperf.scaling.batch import FEWEST_BATCHES, BatchCurve, fit_curve
from aiperf.scaling.efficiency import Scaling, karp_flatt

PREDICTION = "within-worker.json"
"""File that `rehearse --within-worker` writes."""
FORMAT = "aiperf-within-worker-1"
_Whole = Annotated[int, msgspec.Meta(ge=1, le=10**15)]


class ReportedPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a CSV file of --points. All fields but the last two are columns."""

    label: Annotated[str, msgspec.Meta(min_length=1)]
    """Source of the figures. Points with one label are compared with each other."""
    accelerators: _Whole
    global_batch: _Whole
    images_per_second: Annotated[float, msgspec.Meta(gt=0, le=1e18)]
    steps_to_target: _Whole | None
    """Number of steps to the target quality. None for an empty cell."""
    efficiency: float | None = None
    """Accelerator-seconds per image of the smallest point with this label ÷ those of this one. None for one size alone."""
    serial_fraction: float | None = None
    """Of Karp and Flatt, against the smallest point with this label. None for that point."""

    @property
    def step_seconds(self) -> float:
        """Seconds of one training step: images per step of all accelerators ÷ images per second."""
        return self.global_batch / self.images_per_second


@dataclass(frozen=True, slots=True)
class PredictedPoint:
    accelerators: int
    efficiency: float
    """Predicted efficiency relative to the fewest accelerators of the measured runs."""
    gap: float | None
    """Measured − predicted efficiency in percentage points, which the model does not explain. None without a measured point."""


class _PredictedSize(msgspec.Struct, frozen=True):
    accelerators: _Whole
    seconds_per_image: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1e12)]]

    def __post_init__(self) -> None:
        if sum(each for line, each in self.seconds_per_image.items() if line != "evaluation") < 1e-15:
            raise ValueError("seconds of training below 1e-15")


class _Prediction(msgspec.Struct, frozen=True):
    format: str
    strong: list[_PredictedSize]
    weak: list[_PredictedSize]


COLUMNS = ReportedPoint.__struct_fields__[:-2]


def read_points(path: Path) -> tuple[ReportedPoint, ...]:
    rows = read_csv(path, "--points is a CSV file in UTF-8")
    header = rows[0] if rows else []
    if tuple(header) != COLUMNS:
        raise BadConfiguration(
            f"--points has the header {','.join(COLUMNS)}, but found {','.join(header)!r}: write this header"
        )
    points: dict[tuple[str, int, int], ReportedPoint] = {}
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        try:
            cells = dict(zip(COLUMNS, row, strict=True))
            values = {**cells, "steps_to_target": cells["steps_to_target"] or None}
            point = msgspec.convert(values, ReportedPoint, strict=False)
        except (msgspec.ValidationError, ValueError) as error:
            raise BadConfiguration(
                f"a line of --points has a label and numbers above 0, but found {','.join(row)!r} in line {number} ({error}): "
                "fill the gap or correct it"
            ) from error
        key = (point.label, point.accelerators, point.global_batch)
        if key in points:
            raise BadConfiguration(
                f"--points has each label, number of accelerators and batch once, but found {key} again in line {number}: "
                "give each point once"
            )
        points[key] = point
    return tuple(
        _with_efficiency(each, [other for other in points.values() if other.label == each.label])
        for each in points.values()
    )


def _with_efficiency(point: ReportedPoint, alike: Sequence[ReportedPoint]) -> ReportedPoint:
    base = min(alike, key=lambda each: each.accelerators)
    if len({each.accelerators for each in alike}) < 2:
        return point
    efficiency = (point.images_per_second / point.accelerators) / (base.images_per_second / base.accelerators)
    ratio = point.accelerators / base.accelerators
    serial = karp_flatt(efficiency * ratio, ratio) if ratio > 1 else None
    return msgspec.structs.replace(point, efficiency=efficiency, serial_fraction=serial)


def reported_curves(points: Sequence[ReportedPoint]) -> dict[str, BatchCurve]:
    """Return the curve of the steps to the target over the batch, for each label with at least 3 batches that reached it."""
    curves = {}
    for label in dict.fromkeys(each.label for each in points):
        steps = [(each.global_batch, each.steps_to_target) for each in points if each.label == label]
        reached = [(batch, number) for batch, number in steps if number is not None]
        if len({batch for batch, _ in reached}) >= FEWEST_BATCHES:
            curves[label] = fit_curve(reached)
    return curves


def read_prediction(folder: Path, measured: Scaling) -> tuple[PredictedPoint, ...]:
    """Return the predicted efficiency for each number of accelerators, from a folder that `rehearse --within-worker` wrote."""
    path = folder / PREDICTION
    rule = f"--predicted is a folder of `rehearse --within-worker`, with {PREDICTION} of the format {FORMAT}"
    fix = "name the folder that it printed, or write it again"
    content = read_json(path, rule, _Prediction, fix)
    if content.format != FORMAT:
        raise fault_of(path, rule, fix)(f"has the format {content.format!r}")
    rows = {row.accelerators: _rate(row.seconds_per_image, measured) for row in getattr(content, measured.form)}
    base = measured.points[0].accelerators
    if base not in rows:
        raise BadConfiguration(
            f"a prediction begins with the fewest measured accelerators, {base}, but found {sorted(rows)} in {str(path)!r}: "
            "rehearse with a cluster.accelerators that halves to it"
        )
    efficiencies = {pair.accelerators: pair.efficiency for pair in measured.pairs}
    return tuple(
        PredictedPoint(
            size, rate / rows[base], 100 * (efficiencies[size] - rate / rows[base]) if size in efficiencies else None
        )
        for size, rate in sorted(rows.items())
        if size >= base
    )


def _rate(lines: Mapping[str, float], measured: Scaling) -> float:
    """Return images per accelerator-second, with the evaluation as it counts in the measured runs."""
    return 1 / sum(
        float(seconds) * (float(measured.evaluation) if line == "evaluation" else 1) for line, seconds in lines.items()
    )
