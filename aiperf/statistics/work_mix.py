"""Work of a run inside the valid window by trial: factors of the score, and comparison of two runs by pairs of equal trials."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from aiperf.statistics.difference import two_sided
from aiperf.statistics.estimate import deviation, quantile


@dataclass(frozen=True, slots=True)
class TrialWork:
    network: str
    """Fingerprint of the architecture."""
    batch: int
    """Images per accelerator and step."""
    operations: float
    """Operations of training and validation."""
    busy_seconds: float
    """Accelerator-seconds in training and validation steps."""


@dataclass(frozen=True, slots=True)
class RunWork:
    flops_per_second: float
    accelerators: int
    """Largest number of accelerators at once."""
    window_seconds: float
    trials: tuple[TrialWork, ...]
    """Trials with work in the window, in order of their start."""

    @property
    def factors(self) -> dict[str, float]:
        """Factors of the score, by the names in FACTORS: accelerators, busy share, share of counted work, and speed."""
        operations = math.fsum(trial.operations for trial in self.trials)
        busy_seconds = math.fsum(trial.busy_seconds for trial in self.trials)
        return {
            "accelerators": float(self.accelerators),
            "busy": busy_seconds / (self.accelerators * self.window_seconds),
            "done again": self.flops_per_second * self.window_seconds / operations,
            "speed": operations / busy_seconds,
        }


FACTORS = {
    "accelerators": "number of accelerators",
    "busy": "share of their time in steps",
    "done again": "counted part of the work, not repeated",
    "speed": "in steps: networks, batch sizes and machine",
}
"""Meaning of each factor of a score."""


@dataclass(frozen=True, slots=True)
class ScoreFactor:
    name: str
    change: float
    """Second ÷ first − 1. The product of all 1 + change is the ratio of the scores."""


def ratio_factors(first: Sequence[RunWork], second: Sequence[RunWork]) -> tuple[ScoreFactor, ...]:
    """Return the factors of the ratio second score ÷ first score, in the order of FACTORS, each as a change: 1.05 as +0.05."""
    if not all(run.flops_per_second > 0 and run.trials for run in (*first, *second)):
        return ()
    before, after = ([run.factors for run in runs] for runs in (first, second))
    return tuple(
        ScoreFactor(name, geometric_mean(of[name] for of in after) / geometric_mean(of[name] for of in before) - 1)
        for name in FACTORS
    )


EQUAL_WORK = 0.01
"""Largest relative difference of the operations in the window."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Speed of a second run relative to a first one, over pairs of equal trials (same network and batch size)."""

    pairs: int
    left_out: int
    """Pairs left out because their work in the windows differs."""
    relative: float
    """Speed of the second ÷ speed of the first − 1: operations per busy accelerator-second, geometric mean over pairs."""
    interval: tuple[float, float] | None
    """95 % interval, by Student's t over pairs. None for a single pair."""
    p_value: float | None


def pairs(first: RunWork, second: RunWork) -> Pairs | None:
    """Speed of the second run ÷ first, over pairs of trials with equal network and batch size. None if no pair is left."""
    ones, others = _by_cell(first.trials), _by_cell(second.trials)
    both = [pair for cell, trials in ones.items() for pair in zip(trials, others.get(cell, ()), strict=False)]
    alike = [
        math.log((other.operations / other.busy_seconds) / (one.operations / one.busy_seconds))
        for one, other in both
        if abs(other.operations / one.operations - 1) <= EQUAL_WORK
    ]
    if not alike:
        return None
    middle, freedom = fmean(alike), len(alike) - 1
    if not freedom:
        return Pairs(1, len(both) - 1, math.expm1(middle), None, None)
    error = deviation(alike) / math.sqrt(len(alike))
    half = quantile(freedom) * error
    p_value = two_sided(middle / error, freedom) if error else float(middle == 0)
    between = math.expm1(middle - half), math.expm1(middle + half)
    return Pairs(len(alike), len(both) - len(alike), math.expm1(middle), between, p_value)


def _by_cell(trials: Sequence[TrialWork]) -> dict[tuple[str, int], list[TrialWork]]:
    by_cell: defaultdict[tuple[str, int], list[TrialWork]] = defaultdict(list)
    for trial in trials:
        by_cell[trial.network, trial.batch].append(trial)
    return by_cell
