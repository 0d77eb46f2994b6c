"""Uncertainty of a score over runs, and tests of differences: of two figures, of a regression, and of all pairs of a list.

The interval of one run covers the steadiness of that run only. Three or more runs: their own spread. Fewer: the pooled spread
of a list's repeats, or an assumed coefficient of variation (docs/statistics.md, "Between runs"), combined with their own.
Welch's test on the logarithms, because the result is a ratio and each side has its own uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

import numpy as np
import numpy.typing as npt

from aiperf.statistics.estimate import LEVEL, Estimate, deviation, of_one_run, quantile

ENOUGH = 3
"""Number of runs from which their own spread is used without an assumption."""
ENOUGH_FREEDOM = 10
"""Degrees of freedom from which the pooled spread of a list's repeats is used."""
MEDIAN = math.sqrt(math.pi / 2)
"""Standard error of a median ÷ standard error of the mean, for many normal values. For three values it is 1.16."""


@dataclass(frozen=True, slots=True)
class RelativeChange:
    relative: float
    """Second ÷ first − 1, as a share: 0.1 means 10 % more."""
    interval: tuple[float, float] | None
    """95 % interval of `relative`. None if the uncertainty of a figure is unknown."""
    p_value: float | None
    """Two-sided p-value. None if the uncertainty of a figure is unknown."""

    @property
    def is_real(self) -> bool | None:
        """True if the change is significant at 5 % (p-value below 0.05), False if not. None if the p-value is unknown."""
        return None if self.p_value is None else self.p_value < 0.05


Verdict = Literal["no regression", "regression", "cannot be determined"]


def change(first: float, second: float, of_first: Estimate | None, of_second: Estimate | None) -> RelativeChange | None:
    """Return the relative change second ÷ first − 1 with its 95 % interval and p-value. None if `first` is not positive.

    `of_first`, `of_second`: uncertainty of each figure, None if unknown. If one is None, or if `second` is not positive,
    interval and p-value are None.
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
    freedom: float = of_first.freedom  # of the one variance that both share
    if not of_first.basis == of_second.basis == "pooled":
        freedom = welch_freedom(parts, (of_first.freedom, of_second.freedom))
    half = quantile(freedom) * error
    return RelativeChange(
        relative, (math.expm1(step - half), math.expm1(step + half)), two_sided(step / error, freedom)
    )


def welch_freedom(variances: list[float], freedoms: tuple[int, int]) -> float:
    """Return the degrees of freedom of a difference of two means, by Welch and Satterthwaite: (Σ v)² ÷ Σ (v² ÷ f)."""
    total = math.fsum(variances)
    return 1 / math.fsum((each / total) ** 2 / freedom for each, freedom in zip(variances, freedoms, strict=True))


def two_sided(t: float, freedom: float) -> float:
    """Return the two-sided p-value, 0..1, of the value `t` in Student's distribution with `freedom` degrees of freedom."""
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(t)))


def verdict(measured: RelativeChange, largest_regression: float, *, more_is_better: bool = True) -> Verdict:
    """Return "regression", "no regression" or "cannot be determined" for a change, by its 95 % interval and a margin."""
    if measured.interval is None:
        return "cannot be determined"
    low, high = measured.interval
    if not more_is_better:  # invert the ratio: an error × 1.25 corresponds to a figure × 0.8
        low, high = 1 / (1 + high) - 1, 1 / (1 + low) - 1
    if low >= -largest_regression:
        return "no regression"
    return "regression" if high < -largest_regression else "cannot be determined"


Real = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlaceRange:
    place: int
    """Place by the figure only, from 1. Equal figures share a place."""
    best_place: int | None
    """1 + number of surely better entries. None if the entry's uncertainty is unknown."""
    worst_place: int | None
    """Number of entries that are not surely worse, including itself. None as for `best_place`."""
    is_tested: bool
    """False if the uncertainty is unknown, or rests on an assumed spread between runs."""

    @property
    def allowed(self) -> tuple[int, int] | None:
        """Best and worst place. None if the uncertainty is unknown."""
        return None if self.best_place is None or self.worst_place is None else (self.best_place, self.worst_place)


