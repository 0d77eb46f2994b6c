"""What a difference between runs is made of: networks, batches, the machine's speed, and what kept it from working.

Parts are logarithms of ratios, since the score is a product; they add up exactly, and are handed out in FLOPS by the
logarithmic mean. Two factors act together (which networks, and at which batches): they are split by Shapley's value, which
for two is the mean of both orders. What no part explains has a line of its own. Derivation and sources: docs/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from aiperf.statistics.estimate import quantile
from aiperf.statistics.mixture import Mixtures, mixtures
from aiperf.statistics.speed_model import SpeedModel, Trials, fit, trials_of
from aiperf.statistics.work_mix import RunWork

MEANINGS = {
    "networks": "which networks were trained, and for how many images: some use a machine better",
    "batches": "at which batch sizes",
    "machine": "the same network at the same batch took another time",
    "batches or machine": "these cannot be told apart: no batch sizes are common to all",
    "busy": "share of the accelerators' time in which they trained: gaps, starts, input, absence",
    "done again": "work that a loss made worthless",
    "accelerators": "how many there were",
    "unexplained": "networks or stretches of time that were faster or slower than the estimate says",
}
"""The parts, and what each is."""
SEARCH = ("networks", "batches")
MACHINE = ("machine", "busy", "done again", "accelerators")
GROUPS = 20
"""Of the jackknife."""


@dataclass(frozen=True, slots=True)
class Part:
    """Of a difference of two scores."""

    name: str
    log_ratio: float
    """ln(second ÷ first) that it makes; those of all parts add up to that of the scores."""
    error: float | None
    """Half the 95 % interval of `log_ratio`, from how well trials tell speeds (a jackknife); None: too few networks."""
    flops_per_second: float
    """Of the second score less the first; these add up to it."""


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """Of the score of one side from the other's; of several runs, from geometric mean to geometric mean."""

    log_ratio: float
    flops_per_second: float
    parts: tuple[Part, ...]
    shared_cells: int
    """Networks at a batch that several runs trained."""
    shared_part: float
    """Of the busy time of all, that in such."""
    is_direct: bool
    """Whether the machines were compared on these alone; else on what steps of unlike networks hold."""


@dataclass(frozen=True, slots=True)
class SpreadPart:
    """Of the variance of the logarithm of the score."""

    name: str
    share: float
    """Covariance with the score ÷ the score's variance (Shorrocks 1982): they add up to 1. Below zero: it evened others out."""
    error: float | None
    """Half the 95 % interval of `share`, by the same jackknife."""
    deviation: float
    """What the spread of the score would be by this part alone: its own standard deviation, as a share."""


@dataclass(frozen=True, slots=True)
class SharesOfSpread:
    """Of several runs."""

    deviation: float
    """Standard deviation of the logarithm of the score: nearly its coefficient of variation."""
    parts: tuple[SpreadPart, ...]
    shared_cells: int
    shared_part: float
    is_direct: bool

    @property
    def of_search(self) -> float:
        """Share of networks and batches."""
        return math.fsum(part.share for part in self.parts if part.name in SEARCH)

    @property
    def of_machine(self) -> float:
        """Share of speed, busy time, losses and accelerators."""
        return math.fsum(part.share for part in self.parts if part.name in MACHINE)


def difference(first: Sequence[RunWork], second: Sequence[RunWork]) -> ScoreDifference | None:
    """Of two sides of a run or more each. None where one of the runs did nothing in its window."""
    runs = (*first, *second)
    if not first or not second or not all(map(_can_be_split, runs)):
        return None
    trials, mixed = trials_of(runs), mixtures(runs)
    model = fit(trials)

    def between(one: SpeedModel) -> dict[str, float]:
        pairs = [
            _parts_between(one, mixed, runs, before, len(first) + after)
            for before in range(len(first))
            for after in range(len(second))
        ]
        return {name: math.fsum(pair[name] for pair in pairs) / len(pairs) for name in pairs[0]}

    parts = between(model)
    again = [between(other) for other in _refitted(trials, model)]
    before = _log_mean(first)
    whole = _log_mean(second) - before
    apart = math.exp(before) * math.expm1(whole)
    middle = apart / whole if whole else math.exp(before)
    return ScoreDifference(
        log_ratio=whole,
        flops_per_second=apart,
        parts=tuple(
            Part(name, value, _error([other[name] for other in again]), value * middle) for name, value in parts.items()
        ),
        shared_cells=model.shared_cells,
        shared_part=model.shared_part,
        is_direct=model.is_direct,
    )


