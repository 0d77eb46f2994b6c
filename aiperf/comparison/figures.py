"""The figures that runs are compared by: how each is read off a report, and which way is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiperf import units
from aiperf.report.facts import Report
from aiperf.statistics.difference import Change, change
from aiperf.statistics.estimate import Estimate, mean, of_one_run, of_repeats
from aiperf.statistics.spread import Spread, spread


@dataclass(frozen=True, slots=True)
class Figure:
    """A kind of figure."""

    name: str
    value: Callable[[Report], float | None]
    """None: the run has none."""
    shown: Callable[[float], str]
    between: Callable[[float, float], str]
    """Both ends of an interval under one unit."""
    more_is_better: bool | None
    """None: neither is."""


def _operations_per_trial(report: Report) -> float | None:
    """Counted inside the window, those that were done again too."""
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
    Figure("FLOPS/W", _flops_per_watt, lambda value: units.si(value, "FLOPS/W"), _per_watt, True),
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


@dataclass(frozen=True, slots=True)
class OfSide:
    """A figure of one side: a run, or several equal ones."""

    value: float | None
    """The mean over its runs; None: one of them has none."""
    estimate: Estimate | None
    """None: nothing is known of its uncertainty."""
    spread: Spread | None
    """Of several runs."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both sides."""

    name: str
    more_is_better: bool | None
    first: OfSide
    second: OfSide
    change: Change | None
    """None: one of them has no value."""


def of_side(figure: Figure, runs: Sequence[Report]) -> OfSide:
    """Several runs are known by how far they lie apart; the score of one by how evenly it ran."""
    found = [figure.value(run) for run in runs]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return OfSide(None, None, None)
    if len(runs) > 1:
        return OfSide(mean(values), of_repeats(values), spread(values))
    score = runs[0].score
    own = of_one_run(score.flops_per_second, score.flops_per_second_interval, score.interval_freedom)
    return OfSide(values[0], own if figure is OF_SCORE else None, None)


def compared(figure: Figure, first: Sequence[Report], second: Sequence[Report]) -> Compared:
    """Of both sides, with a test of whether they differ."""
    one, other = of_side(figure, first), of_side(figure, second)
    apart = None
    if one.value is not None and other.value is not None:
        apart = change(one.value, other.value, one.estimate, other.estimate)
    return Compared(figure.name, figure.more_is_better, one, other, apart)