def ties(entries: Sequence[tuple[float, Estimate | None]], *, more_is_better: bool = True) -> tuple[PlaceRange, ...]:
    """Place of each entry (figure, uncertainty or None), with the range of places that its uncertainty allows.

    An entry with an assumed spread is never surely apart from a tested one. Its own range holds under the assumption.
    """
    values = np.array([value for value, _ in entries], dtype=np.float64)
    if not more_is_better:
        values = -values
    estimates = [estimate for _, estimate in entries]
    tested = _ranges(values, [None if each is None or each.basis == "prior" else each for each in estimates])
    assumed = _ranges(values, estimates)
    return tuple(
        PlaceRange(1 + int((values > value).sum()), best, worst, is_tested=sure is not None)
        for value, sure, unsure in zip(values.tolist(), tested, assumed, strict=True)
        for best, worst in [sure or unsure or (None, None)]
    )


def _ranges(values: Real, estimates: Sequence[Estimate | None]) -> list[tuple[int, int] | None]:
    """Best and worst place of each entry. None without an estimate. `values`: the larger, the better."""
    known = [index for index, estimate in enumerate(estimates) if estimate is not None]
    apart = surely_apart([estimate for estimate in estimates if estimate is not None])
    better = apart & (values[known][:, None] > values[known][None, :])  # [i, j]: i is surely better than j
    ranges: list[tuple[int, int] | None] = [None] * len(estimates)
    for row, index in enumerate(known):
        ranges[index] = 1 + int(better[:, row].sum()), len(estimates) - int(better[row].sum())
    return ranges


def surely_apart(estimates: Sequence[Estimate]) -> npt.NDArray[np.bool_]:
    """Return a symmetric array (n, n) that is True at [i, j] if the estimates i and j differ significantly."""
    from scipy.special import stdtr

    size = len(estimates)
    apart = np.zeros((size, size), dtype=np.bool_)
    if size < 2:
        return apart
    first, second = np.triu_indices(size, 1)
    value = np.array([each.value for each in estimates])
    variance = np.array([each.standard_error**2 for each in estimates])
    freedom = np.array([each.freedom for each in estimates], dtype=np.float64)
    step = np.abs(value[first] - value[second])
    both = variance[first] + variance[second]
    is_certain = both == 0
    # Share of the first variance. Squares of the variances themselves could underflow.
    part = variance[first] / np.where(is_certain, 1.0, both)
    welch = 1 / (part**2 / freedom[first] + (1 - part) ** 2 / freedom[second])
    is_pooled = np.array([each.basis == "pooled" for each in estimates])
    welch = np.where(is_pooled[first] & is_pooled[second], freedom[first], welch)  # of the one variance that both share
    t = np.where(is_certain, np.where(step > 0, np.inf, 0.0), step / np.sqrt(np.where(is_certain, 1.0, both)))
    p_values = 2 * stdtr(welch, -t)
    is_apart = holm(np.asarray(p_values, dtype=np.float64), 1 - LEVEL)
    apart[first, second] = apart[second, first] = is_apart
    return apart


def holm(p_values: Real, level: float) -> npt.NDArray[np.bool_]:
    """Return True for each rejected hypothesis, in the order of `p_values`, by Holm's step-down method (1979)."""
    order = np.argsort(p_values, kind="stable")
    is_kept = p_values[order] > level / (len(p_values) - np.arange(len(p_values)))
    is_rejected = np.zeros(len(p_values), dtype=np.bool_)
    is_rejected[order[: int(np.argmax(is_kept)) if is_kept.any() else len(p_values)]] = True
    return is_rejected


