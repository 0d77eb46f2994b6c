"""Figure with its uncertainty, from repeated runs or from the steadiness of one run.

Both have a value, a standard error and Student's degrees of freedom, so one method compares them. The basis is stored with the
number, because an interval from the steadiness of one run does not cover other runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

LEVEL = 0.95
"""Confidence level of every interval."""

Basis = Literal["repeats", "evenness", "prior"]
"""Source of an uncertainty: several equal runs, the batches of one run, or an assumed spread between runs."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its uncertainty."""

    value: float
    standard_error: float
    freedom: int
    """Student's degrees of freedom of `standard_error`."""
    basis: Basis

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval: value ± t · standard error."""
        half = quantile(self.freedom) * self.standard_error
        return self.value - half, self.value + half


def of_repeats(values: Sequence[float]) -> Estimate | None:
    """Return the mean of equal runs. None for fewer than two runs."""
    runs = len(values)
    if runs < 2:
        return None
    return Estimate(fmean(values), deviation(values) / math.sqrt(runs), runs - 1, "repeats")


def of_one_run(value: float | None, interval: tuple[float, float] | None, freedom: int | None) -> Estimate | None:
    """Return a score with its own 95 % interval (`aiperf.accounting.confidence`). None without an interval."""
    if value is None or interval is None or freedom is None:
        return None
    # From the upper end, because the lower end is limited to zero.
    return Estimate(value, (interval[1] - value) / quantile(freedom), freedom, "evenness")


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample, with n − 1."""
    middle = fmean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def quantile(freedom: float, level: float = LEVEL) -> float:
    """Return Student's t for a two-sided interval with this level.

    >>> round(quantile(4), 3)
    2.776
    """
    from scipy.special import stdtrit  # imported late: takes 0.1 s

    return float(stdtrit(freedom, (1 + level) / 2))
