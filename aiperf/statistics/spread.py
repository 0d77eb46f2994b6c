"""How far repeated runs lie apart: their coefficient of variation with its own interval, and how many runs a precision takes.

A coefficient of variation from five runs is itself known badly, and says so. Sources: docs/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from aiperf.statistics.estimate import LEVEL, deviation, mean, quantile

LARGEST_FOR_INTERVAL = 0.33
"""Vangel's approximation is stated for coefficients of variation up to a third."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one figure over repeated runs."""

    values: tuple[float, ...]
    mean: float
    deviation: float
    """By n − 1."""
    variation: float
    """Coefficient of variation: deviation ÷ mean."""
    variation_interval: tuple[float, float] | None
    """95 %, of the coefficient; None where it is too large for the approximation, or zero."""


def spread(values: Sequence[float]) -> Spread | None:
    """None where there are fewer than two values, or their mean is not above zero: a share of nothing is no share."""
    if len(values) < 2 or mean(values) <= 0:
        return None
    middle, apart = mean(values), deviation(values)
    return Spread(tuple(values), middle, apart, apart / middle, variation_interval(apart / middle, len(values)))


def variation_interval(variation: float, runs: int) -> tuple[float, float] | None:
    """95 % interval of a coefficient of variation K from n runs of a normal figure (Vangel 1996, modified McKay).

    K ÷ √(((u + 2) ÷ n − 1) K² + u ÷ (n − 1)), with u the χ² quantiles of n − 1 degrees of freedom at 97.5 and 2.5 %.

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
    """How many more equal runs make the mean's 95 % interval no wider than ± `precision` (a share of the mean).

    Stein's second sample (1945): with the deviation and the t of the runs that are there, n = ⌈(t · s ÷ (precision ·
    mean))²⌉ runs in all hold the width whatever the true deviation is, where the interval is made with the first runs'
    deviation. It asks for many after two runs, since two runs know their deviation badly.

    >>> more_runs(spread([100.0, 101.0, 99.0, 100.5, 99.5]), 0.005)  # s = 0.79, t(4) = 2.776: (4.39)² = 19.3
    15
    """
    runs = len(of.values)
    needed = (quantile(runs - 1) * of.variation / precision) ** 2
    return max(0, math.ceil(needed * (1 - 1e-12)) - runs)
