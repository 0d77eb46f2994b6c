"""The same trials of two runs, pair by pair: what runs that follow one journal are compared by.

A pair is an architecture at a batch that both trained, for as many images: the first such trial of the one with the first of
the other, the second with the second. No estimate enters, and no search: the ratio is that of the machines at equal work.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from aiperf.statistics.difference import two_sided
from aiperf.statistics.estimate import deviation, mean, quantile
from aiperf.statistics.work_mix import RunWork, TrialWork

EQUAL_WORK = 0.01
"""Operations in the window may differ by so much: what the window's edge cuts is another mix of training and validation."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Of two runs."""

    pairs: int
    left_out: int
    """Pairs that did unlike much inside their windows."""
    relative: float
    """Speed of the second ÷ the first − 1: operations a busy accelerator-second, geometric mean over pairs."""
    interval: tuple[float, float] | None
    """95 %, Student's t over pairs; None of a single one."""
    p_value: float | None


def pairs(first: RunWork, second: RunWork) -> Pairs | None:
    """None where there is no pair."""
    ones, others = _by_cell(first.trials), _by_cell(second.trials)
    both = [pair for cell, trials in ones.items() for pair in zip(trials, others.get(cell, ()), strict=False)]
    alike = [
        math.log((other.operations / other.busy_seconds) / (one.operations / one.busy_seconds))
        for one, other in both
        if abs(other.operations / one.operations - 1) <= EQUAL_WORK
    ]
    if not alike:
        return None
    middle, freedom = mean(alike), len(alike) - 1
    if not freedom:
        return Pairs(1, len(both) - 1, math.expm1(middle), None, None)
    error = deviation(alike) / math.sqrt(len(alike))
    half = quantile(freedom) * error
    p_value = two_sided(middle / error, freedom) if error else float(middle == 0)
    between = math.expm1(middle - half), math.expm1(middle + half)
    return Pairs(len(alike), len(both) - len(alike), math.expm1(middle), between, p_value)


def _by_cell(trials: Sequence[TrialWork]) -> dict[tuple[str, int], list[TrialWork]]:
    """In order of their start."""
    found: defaultdict[tuple[str, int], list[TrialWork]] = defaultdict(list)
    for trial in trials:
        found[trial.network, trial.batch].append(trial)
    return found
