"""Work of a run by trial inside the valid window, and the comparison of two runs by pairs of equal trials.

    score = accelerators · busy time · counted part of the work · operations per busy accelerator-second

is exact (docs/statistics.md). The last factor depends on networks, batch sizes and the machine.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from aiperf.statistics.difference import two_sided
from aiperf.statistics.estimate import deviation, quantile


@dataclass(frozen=True, slots=True)
class TrialWork:
    """Work of one trial inside the window, including lost work that was repeated."""

    network: str
    """Fingerprint of the architecture."""
    batch: int
    """Images per accelerator and step."""
    started: float
    """Seconds since the run began. Orders the trials of a run."""
    images: float
    """Trained and validated images. An interval that crosses the window's edge counts in proportion."""
    operations: float
    """Operations of training and validation."""
    tensor_operations: float
    """Operations of convolutions and matrix products."""
    parameters: int
    generation: int
    """Number of proposals from the starting graph to this network. Later generations have more layers."""
    busy_seconds: float
    """Accelerator-seconds in training and validation steps."""

    @property
    def is_measured(self) -> bool:
        """True if the trial has work in the window from which a speed follows."""
        return self.images > 0 and self.operations > 0 and self.busy_seconds > 0


@dataclass(frozen=True, slots=True)
class RunWork:
    """Work of one run."""

    name: str
    flops_per_second: float
    """Score of the run."""
    accelerators: int
    """Largest number at once."""
    window_seconds: float
    trials: tuple[TrialWork, ...]
    """Trials with work in the window, in order of their start."""

    @property
    def busy_seconds(self) -> float:
        """Busy accelerator-seconds of all trials."""
        return math.fsum(trial.busy_seconds for trial in self.trials)

    @property
    def operations(self) -> float:
        """Operations of all trials, including lost work."""
        return math.fsum(trial.operations for trial in self.trials)


EQUAL_WORK = 0.01
"""Largest relative difference of the operations in the window. The window's edge may cut training and validation unequally."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Speed ratio of two runs over pairs of equal trials."""

    pairs: int
    left_out: int
    """Pairs left out because their work in the windows differs."""
    relative: float
    """Speed of the second ÷ speed of the first − 1: operations per busy accelerator-second, geometric mean over pairs."""
    interval: tuple[float, float] | None
    """95 % interval, by Student's t over pairs. None for a single pair."""
    p_value: float | None


def pairs(first: RunWork, second: RunWork) -> Pairs | None:
    """Compare two runs by their equal trials. None if there is no pair."""
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
    """Return the trials by (network, batch size), in order of their start."""
    by_cell: defaultdict[tuple[str, int], list[TrialWork]] = defaultdict(list)
    for trial in trials:
        by_cell[trial.network, trial.batch].append(trial)
    return by_cell
