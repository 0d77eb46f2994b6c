"""All results of the command `scale` for one set of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from aiperf.errors import CannotCompare, conflict
from aiperf.scaling.batch import BatchCurve, BatchStudy, batch_study
from aiperf.scaling.bound import BoundParts, CoreShare, bound_parts, core_shares
from aiperf.scaling.efficiency import Scaling, scaling
from aiperf.scaling.elsewhere import PredictedPoint, ReportedPoint, read_points, read_prediction, reported_curves
from aiperf.scaling.option_ratios import MACHINE, OptionRatios, option_ratios
from aiperf.scaling.point import Point
from aiperf.units import IMAGE

OF_MACHINE = (MACHINE, "trainer.threads")
"""Options that change the memory bandwidth and the matrix product of a rank, but not its work."""


@dataclass(frozen=True, slots=True)
class ScalingStudy:
    """Results of `scale` for one set of runs. Results that the runs do not give are None or empty."""

    evaluation: Fraction
    """Share of the evaluation's time that counts, 0 (none) to 1 (all)."""
    points: tuple[Point, ...]
    """Runs in order of accelerators and starts."""
    groups: dict[str, tuple[Point, ...]]
    """Runs by number of accelerators, or by value of the option."""
    scaling: Scaling | None
    """Scaling over numbers of accelerators. None with --by."""
    ratios: OptionRatios | None
    """Ratios between the values of the option of --by. None without --by."""
    batch: BatchStudy | None
    parts: dict[str, BoundParts]
    """Parts of the time of each group."""
    core_shares: tuple[CoreShare, ...]
    reported: tuple[ReportedPoint, ...]
    reported_curves: dict[str, BatchCurve]
    """Steps to the target over the batch, by label of the reported points."""
    predicted: tuple[PredictedPoint, ...]

    @property
    def samples(self) -> str:
        """Noun of the samples, 'images' of reported points alone."""
        return self.points[0].samples if self.points else IMAGE.many


def study(
    points: Sequence[Point],
    evaluation: Fraction = Fraction(0),
    by: str | None = None,
    reported: Path | None = None,
    predicted: Path | None = None,
) -> ScalingStudy:
    """`by`: option to compare by its values, None to compare numbers of accelerators."""
    if by is not None and predicted is not None:
        raise conflict("--predicted", f"--by {by}", error=CannotCompare)
    if not points and (reported is None or by is not None or predicted is not None):
        raise CannotCompare("scale needs a RUN, or --points FILE alone. Name runs, or leave the other options out")
    scaled = scaling(points, evaluation) if by is None and points else None
    ratios = None if by is None else option_ratios(points, by, evaluation)
    ordered = tuple(sorted(points, key=lambda each: (each.accelerators, each.started_unix)))
    elsewhere = () if reported is None else read_points(reported)
    groups: dict[str, tuple[Point, ...]] = {} if ratios is None else ratios.groups
    if ratios is None:
        for size in dict.fromkeys(each.accelerators for each in ordered):
            groups[str(size)] = tuple(each for each in ordered if each.accelerators == size)
    return ScalingStudy(
        evaluation=evaluation,
        points=ordered,
        groups=groups,
        scaling=scaled,
        ratios=ratios,
        batch=batch_study(points, evaluation) if _is_of_batches(ratios) else None,
        parts={value: bound_parts(group, evaluation) for value, group in groups.items()},
        core_shares=tuple(core_shares(groups, evaluation)) if by in OF_MACHINE else (),
        reported=elsewhere,
        reported_curves=reported_curves(elsewhere),
        predicted=() if predicted is None or scaled is None else read_prediction(predicted, scaled),
    )


def _is_of_batches(ratios: OptionRatios | None) -> bool:
    """Return True if the runs differ in their batch and in nothing that is independent of it."""
    return ratios is not None and ratios.option == "batch.default" and len(ratios.values[0].block_ratios) == 1
