"""A figure with what is known of its uncertainty: from repeated runs, or from how evenly one run went.

Both are a value, its standard error and Student's degrees of freedom, so that whoever compares figures needs one method. What
stands behind the number is kept beside it: an interval from one run's evenness does not hold what another run would give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LEVEL = 0.95
"""Of every interval."""

Basis = Literal["repeats", "evenness"]
"""Several equal runs, or the batches of one."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its uncertainty."""

    value: float
    standard_error: float
    freedom: int
    """Student's degrees of freedom of that error."""
    basis: Basis

    @property
    def interval(self) -> tuple[float, float]:
        """95 %: value ± t · standard error."""
        half = quantile(self.freedom) * self.standard_error
        return self.value - half, self.value + half


def of_repeats(values: Sequence[float]) -> Estimate | None:
    """The mean of equal runs. None where there are fewer than two: one run tells nothing of another."""
    runs = len(values)
    if runs < 2:
        return None
    return Estimate(mean(values), deviation(values) / math.sqrt(runs), runs - 1, "repeats")


def of_one_run(value: float | None, interval: tuple[float, float] | None, freedom: int | None) -> Estimate | None:
    """A score with its own 95 % interval (`aiperf.accounting.confidence`). None where the run has no interval."""
    if value is None or interval is None or freedom is None:
        return None
    # The upper end: the lower one is cut off at zero.
    return Estimate(value, (interval[1] - value) / quantile(freedom), freedom, "evenness")


def mean(values: Sequence[float]) -> float:
    """Summed exactly."""
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """The sample's standard deviation, by n − 1."""
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def quantile(freedom: float, level: float = LEVEL) -> float:
    """Student's t that so much of the distribution lies within, on both sides.

    >>> round(quantile(4), 3)
    2.776
    """
    from scipy.special import stdtrit  # a tenth of a second, for what few commands print

    return float(stdtrit(freedom, (1 + level) / 2))
