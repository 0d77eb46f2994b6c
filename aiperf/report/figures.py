"""Figures of a run: one table of names, titles, units, directions, values and meanings, which every output reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

from aiperf import units

if TYPE_CHECKING:
    from aiperf.accounting.score import Score
    from aiperf.accounting.valid_flops import FixedNetworkResult
    from aiperf.report.facts import Report


class Scored(Protocol):
    @property
    def score(self) -> Score: ...


Of = TypeVar("Of", contravariant=True)
NO_WINDOW = "no valid window"


@dataclass(frozen=True, slots=True)
class Figure(Generic[Of]):
    name: str
    """Name on the command line and in files."""
    title: str
    unit: Literal["FLOPS", "FLOPS/W", "FLOP", "W", "s", ""]
    """Unit of the value. '' for a share or a number."""
    better: Literal["more", "less", ""]
    of: Callable[[Of], float | None]
    """Function that returns the figure of a run, or None if the run lacks it."""
    shown: Callable[[float], str]
    meaning: str
    missing: str = units.NOT_MEASURED
    """Text in place of a missing value."""
    sampling: Callable[[Of], tuple[float, float] | None] = lambda run: None
    """95 % interval of one run by sampling alone, which is shown with the value."""

    def text(self, run: Of) -> str:
        value, between = self.of(run), self.sampling(run)
        shown = self.missing if value is None else self.shown(value)
        return shown if between is None else f"{shown} {half_width(value, between)} by sampling"

    def row(self, run: Of, meaning: str = "", text: str = "") -> tuple[str, str, str]:
        """Return title, value and meaning as texts. `meaning` and `text` replace those of the table."""
        return self.title, text or self.text(run), meaning or self.meaning

    def between(self, low: float, high: float) -> str:
        """Return an interval as text. Both ends have the same unit."""
        if self.unit in ("", "s"):
            return f"{self.shown(low)} to {self.shown(high)}"
        return units.interval(low, high, self.unit)

    @property
    def more_is_better(self) -> bool | None:
        return {"more": True, "less": False, "": None}[self.better]


def half_width(value: float | None, between: tuple[float, float] | None) -> str:
    """Return half an interval as a share of the figure, such as `± 1.2 %`. '' without one."""
    return "" if between is None or not value else f"± {units.share((between[1] - between[0]) / 2 / value)}"


def _operations_per_trial(report: Report) -> float | None:
    trained = [trial.in_window for trial in report.trials if trial.in_window.operations > 0]
    return sum(each.operations for each in trained) / len(trained) if trained else None


def _instantaneous(report: Report) -> float | None:
    return None if report.instantaneous is None else report.instantaneous.median


def _power(report: Report) -> float | None:
    return None if report.energy is None else report.energy.best.watts


def _flops_per_watt(report: Report) -> float | None:
    return None if report.energy is None else report.energy.best.flops_per_watt


def _number(value: float) -> str:
    return units.count(int(value)) if value == int(value) else f"{value:.1f}"


def _fixed(value: Callable[[FixedNetworkResult], float | None]) -> Callable[[Report], float | None]:
    return lambda report: None if report.fixed_network is None else value(report.fixed_network)


_RATE = units.flops_per_second
OF_SCORE: tuple[Figure[Scored], ...] = (
    Figure("score", "score", "FLOPS", "more", lambda run: run.score.flops_per_second, _RATE,
           "counted operations in the valid window ÷ its length", NO_WINDOW),
    Figure("regulated", "regulated score", "FLOPS", "more", lambda run: run.score.regulated_flops_per_second, _RATE,
           "−ln(error) × score; 95 % interval: sampling of the validation samples alone",
           "no top-1 evaluation in a valid window", lambda run: run.score.regulated_flops_per_second_interval),
    Figure("error", "error", "", "less", lambda run: run.score.error, units.error,
           "1 − best measured top-1 accuracy", "no top-1 evaluation"),
    Figure("best-quality", "best quality", "", "more", lambda run: run.score.quality, units.quality,
           "best measured quality in the run’s metric", "no evaluation"),
    Figure("busy", "busy time", "", "more", lambda run: run.score.busy_share, units.share,
           "accelerator time in the valid window spent in steps"),
    Figure("trials-finished", "trials finished", "", "", lambda run: run.score.trials_finished, _number,
           "trials with a result for the search"),
)  # fmt: skip
"""Figures that are known while a run is in progress, too."""
SCORE, REGULATED, ERROR, BEST_QUALITY, BUSY, TRIALS_FINISHED = OF_SCORE
FIGURES: tuple[Figure[Report], ...] = (
    *OF_SCORE,
    Figure("held-out-error", "held-out error", "", "less", lambda run: run.error_figures.held_out, units.error,
           "on the half of the validation samples that did not choose the network, mean of both halves; not ranked"),
    Figure("time-to-error", "time to a stated error", "s", "less", lambda run: run.error_figures.stated_seconds,
           units.duration, "end of the first evaluation with at most this error; not ranked", "not reached"),
    Figure("mean-error", "mean error over time", "", "less", lambda run: run.error_figures.area, units.error,
           "best error so far, mean over the valid window; not ranked", NO_WINDOW),
    Figure("instantaneous", "instantaneous score", "FLOPS", "", _instantaneous, _RATE,
           "median over equal parts of the valid window", NO_WINDOW),
    Figure("average", "average with the warm-up", "FLOPS", "", lambda run: run.score.cumulative_flops_per_second, _RATE,
           "from the start of the run"),
    Figure("window", "valid window", "s", "", lambda run: run.score.window_seconds, units.duration,
           "from the end of the warm-up to the end of the run"),
    Figure("wasted", "wasted work", "FLOP", "", lambda run: run.score.wasted_flops, units.operations,
           "repeated after a loss; not in the score"),
    Figure("mfu", "MFU", "", "more", lambda run: run.utilisation.mfu, units.share,
           "convolutions and matrix products ÷ accelerator time · peak; not ranked with a declared peak"),
    Figure("mfu-busy", "MFU while busy", "", "more", lambda run: run.utilisation.mfu_busy, units.share,
           "as MFU, but ÷ (peak per rank × busy time of all ranks)"),
    Figure("communication", "communication", "", "less", lambda run: run.utilisation.communication_share, units.share,
           "share of the busy time; not hidden by the backward pass"),
    Figure("pause", "pause between trials", "s", "less", lambda run: run.utilisation.gap_median_seconds, units.duration,
           "median over the workers’ pauses"),
    Figure("tuned-at-random", "tuned at random", "", "", lambda run: run.proposals.startup_share, units.share,
           "share of the busy time in trials with random batch and kernel size"),
    Figure("budget-reached", "search reached", "", "", lambda run: run.proposals.reached_share, units.share,
           "operations of the largest trained network ÷ those that the budget allows", "no search"),
    Figure("budget-reached-after", "reached after", "s", "", lambda run: run.proposals.reached_after, units.duration,
           "from the start of the run to the start of the first network of this size", "no search"),
    Figure("padding", "zero padding", "", "", lambda run: run.padding_share, units.share,
           "share of the counted operations that multiply zeros of the padding"),
    Figure("power", "power", "W", "", _power, units.watts, "mean of the measured devices in the valid window"),
    Figure("flops-per-watt", "FLOPS/W", "FLOPS/W", "more", _flops_per_watt, units.flops_per_watt,
           "score ÷ mean power in the valid window; ranked from EEHPC Level 1 on"),
    Figure("operations-per-trial", "work per trial", "FLOP", "", _operations_per_trial, units.operations,
           "mean operations of a trial in the valid window, including repeated work"),
    Figure("availability", "availability", "", "more", lambda run: run.availability.share, units.share,
           "available share of the planned accelerators’ time in the valid window"),
    Figure("adjusted", "scaled to 100 %", "FLOPS", "", lambda run: run.availability.adjusted_flops_per_second, _RATE,
           "score ÷ available share; not a score, never ranked", NO_WINDOW),
    Figure("quality", "quality", "", "more", _fixed(lambda of: of.quality), units.quality,
           "at the end of the last epoch"),
    Figure("valid-flops", "valid FLOPS", "FLOPS", "more", _fixed(lambda of: of.valid_flops_per_second), _RATE,
           "HPC AI500’s: FLOPS × (quality ÷ target)^n; for runs with a target quality", "does not apply"),
    Figure("flops-to-end", "FLOPS", "FLOPS", "more", _fixed(lambda of: of.flops_per_second_to_last_epoch), _RATE,
           "start of the run to the last epoch's end"),
    Figure("training-flops", "training FLOPS", "FLOPS", "more", _fixed(lambda of: of.training_flops_per_second), _RATE,
           "the paper’s N·R·C, but without waiting for input"),
    Figure("peak-share", "share of the FP32 peak", "", "more", _fixed(lambda of: of.peak_share_fp32), units.share,
           "the paper's ratio, for every precision"),
    Figure("epochs-to-target", "epochs to target", "", "less", _fixed(lambda of: of.epochs_to_quality), _number,
           "epochs until the target quality", "not reached"),
    Figure("time-to-target", "time to target", "s", "less", _fixed(lambda of: of.seconds_to_quality), units.duration,
           "end of the first epoch that reached the target quality", "not reached"),
)  # fmt: skip
_BY_NAME = {name: figure for figure in FIGURES for name in (figure.name, figure.title)}
BESIDE_REGULATED = ("held-out-error", "time-to-error", "mean-error")
"""Figures of the error that stand beside the regulated score."""
COMPARED = ("score", "regulated", "error", "mfu", "flops-per-watt", "busy", "operations-per-trial", "trials-finished")
"""Figures of every run in `compare`."""
COMPARED_FIXED = ("quality", "valid-flops", "epochs-to-target", "time-to-target")
"""Further figures of runs that train one fixed network to a target quality."""

RANKED = ("score", "regulated", "error", "valid-flops", "mfu", "flops-per-watt", "availability")
"""Figures by which `rank` can order runs."""


def values(report: Report) -> dict[str, float | None]:
    """Return every figure of a run by its name."""
    return {figure.name: figure.of(report) for figure in FIGURES}


def by_name(name: str) -> Figure[Report]:
    """Return the definition of a figure by its name or its title, such as 'mfu' or 'MFU'."""
    return _BY_NAME[name]
