"""The figures that runs can be ranked by."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from aiperf import units
from aiperf.errors import BadConfiguration
from aiperf.leaderboard.entry import Entry
from aiperf.leaderboard.valid_flops import EXPONENT, TARGET_ACCURACY


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of an entry, and which way it is better."""

    name: str
    """On the command line."""
    title: str
    unit: str
    """Of the bare value."""
    of: Callable[[Entry], float | None]
    shown: Callable[[float], str]
    explained: str
    is_less_better: bool = False
    missing: str = units.NOT_MEASURED
    """What is said where there is none."""
    bars: Callable[[Entry], str] = lambda entry: ""
    """Why an entry that has the figure is in no order by it; '' where it is."""

    def ranks(self, entry: Entry) -> float | None:
        """What an entry is ordered by; None: it has no place."""
        return None if self.bars(entry) else self.of(entry)


def _below_level_1(entry: Entry) -> str:
    # As the Green500: whoever measures less of the machine would stand higher.
    is_below = entry.power is not None and entry.power.level < 1
    return "measured below EEHPC Level 1" if is_below else ""


METRICS = (
    Metric(
        "score",
        "score",
        "FLOPS",
        lambda entry: entry.flops_per_second,
        units.flops_per_second,
        "counted operations in the valid window ÷ its length",
        missing="no valid window",
    ),
    Metric(
        "regulated",
        "regulated score",
        "FLOPS",
        lambda entry: entry.regulated_flops_per_second,
        units.flops_per_second,
        "−ln(error) × score",
        missing="no evaluation",
    ),
    Metric(
        "error",
        "error",
        "",
        lambda entry: entry.error,
        units.error,
        "1 − best measured top-1 accuracy",
        is_less_better=True,
        missing="no evaluation",
    ),
    Metric(
        "valid-flops",
        "valid FLOPS",
        "FLOPS",
        lambda entry: entry.valid_flops,
        units.flops_per_second,
        f"HPC AI500’s: score × (accuracy ÷ {TARGET_ACCURACY})^{EXPONENT}; on ImageNet alone",
        missing="does not apply",
    ),
    Metric(
        "mfu",
        "MFU",
        "",
        lambda entry: entry.mfu,
        units.share,
        "convolutions and matrix products ÷ accelerator time · peak",
    ),
    Metric(
        "flops-per-watt",
        "FLOPS/W",
        "FLOPS/W",
        lambda entry: None if entry.power is None else entry.power.flops_per_watt,
        lambda value: units.si(value, "FLOPS/W"),
        "score ÷ mean power in the valid window; in an order from EEHPC Level 1 on",
        bars=_below_level_1,
    ),
    Metric(
        "availability",
        "availability",
        "",
        lambda entry: entry.availability,
        units.share,
        "of the planned accelerators’ time in the valid window, what was there",
    ),
)


def metric(name: str) -> Metric:
    """The metric of that name.

    Raises:
        BadConfiguration: there is none.
    """
    names = [each.name for each in METRICS]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        raise BadConfiguration(
            f"--by is one of {', '.join(names)}; found {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
        )
    return METRICS[names.index(name)]
