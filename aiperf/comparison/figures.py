"""Results of runs that a comparison shows (score, error, MFU, …), each with its source in a report, format and direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from aiperf import units
from aiperf.accounting.valid_flops import FixedNetworkResult
from aiperf.report.facts import Report
from aiperf.statistics.between_runs import ScoredRun, over_runs
from aiperf.statistics.difference import RelativeChange, change
from aiperf.statistics.estimate import Estimate, Spread, of_repeats, spread


@dataclass(frozen=True, slots=True)
class Figure:
    """Definition of a result of a run: its name, its value in a report, its text form and its direction."""

    name: str
    value: Callable[[Report], float | None]
    """Function that returns the result of a run, or None if the run lacks it."""
    shown: Callable[[float], str]
    between: Callable[[float, float], str]
    """Function that formats both ends of an interval with one unit."""
    more_is_better: bool | None
    """True if a larger value is better. None if neither direction is better."""


def _operations_per_trial(report: Report) -> float | None:
    """Return the mean operations of a trial inside the window, including repeated work."""
    trained = [trial.in_window for trial in report.trials if trial.in_window.operations > 0]
    return sum(each.operations for each in trained) / len(trained) if trained else None


def _flops_per_watt(report: Report) -> float | None:
    return None if report.energy is None else report.energy.best.flops_per_watt


def _per_watt(low: float, high: float) -> str:
    return units.interval(low, high, "FLOPS/W")


def _flops(low: float, high: float) -> str:
    return units.interval(low, high, "FLOPS")


def _shares(low: float, high: float) -> str:
    return f"{100 * low:.2f} to {100 * high:.2f} %"


FIGURES = (
    Figure("score", lambda report: report.score.flops_per_second, units.flops_per_second, _flops, True),
    Figure("regulated", lambda report: report.score.regulated_flops_per_second, units.flops_per_second, _flops, True),
    Figure("error", lambda report: report.score.error, units.error, _shares, False),
    Figure("MFU", lambda report: report.utilisation.mfu, units.share, _shares, True),
    Figure("FLOPS/W", _flops_per_watt, units.flops_per_watt, _per_watt, True),
    Figure("busy", lambda report: report.score.busy_share, units.share, _shares, True),
    Figure(
        "work per trial",
        _operations_per_trial,
        units.operations,
        lambda low, high: units.interval(low, high, "FLOP"),
        None,
    ),
    Figure(
        "trials finished",
        lambda report: float(report.score.trials_finished),
        lambda value: f"{value:.4g}",
        lambda low, high: f"{low:.1f} to {high:.1f}",
        None,
    ),
)
OF_SCORE = FIGURES[0]


def _fixed(value: Callable[[FixedNetworkResult], float | None]) -> Callable[[Report], float | None]:
    return lambda report: None if report.fixed_network is None else value(report.fixed_network)


FIXED_NETWORK = (
    Figure("quality", _fixed(lambda found: found.quality), units.share, _shares, True),
    Figure("valid FLOPS", _fixed(lambda found: found.valid_flops_per_second), units.flops_per_second, _flops, True),
    Figure(
        "epochs to target",
        _fixed(lambda found: found.epochs_to_quality),
        lambda value: f"{value:.4g}",
        lambda low, high: f"{low:.1f} to {high:.1f}",
        False,
    ),
    Figure(
        "time to target",
        _fixed(lambda found: found.seconds_to_quality),
        units.duration,
        lambda low, high: f"{units.duration(low)} to {units.duration(high)}",
        False,
    ),
)
"""Figures of runs that train one fixed network to a target quality."""


def figures_of(runs: Sequence[Report]) -> tuple[Figure, ...]:
    """Return the definitions of the results to compare, in order of display."""
    has_target = all(run.fixed_network is not None for run in runs)
    return (*FIGURES, *FIXED_NETWORK) if has_target else FIGURES


def by_name(name: str) -> Figure:
    """Return the definition of a result by its name, such as 'score' or 'MFU'."""
    return next(figure for figure in (*FIGURES, *FIXED_NETWORK) if figure.name == name)


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
    found = [figure.value(run) for run in runs]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return SideFigure(None, None, None)
    if figure is OF_SCORE:
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
    return Compared(figure.name, figure.more_is_better, one, other, apart)
