"""Decomposition of a difference between runs into networks, batch sizes, speed of the machine and idle time.

The score is a product, so the parts are logarithms of ratios. Their sum is exact. The logarithmic mean converts them to FLOPS.
Networks and batch sizes act together, and Shapley's value separates them (for two factors: the mean of both orders). The rest
is reported as "unexplained". Derivation and sources: docs/statistics.md.

A mixture combines the networks of one run with the batch sizes of another: each image of the first run gets the batch size that
the second run had at the same fraction of its images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log

import numpy as np
import numpy.typing as npt

from aiperf.statistics.estimate import quantile
from aiperf.statistics.speed_model import Cell, SpeedModel, Trials, content_of_an_image, fit, trials_of
from aiperf.statistics.work_mix import RunWork, TrialWork

Real = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mixture:
    """Networks with batch sizes, one pair per row. n rows."""

    part: Real
    """Share of all images, shape (n,). The sum is 1."""
    operations: Real
    """Operations per image, shape (n,)."""
    content: Real
    """Content of a step per image, shape (n, 5)."""
    cells: tuple[Cell, ...]

    def log_rate(self, model: SpeedModel) -> float:
        """Return ln of the operations per busy accelerator-second, on a machine with mean slowness."""
        seconds = model.seconds(self.content, self.cells)
        return log(float(self.part @ self.operations) / float(self.part @ seconds))


Mixtures = dict[tuple[int, int], Mixture]
"""Mixtures by (run of the networks, run of the batch sizes)."""


def mixtures(runs: Sequence[RunWork]) -> Mixtures:
    """Return the mixtures of all pairs of runs."""
    return {
        (first, second): mixture(one.trials, other.trials)
        for first, one in enumerate(runs)
        for second, other in enumerate(runs)
    }


def mixture(networks: Sequence[TrialWork], batches: Sequence[TrialWork]) -> Mixture:
    """Return the mixture of two runs, each with at least one trial. A row ends where a trial of either run ends."""
    edges, first, second = _cut(networks, batches)
    rows = [(networks[one], batches[other].batch) for one, other in zip(first, second, strict=True)]
    return Mixture(
        part=np.diff(edges),
        operations=np.array([trial.operations / trial.images for trial, _ in rows]),
        content=np.array([content_of_an_image(trial, batch) for trial, batch in rows]),
        cells=tuple((trial.network, batch) for trial, batch in rows),
    )


def _cut(networks: Sequence[TrialWork], batches: Sequence[TrialWork]) -> tuple[Real, list[int], list[int]]:
    """Return the edges from 0 to 1, shape (n + 1,), and the trial index of each run in each interval between them."""
    one, other = _ends(networks), _ends(batches)
    edges = np.unique(np.concatenate([[0.0], one, other]))
    middles = (edges[1:] + edges[:-1]) / 2
    return edges, np.searchsorted(one, middles).tolist(), np.searchsorted(other, middles).tolist()


def _ends(trials: Sequence[TrialWork]) -> Real:
    """Return the cumulative share of images at the end of each trial. The last is 1."""
    ends = np.cumsum([trial.images for trial in trials])
    ends /= ends[-1]
    ends[-1] = 1.0
    return ends


MEANINGS = {
    "networks": "trained networks and their images: some use a machine better",
    "batches": "batch sizes",
    "machine": "time of the same network at the same batch size",
    "batches or machine": "cannot be separated: no batch sizes are common to all runs",
    "busy": "share of the accelerators' time spent training: gaps, starts, input, absence",
    "done again": "work that was lost and repeated",
    "accelerators": "number of accelerators",
    "unexplained": "networks or periods faster or slower than estimated",
}
"""Meaning of each part."""
SEARCH = ("networks", "batches")
MACHINE = ("machine", "busy", "done again", "accelerators")
GROUPS = 20
"""Groups of the jackknife."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a difference of two scores."""

    name: str
    log_ratio: float
    """Contribution to ln(second score ÷ first score). The sum over all parts is exact."""
    error: float | None
    """Half the 95 % interval of `log_ratio`, by a jackknife over networks. None for too few networks."""
    flops_per_second: float
    """Contribution to second score − first score. The sum over all parts is exact."""


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """Difference of the scores of two sides. The score of several runs is their geometric mean."""

    log_ratio: float
    flops_per_second: float
    parts: tuple[Part, ...]
    shared_cells: int
    """Pairs of network and batch size that several runs trained."""
    shared_part: float
    """Share of all busy time spent in shared cells."""
    is_direct: bool
    """True if the machines were compared on shared cells only. False: on the cost of steps of different networks."""


