"""Test of the difference of two figures, and of a regression beyond a margin.

Welch's test on the logarithms, because the result is a ratio and each side has its own uncertainty. A difference that is not
significant does not prove equality: "no regression" requires that the whole interval is within the margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from aiperf.statistics.estimate import Estimate, quantile


@dataclass(frozen=True, slots=True)
class RelativeChange:
    """Relative change from one figure to another."""

    relative: float
    """Second ÷ first − 1."""
    interval: tuple[float, float] | None
    """95 % interval of `relative`. None if the uncertainty of a figure is unknown."""
    p_value: float | None
    """Two-sided p-value. None if the uncertainty of a figure is unknown."""

    @property
    def is_real(self) -> bool | None:
        """True if the change is significant at 5 %. None if it cannot be tested."""
        return None if self.p_value is None else self.p_value < 0.05


Verdict = Literal["no regression", "regression", "cannot be determined"]


def change(first: float, second: float, of_first: Estimate | None, of_second: Estimate | None) -> RelativeChange | None:
    """Return the change between two figures with its test. None if the first is not positive.

    Args:
        first: First figure.
        second: Second figure.
        of_first: Uncertainty of the first figure. None if unknown.
        of_second: Uncertainty of the second figure. None if unknown.
    """
    if first <= 0:
        return None
    relative = second / first - 1
    if of_first is None or of_second is None or second <= 0:
        return RelativeChange(relative, None, None)
    parts = [(each.standard_error / each.value) ** 2 for each in (of_first, of_second)]
    step = math.log(second / first)
    error = math.sqrt(math.fsum(parts))
    if error == 0:  # all runs of both sides are identical, as with simulated runs
        return RelativeChange(relative, (relative, relative), 0.0 if step else 1.0)
    freedom = welch_freedom(parts, (of_first.freedom, of_second.freedom))
    half = quantile(freedom) * error
    return RelativeChange(
        relative, (math.expm1(step - half), math.expm1(step + half)), two_sided(step / error, freedom)
    )


def welch_freedom(variances: list[float], freedoms: tuple[int, int]) -> float:
    """Return the degrees of freedom by Welch and Satterthwaite: (Σ v)² ÷ Σ (v² ÷ f), with v the variances of the two means.

    The variances are divided by their sum first, so that no square underflows.
    """
    total = math.fsum(variances)
    return 1 / math.fsum((each / total) ** 2 / freedom for each, freedom in zip(variances, freedoms, strict=True))


def two_sided(t: float, freedom: float) -> float:
    """Return the two-sided p-value of t in Student's distribution."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(t)))


def verdict(measured: RelativeChange, largest_regression: float, *, more_is_better: bool = True) -> Verdict:
    """Return the verdict on a change against a margin, given as a share.

    "regression" if the whole interval is beyond the margin, "no regression" if the whole interval is within it. An interval
    across the margin "cannot be determined", because a wide interval does not prove equality.
    """
    if measured.interval is None:
        return "cannot be determined"
    low, high = measured.interval
    if not more_is_better:  # invert the ratio: an error × 1.25 corresponds to a figure × 0.8
        low, high = 1 / (1 + high) - 1, 1 / (1 + low) - 1
    if low >= -largest_regression:
        return "no regression"
    return "regression" if high < -largest_regression else "cannot be determined"