def _log_mean(runs: Sequence[RunWork]) -> float:
    return math.fsum(math.log(run.flops_per_second) for run in runs) / len(runs)


def shares_of_spread(runs: Sequence[RunWork]) -> SharesOfSpread | None:
    """None where there are fewer than two runs, one did nothing, or all scores are equal."""
    if len(runs) < 2 or not all(map(_can_be_split, runs)):
        return None
    scores = [math.log(run.flops_per_second) for run in runs]
    apart = [score - math.fsum(scores) / len(runs) for score in scores]
    variance = math.fsum(each * each for each in apart)
    if variance < 1e-24:
        return None
    trials, mixed = trials_of(runs), mixtures(runs)
    model = fit(trials)
    own = _parts_of_each(model, mixed, runs)
    again = [_parts_of_each(other, mixed, runs) for other in _refitted(trials, model)]

    def share(values: Sequence[float]) -> float:
        return math.fsum(value * each for value, each in zip(values, apart, strict=True)) / variance

    return SharesOfSpread(
        deviation=math.sqrt(variance / (len(runs) - 1)),
        parts=tuple(
            SpreadPart(
                name,
                share(values),
                _error([share(other[name]) for other in again]),
                math.sqrt(math.fsum(value * value for value in values) / (len(runs) - 1)),
            )
            for name, values in own.items()
        ),
        shared_cells=model.shared_cells,
        shared_part=model.shared_part,
        is_direct=model.is_direct,
    )


def _can_be_split(run: RunWork) -> bool:
    return run.flops_per_second > 0 and bool(run.trials)


def _parts_of_each(model: SpeedModel, mixed: Mixtures, runs: Sequence[RunWork]) -> dict[str, list[float]]:
    """Of each run against the mean of all: [name][run]. Those of a run add up to ln(score) less the mean of these."""
    sums: dict[str, list[float]] = {}
    for first, second in combinations(range(len(runs)), 2):
        for name, value in _parts_between(model, mixed, runs, first, second).items():
            of_name = sums.setdefault(name, [0.0] * len(runs))
            of_name[second] += value / len(runs)
            of_name[first] -= value / len(runs)
    return sums


def _parts_between(
    model: SpeedModel, mixed: Mixtures, runs: Sequence[RunWork], first: int, second: int
) -> dict[str, float]:
    """ln(second ÷ first) of the scores, part by part; the sum is that of the scores."""
    factors = _factors(runs[first]), _factors(runs[second])
    parts = {name: math.log(factors[1][name] / factors[0][name]) for name in factors[0]}
    rate = parts.pop("rate")
    # [networks of][batches of]
    rates = [[mixed[each, batches].log_rate(model) for batches in (first, second)] for each in (first, second)]
    parts["networks"] = (rates[1][0] - rates[0][0] + rates[1][1] - rates[0][1]) / 2
    parts["batches"] = (rates[0][1] - rates[0][0] + rates[1][1] - rates[1][0]) / 2
    parts["machine"] = float(model.slowness[first] - model.slowness[second])
    parts["unexplained"] = rate - parts["networks"] - parts["batches"] - parts["machine"]
    if not model.tells_batches:
        parts["batches or machine"] = parts.pop("batches") + parts.pop("machine")
    return {name: parts[name] for name in MEANINGS if name in parts}


def _factors(run: RunWork) -> dict[str, float]:
    """Whose product is the score."""
    return {
        "accelerators": float(run.accelerators),
        "busy": run.busy_seconds / (run.accelerators * run.window_seconds),
        "done again": run.flops_per_second * run.window_seconds / run.operations,
        "rate": run.operations / run.busy_seconds,
    }


def _refitted(trials: Trials, model: SpeedModel) -> list[SpeedModel]:
    """Models each without another group of cells, for the jackknife: those that were told in the same way as `model`."""
    size = len(trials.cells)
    dealt = np.arange(size) % min(GROUPS, size)
    keeping = [dealt != group for group in range(min(GROUPS, size))]
    models = [
        fit(trials, kept) for kept in keeping if len(set(trials.of_run[kept[trials.cell]].tolist())) == trials.runs
    ]
    way = (model.is_direct, model.tells_batches)
    return [other for other in models if (other.is_direct, other.tells_batches) == way]


def _error(again: Sequence[float]) -> float | None:
    """Half the 95 % interval, by the jackknife over groups."""
    if len(again) < 3:
        return None
    values = np.array(again)
    return quantile(len(again) - 1) * math.sqrt(
        (len(again) - 1) / len(again) * float(((values - values.mean()) ** 2).sum())
    )
