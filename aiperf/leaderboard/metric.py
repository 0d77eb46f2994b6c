"""Metrics by which runs can be ranked: score, error, valid FLOPS, MFU and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiperf import units
from aiperf.errors import BadConfiguration
from aiperf.leaderboard.entry import Entry
from aiperf.nearest import nearest
from aiperf.report.figures import Figure, by_name


@dataclass(frozen=True, slots=True)
class Metric:
    """Figure of an entry (run or system) by which entries are ranked."""

    figure: Figure
    of: Callable[[Entry], float | None]
    explained: str
    missing: str = units.NOT_MEASURED
    bars: Callable[[Entry], str] = lambda entry: ""
    """Function that returns the reason why an entry with the figure gets no place by it, or ''."""

    @property
    def name(self) -> str:
        return self.figure.name

    @property
    def title(self) -> str:
        return self.figure.title

    @property
    def unit(self) -> str:
        return self.figure.unit

    @property
    def is_less_better(self) -> bool:
        return self.figure.better == "less"

    @property
    def shown(self) -> Callable[[float], str]:
        return self.figure.shown

    def ranks(self, entry: Entry) -> float | None:
        """Return the value of an entry by which it is ordered, in this metric's unit. None if the metric gives it no place."""
        return None if self.bars(entry) else self.of(entry)


def _below_level_1(entry: Entry) -> str:
    # As in the Green500: measuring a smaller part of the machine would give a better place.
    is_below = entry.power is not None and entry.power.level < 1
    return "measured below EEHPC Level 1" if is_below else ""


METRICS = (
    Metric(
        by_name("score"),
        lambda entry: entry.flops_per_second,
        "counted operations in the valid window ÷ its length",
        missing="no valid window",
    ),
    Metric(
        by_name("regulated"),
        lambda entry: entry.regulated_flops_per_second,
        "−ln(error) × score",
        missing="no top-1 error",
    ),
    Metric(
        by_name("error"),
        lambda entry: entry.error,
        "1 − best measured top-1 accuracy",
        missing="no top-1 error",
    ),
    Metric(
        by_name("valid-flops"),
        lambda entry: entry.valid_flops,
        "HPC AI500’s: FLOPS × (quality ÷ target)^n; for runs with a target quality",
        missing="does not apply",
    ),
    Metric(
        by_name("mfu"),
        lambda entry: entry.mfu,
        "convolutions and matrix products ÷ accelerator time · peak; not ranked with a declared peak",
        bars=lambda entry: "the peak is declared" if entry.is_peak_declared else "",
    ),
    Metric(
        by_name("flops-per-watt"),
        lambda entry: None if entry.power is None else entry.power.flops_per_watt,
        "score ÷ mean power in the valid window; ranked from EEHPC Level 1 on",
        bars=_below_level_1,
    ),
    Metric(
        by_name("availability"),
        lambda entry: entry.availability,
        "available share of the planned accelerators’ time in the valid window",
    ),
)


def metric(name: str) -> Metric:
    """Return the metric with this name: score, regulated, error, valid-flops, mfu, flops-per-watt or availability."""
    names = [each.name for each in METRICS]
    if name not in names:
        raise BadConfiguration(f"--by is one of {', '.join(names)}, but found {name!r}{nearest(name, names)}")
    return METRICS[names.index(name)]