@dataclass(frozen=True, slots=True)
class BetweenRuns:
    """Spread of a figure between runs of one machine, for sets of fewer than three runs."""

    variation: float
    """Coefficient of variation."""
    freedom: int
    """Degrees of freedom. Of an assumption: its weight."""
    is_pooled: bool = False
    """Measured over the repeats of a list. False: assumed."""

    @property
    def text(self) -> str:
        """Coefficient of variation and degrees of freedom as text, printed next to each result that uses them."""
        return f"{100 * self.variation:.3g} % ({self.freedom} degrees of freedom)"


LONG = BetweenRuns(0.02, 4)
SHORT = BetweenRuns(0.06, 4)
LONG_WINDOW_SECONDS = 3600.0


def prior_of(window_seconds: float) -> BetweenRuns:
    """Return the assumed spread of the score between runs of one machine: 2 % for long windows, 6 % for others."""
    return LONG if window_seconds >= LONG_WINDOW_SECONDS else SHORT


def pooled(systems: Iterable[Sequence[float]]) -> BetweenRuns | None:
    """Pooled spread of a figure over systems with repeats, by the variance of its logarithms. None without a spread."""
    repeats = [[math.log(value) for value in values] for values in systems if len(values) > 1 and min(values) > 0]
    freedom = sum(len(each) - 1 for each in repeats)
    squares = math.fsum((len(each) - 1) * deviation(each) ** 2 for each in repeats)
    return BetweenRuns(math.sqrt(squares / freedom), freedom, is_pooled=True) if squares > 0 else None


@dataclass(frozen=True, slots=True)
class ListSpread:
    """Spread between runs of one machine. One value holds for all entries of a list."""

    assumed: BetweenRuns | None
    """None for a figure without a decided spread."""
    pooled: BetweenRuns | None
    """From the list's repeats. None without repeats."""

    @property
    def used(self) -> BetweenRuns | None:
        """The pooled spread from 10 degrees of freedom on, otherwise the assumed one."""
        return self.pooled if self.pooled is not None and self.pooled.freedom >= ENOUGH_FREEDOM else self.assumed


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """Score in FLOPS with the run's own 95 % interval and its degrees of freedom, None if the run was too short."""

    score: float
    interval: tuple[float, float] | None
    freedom: int | None
    window_seconds: float


def over_runs(
    runs: Sequence[ScoredRun], *, of_median: bool = False, spread: BetweenRuns | None = None
) -> Estimate | None:
    """Mean of the scores with its uncertainty over runs. None without runs, or for a score ≤ 0.

    `spread`: of fewer than three runs. Default: the assumed one.
    """
    if not runs or min(run.score for run in runs) <= 0:
        return None
    scores = [run.score for run in runs]
    value = median(scores) if of_median else fmean(scores)
    if len(runs) >= ENOUGH:
        error = deviation(scores) / math.sqrt(len(runs))
        return Estimate(value, error * (MEDIAN if of_median else 1.0), len(runs) - 1, "repeats")
    spread = spread or prior_of(min(run.window_seconds for run in runs))
    parts = [(spread.variation**2, spread.freedom)]
    own = [of_one_run(run.score, run.interval, run.freedom) for run in runs]
    known = [each for each in own if each is not None]
    if known and not spread.is_pooled:  # a pooled spread contains the unsteadiness of the runs
        evenness = fmean([(each.standard_error / each.value) ** 2 for each in known])
        parts.append((evenness, sum(each.freedom for each in known)))
    variance = math.fsum(part for part, _ in parts)
    freedom = variance**2 / math.fsum(part**2 / of for part, of in parts)  # Satterthwaite
    if len(runs) > 1:
        squares = 2 * (math.log(scores[0] / scores[1]) / 2) ** 2
        if not spread.is_pooled:  # a pooled spread contains these two runs
            variance = (freedom * variance + squares) / (freedom + 1)
            freedom += 1
        variance = max(variance, squares)  # at least the spread of the two runs
    error = value * math.sqrt(variance / len(runs))
    return Estimate(value, error, max(1, int(freedom + 1e-9)), "pooled" if spread.is_pooled else "prior")
