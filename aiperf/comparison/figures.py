"""Figures of both sides of a comparison, with uncertainty, spread and relative change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from aiperf.report.facts import Report
from aiperf.report.figures import Figure
from aiperf.statistics.between_runs import ScoredRun, over_runs
from aiperf.statistics.difference import RelativeChange, change
from aiperf.statistics.estimate import Estimate, Spread, of_repeats, spread


@dataclass(frozen=True, slots=True)
class SideFigure:
    """Result of one side of a comparison (one run, or several equal runs)."""

    value: float | None
    """Mean over the runs of the side. None if a run lacks the result."""
    estimate: Estimate | None
    """None if the uncertainty is unknown."""
    spread: Spread | None
    """None for a single run."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One result of both sides, with the relative change from the first side to the second."""

    name: str
    more_is_better: bool | None
    first: SideFigure
    second: SideFigure
    change: RelativeChange | None
    """None if a side has no value."""


def of_side(figure: Figure, runs: Sequence[Report]) -> SideFigure:
    """Return the mean of a result over the runs of one side, its uncertainty and its spread.

    All three are None if a run lacks it.
    """
    found = [figure.of(run) for run in runs]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return SideFigure(None, None, None)
    if figure.name == "score":
        return SideFigure(fmean(values), over_runs(list(map(_scored, runs))), spread(values))
    return SideFigure(fmean(values), of_repeats(values), spread(values))


def _scored(run: Report) -> ScoredRun:
    score = run.score
    return ScoredRun(
        score.flops_per_second or 0.0, score.flops_per_second_interval, score.interval_freedom, score.window_seconds
    )


def compared(figure: Figure, first: Sequence[Report], second: Sequence[Report]) -> Compared:
    """Return a result of both sides, with the relative change from the first side to the second and its test.

    The change is None if a side has no value, or if that of the first side is not positive.
    """
    one, other = of_side(figure, first), of_side(figure, second)
    apart = None
    if one.value is not None and other.value is not None:
        apart = change(one.value, other.value, one.estimate, other.estimate)
    return Compared(figure.label, figure.more_is_better, one, other, apart)