@dataclass(frozen=True, slots=True)
class SpreadPart:
    """Part of the variance of the logarithm of the score."""

    name: str
    share: float
    """Covariance with the score ÷ variance of the score (Shorrocks 1982). The sum is 1. Negative: it offsets other parts."""
    error: float | None
    """Half the 95 % interval of `share`, by the same jackknife."""
    deviation: float
    """Standard deviation of this part alone, as a share of the score."""


@dataclass(frozen=True, slots=True)
class SharesOfSpread:
    """Decomposition of the spread of several runs."""

    deviation: float
    """Standard deviation of the logarithm of the score, approximately its coefficient of variation."""
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
    """Decompose the difference of two sides. None if a side is empty or a run has no work in its window."""
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
    refitted = [between(other) for other in _refitted(trials, model)]
    before = _log_mean(first)
    log_ratio = _log_mean(second) - before
    apart = math.exp(before) * math.expm1(log_ratio)
    middle = apart / log_ratio if log_ratio else math.exp(before)
    return ScoreDifference(
        log_ratio=log_ratio,
        flops_per_second=apart,
        parts=tuple(
            Part(name, value, _error([other[name] for other in refitted]), value * middle)
            for name, value in parts.items()
        ),
        shared_cells=model.shared_cells,
        shared_part=model.shared_part,
        is_direct=model.is_direct,
    )


def _log_mean(runs: Sequence[RunWork]) -> float:
    return math.fsum(math.log(run.flops_per_second) for run in runs) / len(runs)


def shares_of_spread(runs: Sequence[RunWork]) -> SharesOfSpread | None:
    """Decompose the spread of equal runs. None for fewer than two runs, a run without work, or equal scores."""
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
    refitted = [_parts_of_each(other, mixed, runs) for other in _refitted(trials, model)]

    def share(values: Sequence[float]) -> float:
        return math.fsum(value * each for value, each in zip(values, apart, strict=True)) / variance

    return SharesOfSpread(
        deviation=math.sqrt(variance / (len(runs) - 1)),
        parts=tuple(
            SpreadPart(
                name,
                share(values),
                _error([share(other[name]) for other in refitted]),
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
    """Return the parts of each run relative to the mean of all, as [name][run].

    The sum over the parts of a run is ln(score) − mean of ln(score).
    """
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
    """Return the parts of ln(second score ÷ first score), whose sum is exact."""
    factors = _factors(runs[first]), _factors(runs[second])
    parts = {name: math.log(factors[1][name] / factors[0][name]) for name in factors[0]}
    rate = parts.pop("rate")
    # [run of the networks][run of the batch sizes]
    rates = [[mixed[each, batches].log_rate(model) for batches in (first, second)] for each in (first, second)]
    parts["networks"] = (rates[1][0] - rates[0][0] + rates[1][1] - rates[0][1]) / 2
    parts["batches"] = (rates[0][1] - rates[0][0] + rates[1][1] - rates[1][0]) / 2
    parts["machine"] = float(model.slowness[first] - model.slowness[second])
    parts["unexplained"] = rate - parts["networks"] - parts["batches"] - parts["machine"]
    if not model.separates_batches:
        parts["batches or machine"] = parts.pop("batches") + parts.pop("machine")
    return {name: parts[name] for name in MEANINGS if name in parts}


def _factors(run: RunWork) -> dict[str, float]:
    """Return factors with the score as their product."""
    return {
        "accelerators": float(run.accelerators),
        "busy": run.busy_seconds / (run.accelerators * run.window_seconds),
        "done again": run.flops_per_second * run.window_seconds / run.operations,
        "rate": run.operations / run.busy_seconds,
    }


def _refitted(trials: Trials, model: SpeedModel) -> list[SpeedModel]:
    """Return the models of the jackknife, each without one group of cells, if they use the same method as `model`."""
    size = len(trials.cells)
    group_of = np.arange(size) % min(GROUPS, size)
    keeping = [group_of != group for group in range(min(GROUPS, size))]
    models = [
        fit(trials, kept) for kept in keeping if len(set(trials.of_run[kept[trials.cell]].tolist())) == trials.runs
    ]
    way = (model.is_direct, model.separates_batches)
    return [other for other in models if (other.is_direct, other.separates_batches) == way]


def _error(estimates: Sequence[float]) -> float | None:
    """Return half the 95 % interval by the jackknife over groups. None for fewer than 3 models."""
    if len(estimates) < 3:
        return None
    values = np.array(estimates)
    return quantile(len(estimates) - 1) * math.sqrt(
        (len(estimates) - 1) / len(estimates) * float(((values - values.mean()) ** 2).sum())
    )
