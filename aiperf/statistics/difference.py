"""Whether two figures differ, and whether one is worse than the other by more than a margin.

Welch's test on the logarithms: what is asked for is a ratio, and both sides have an uncertainty of their own. Not
significant is not equal: that a figure is no worse than a margin is only said where its interval says it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from aiperf.statistics.estimate import Estimate, quantile


@dataclass(frozen=True, slots=True)
class Change:
    """From one figure to another."""

    relative: float
    """Second ÷ first − 1."""
    interval: tuple[float, float] | None
    """95 %, of `relative`; None: one of the figures has no known uncertainty."""
    p_value: float | None
    """Two-sided: how often a difference as large would come by chance alone, were there none."""

    @property
    def is_real(self) -> bool | None:
        """Whether chance alone explains it badly, at 5 %; None: it cannot be determined."""
        return None if self.p_value is None else self.p_value < 0.05


Verdict = Literal["no regression", "regression", "cannot be determined"]


def change(first: float, second: float, of_first: Estimate | None, of_second: Estimate | None) -> Change | None:
    """None where the first is not above zero: there is no ratio to it."""
    if first <= 0:
        return None
    relative = second / first - 1
    if of_first is None or of_second is None or second <= 0:
        return Change(relative, None, None)
    parts = [(each.standard_error / each.value) ** 2 for each in (of_first, of_second)]
    step = math.log(second / first)
    error = math.sqrt(math.fsum(parts))
    if error == 0:  # runs that came out equal to the last digit: simulated ones
        return Change(relative, (relative, relative), 0.0 if step else 1.0)
    freedom = welch_freedom(parts, (of_first.freedom, of_second.freedom))
    half = quantile(freedom) * error
    return Change(relative, (math.expm1(step - half), math.expm1(step + half)), two_sided(step / error, freedom))


def welch_freedom(variances: list[float], freedoms: tuple[int, int]) -> float:
    """Welch and Satterthwaite: (Σ v)² ÷ Σ (v² ÷ f), of the variances of the two means; as parts of their sum, which no square
    makes too small to be told."""
    whole = math.fsum(variances)
    return 1 / math.fsum((each / whole) ** 2 / freedom for each, freedom in zip(variances, freedoms, strict=True))


def two_sided(t: float, freedom: float) -> float:
    """How much of Student's distribution lies further out than |t|."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(t)))


def verdict(found: Change, largest_regression: float, *, more_is_better: bool = True) -> Verdict:
    """Against a margin (a share): a regression where the whole interval lies beyond it, none where none of it does.

    What lies across the margin cannot be determined, and is never passed: a wide interval is no proof of equality.
    """
    if found.interval is None:
        return "cannot be determined"
    low, high = found.interval
    if not more_is_better:  # an error that grows to 1.25 times is a figure that falls to 0.8
        low, high = 1 / (1 + high) - 1, 1 / (1 + low) - 1
    if low >= -largest_regression:
        return "no regression"
    return "regression" if high < -largest_regression else "cannot be determined"
