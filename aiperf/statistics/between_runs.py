"""Uncertainty of a score over runs: from repeats, or from a documented assumption (prior) for fewer than three runs.

The 95 % interval of one run covers the steadiness of that run only. Another run of the same machine has another seed, other
networks and another sequence of events, and therefore differs by more. A comparison of machines needs the variance between
runs.

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
    """Assumed spread of the score between runs of one machine, for sets of fewer than three runs."""

    variation: float
    """Coefficient of variation of the score."""
    freedom: int
    """Degrees of freedom: the weight of the assumption."""

    @property
    def text(self) -> str:
        """Sentence with the assumed spread in percent and its degrees of freedom, printed next to each result that uses it."""
        return f"assumed spread between runs of one machine: {100 * self.variation:g} % ({self.freedom} degrees of freedom)"


LONG = Prior(0.02, 4)
SHORT = Prior(0.06, 4)
LONG_WINDOW_SECONDS = 3600.0


def prior_of(window_seconds: float) -> Prior:
    """Return the assumed spread of the score between runs of one machine: 2 % for long windows, 6 % for others."""
    return LONG if window_seconds >= LONG_WINDOW_SECONDS else SHORT


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """Score of a run in FLOPS, with the run's own 95 % interval.

    The interval and its Student's degrees of freedom (`freedom`) are None if the run was too short for an interval.
    """

    score: float
    interval: tuple[float, float] | None
    freedom: int | None
    window_seconds: float


def over_runs(runs: Sequence[ScoredRun], *, of_median: bool = False) -> Estimate | None:
    """Return the mean of the scores in FLOPS with its uncertainty over runs.

    None without runs, for a single run without an interval, or if a score is not positive.
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
