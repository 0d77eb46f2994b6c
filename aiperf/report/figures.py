"""Figures of a run: one table of names, titles, units, directions and values, which compare and rank read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from aiperf import units
from aiperf.accounting.valid_flops import FixedNetworkResult
from aiperf.report.facts import Report


@dataclass(frozen=True, slots=True)
class Figure:
    """Definition of a figure of a run: its name, title, unit, direction, value in a report and text form."""

    name: str
    """Name on the command line and in files."""
    title: str
    unit: str
    """Unit of the value. '' for a share or a number."""
    better: Literal["more", "less", ""]
    of: Callable[[Report], float | None]
    """Function that returns the figure of a run, or None if the run lacks it."""
    shown: Callable[[float], str]
    between: Callable[[float, float], str]
    """Function that formats both ends of an interval with one unit."""
    former: str = ""
    """Earlier name in the output of compare and in `compare --metric`. It stays for one release."""

    @property
    def label(self) -> str:
        """Name in the output of compare."""
        return self.former or self.name

    @property
    def more_is_better(self) -> bool | None:
        return {"more": True, "less": False, "": None}[self.better]


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


def _numbers(low: float, high: float) -> str:
    return f"{low:.1f} to {high:.1f}"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _durations(low: float, high: float) -> str:
    return f"{units.duration(low)} to {units.duration(high)}"


def _fixed(value: Callable[[FixedNetworkResult], float | None]) -> Callable[[Report], float | None]:
    return lambda report: None if report.fixed_network is None else value(report.fixed_network)


_RATE = units.flops_per_second
FIGURES = (
    Figure("score", "score", "FLOPS", "more", lambda run: run.score.flops_per_second, _RATE, _flops),
    Figure("regulated", "regulated score", "FLOPS", "more", lambda run: run.score.regulated_flops_per_second, _RATE, _flops),
    Figure("error", "error", "", "less", lambda run: run.score.error, units.error, _shares),
    Figure("mfu", "MFU", "", "more", lambda run: run.utilisation.mfu, units.share, _shares, "MFU"),
    Figure("flops-per-watt", "FLOPS/W", "FLOPS/W", "more", _flops_per_watt, units.flops_per_watt, _per_watt, "FLOPS/W"),
    Figure("busy", "busy time", "", "more", lambda run: run.score.busy_share, units.share, _shares),
    Figure(
        "operations-per-trial", "work per trial", "FLOP", "", _operations_per_trial, units.operations,
        lambda low, high: units.interval(low, high, "FLOP"), "work per trial",
    ),
    Figure(
        "trials-finished", "trials finished", "", "", lambda run: float(run.score.trials_finished), _number, _numbers,
        "trials finished",
    ),
)  # fmt: skip
"""Figures of every run."""
FIXED_NETWORK = (
    Figure("quality", "quality", "", "more", _fixed(lambda of: of.quality), units.share, _shares),
    Figure(
        "valid-flops", "valid FLOPS", "FLOPS", "more", _fixed(lambda of: of.valid_flops_per_second), _RATE, _flops,
        "valid FLOPS",
    ),
    Figure(
        "epochs-to-target", "epochs to target", "", "less", _fixed(lambda of: of.epochs_to_quality), _number, _numbers,
        "epochs to target",
    ),
    Figure(
        "time-to-target", "time to target", "s", "less", _fixed(lambda of: of.seconds_to_quality), units.duration,
        _durations, "time to target",
    ),
)  # fmt: skip
"""Figures of runs that train one fixed network to a target quality."""
AVAILABILITY = Figure(
    "availability", "availability", "", "more", lambda run: run.availability.share, units.share, _shares
)
"""A figure of the ranking alone."""


def figures_of(runs: Sequence[Report]) -> tuple[Figure, ...]:
    """Return the definitions of the results to compare, in order of display."""
    has_target = all(run.fixed_network is not None for run in runs)
    return (*FIGURES, *FIXED_NETWORK) if has_target else FIGURES


def by_name(name: str) -> Figure:
    """Return the definition of a figure by its name or its former name, such as 'mfu' or 'MFU'."""
    known = (*FIGURES, *FIXED_NETWORK, AVAILABILITY)
    return next(figure for figure in known if name in (figure.name, figure.former))
