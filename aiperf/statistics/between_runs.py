"""Uncertainty of a score over runs: from repeats, or from a documented prior if there are fewer than three.

The 95 % interval of one run covers the steadiness of that run only. Another run of the same machine has another seed, other
networks and another order of events, and so differs by more. A comparison of machines needs the variance between runs.

- Three or more runs: their own spread.
- Fewer: a prior coefficient of variation, combined with the spread of two runs and with each run's own interval.

The priors and their sources: docs/statistics.md, "Between runs".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from aiperf.statistics.estimate import Estimate, deviation, of_one_run

ENOUGH = 3
"""Number of runs from which their own spread is used without a prior."""
MEDIAN = math.sqrt(math.pi / 2)
"""Standard error of a median ÷ standard error of the mean, for many normal values. For three values it is 1.16."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Assumed spread between runs of one machine."""

    variation: float
    """Coefficient of variation of the score."""
    freedom: int
    """Degrees of freedom: the weight of the assumption."""

    @property
    def text(self) -> str:
        """Text of the assumption, printed next to each result that uses it."""
        return f"assumed spread between runs of one machine: {100 * self.variation:g} % ({self.freedom} degrees of freedom)"


LONG = Prior(0.02, 4)
SHORT = Prior(0.06, 4)
LONG_WINDOW_SECONDS = 3600.0


def prior_of(window_seconds: float) -> Prior:
    """Return the assumed spread between runs with a valid window of this many seconds: 2 % from an hour on, else 6 %."""
    return LONG if window_seconds >= LONG_WINDOW_SECONDS else SHORT


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """Score of a run with its own 95 % interval."""

    score: float
    interval: tuple[float, float] | None
    freedom: int | None
    window_seconds: float


def over_runs(runs: Sequence[ScoredRun], *, of_median: bool = False) -> Estimate | None:
    """Return the mean or the median of the scores in FLOPS with its uncertainty over runs.

    Fewer than three runs use an assumed spread. None without runs, for a single run without an interval of its own, or if a
    score is not positive.
    """
    if not runs or min(run.score for run in runs) <= 0:
        return None
    scores = [run.score for run in runs]
    value = median(scores) if of_median else fmean(scores)
    if len(runs) >= ENOUGH:
        error = deviation(scores) / math.sqrt(len(runs))
        return Estimate(value, error * (MEDIAN if of_median else 1.0), len(runs) - 1, "repeats")
    own = [of_one_run(run.score, run.interval, run.freedom) for run in runs]
    known = [each for each in own if each is not None]
    if len(runs) == 1 and not known:
        return None
    prior = prior_of(min(run.window_seconds for run in runs))
    parts = [(prior.variation**2, prior.freedom)]
    if known:
        evenness = fmean([(each.standard_error / each.value) ** 2 for each in known])
        parts.append((evenness, sum(each.freedom for each in known)))
    variance = math.fsum(part for part, _ in parts)
    freedom = variance**2 / math.fsum(part**2 / of for part, of in parts)  # Satterthwaite
    if len(runs) > 1:
        squares = 2 * (math.log(scores[0] / scores[1]) / 2) ** 2
        # At least the spread of the two runs.
        variance = max((freedom * variance + squares) / (freedom + 1), squares)
        freedom += 1
    return Estimate(value, value * math.sqrt(variance / len(runs)), max(1, int(freedom)), "prior")
