"""Figure with its uncertainty, from repeated runs or from the steadiness of one run, and the spread of repeated runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

LEVEL = 0.95
"""Confidence level of every interval."""

Basis = Literal["repeats", "pooled", "evenness", "prior"]
"""Source of an uncertainty: several equal runs, all repeats of a list, the batches of one run, or an assumed spread."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, its standard error in the same unit, and the source of that uncertainty."""

    value: float
    standard_error: float
    freedom: int
    """Student's degrees of freedom of `standard_error`."""
    basis: Basis

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the 95 % interval, in the unit of the figure: value ± t · standard error."""
        half = quantile(self.freedom) * self.standard_error
        return self.value - half, self.value + half


def of_repeats(values: Sequence[float]) -> Estimate | None:
    """Return the mean of a figure over equal runs, with its standard error. None for fewer than two runs."""
    runs = len(values)
    if runs < 2:
        return None
    return Estimate(fmean(values), deviation(values) / math.sqrt(runs), runs - 1, "repeats")


def of_one_run(value: float | None, interval: tuple[float, float] | None, freedom: int | None) -> Estimate | None:
    """Score of one run, with the standard error of its 95 % interval. None if any argument is None."""
    if value is None or interval is None or freedom is None:
        return None
    # From the upper end, because the lower end is limited to zero.
    return Estimate(value, (interval[1] - value) / quantile(freedom), freedom, "evenness")


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n − 1) of the values, in their unit. At least two values are needed."""
    middle = fmean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the factor t of Student's distribution: a two-sided interval is the mean ± t · standard error.

    `freedom`: degrees of freedom. `level`: confidence level as a share, 0..1.

    >>> round(quantile(4), 3)
    2.776
    """
    from scipy.special import stdtrit  # imported late: takes 0.1 s

    return float(stdtrit(freedom, (1 + level) / 2))


LARGEST_FOR_INTERVAL = 0.33
"""Largest coefficient of variation for which Vangel's approximation is stated."""


@dataclass(frozen=True, slots=True)
class Spread:
    values: tuple[float, ...]
    mean: float
    deviation: float
    """Standard deviation, with n − 1."""
    variation: float
    """Coefficient of variation: deviation ÷ mean."""
    variation_interval: tuple[float, float] | None
    """95 % interval of `variation`. None if it is zero or too large for the approximation."""


def spread(values: Sequence[float]) -> Spread | None:
    """None for fewer than two values, or if the mean is not positive."""
    if len(values) < 2 or fmean(values) <= 0:
        return None
    middle, apart = fmean(values), deviation(values)
    return Spread(tuple(values), middle, apart, apart / middle, variation_interval(apart / middle, len(values)))


def variation_interval(variation: float, runs: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a coefficient of variation (standard deviation ÷ mean) of a normal figure.

    `variation`: the coefficient K, as a share. `runs`: number n of runs from which it was computed. Formula (Vangel 1996,
    modified McKay): K ÷ √(((u + 2) ÷ n − 1) K² + u ÷ (n − 1)), with u the χ² quantiles of n − 1 degrees of freedom at 97.5 and
    2.5 %. None if K is not positive or above 0.33, for which the approximation does not hold, or if the upper end is infinite.

    >>> low, high = variation_interval(0.05, 5) or (0.0, 0.0)
    >>> round(low, 4), round(high, 4)
    (0.0299, 0.1444)
    """
    from scipy.special import chdtri

    if not 0 < variation <= LARGEST_FOR_INTERVAL:
        return None
    ends = []
    for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        u = float(chdtri(runs - 1, tail))
        under = ((u + 2) / runs - 1) * variation**2 + u / (runs - 1)
        ends.append(variation / math.sqrt(under) if under > 0 else math.inf)
    return None if math.isinf(ends[1]) else (ends[0], ends[1])


def more_runs(of: Spread, precision: float) -> int:
    """Return the number of further runs that are needed for a 95 % interval of the mean of ± `precision`. 0 if none is needed.

    `of`: spread of the present runs. `precision`: half width of the interval as a share of the mean, above 0. Stein's second
    sample (1945): with s and t of the present runs, n = ⌈(t · s ÷ (precision · mean))²⌉ runs in total give this width for any
    true deviation, if the interval uses s of the first runs. After two runs the number is large, because two runs determine s
    badly.

    >>> more_runs(spread([100.0, 101.0, 99.0, 100.5, 99.5]), 0.005)  # s = 0.79, t(4) = 2.776: (4.39)² = 19.3
    15
    """
    runs = len(of.values)
    needed = (quantile(runs - 1) * of.variation / precision) ** 2
    return max(0, math.ceil(needed * (1 - 1e-12)) - runs)
