"""Steps and time to a quality over the global batch: regions of Shallue et al. 2018, curve of McCandlish et al. 2018."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import fmean
from typing import Literal

from aiperf.scaling.point import Point
from aiperf.statistics.difference import change
from aiperf.statistics.estimate import deviation, of_repeats, quantile

Region = Literal["perfect", "diminishing", "none", "not determined"]
FEWEST_BATCHES = 3
"""Batches with a step count from which the curve, which has two parameters, is fitted."""
CANDIDATES = 2000
"""Values of B_c, evenly spaced on a logarithmic scale, from a thousandth of the smallest batch to 1000 times the largest."""
DOUBLINGS = 3


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """Results of the runs with one global batch (images per step of all accelerators)."""

    global_batch: int
    images_per_second: float
    steps: tuple[int, ...]
    """Steps to the target of each run that reached it."""
    not_reached: int
    """Runs that did not reach the target."""
    region: Region | None
    """Gain from the next smaller batch that reached the target: 'perfect', 'diminishing', … None without such a batch."""
    seconds: float | None
    """Mean seconds to the target: steps · batch ÷ images per second. None if a run did not reach it."""
    next_run_seconds: tuple[float, float] | None
    """95 % interval of the seconds of another run, by Student's t of their logarithms. None for fewer than two runs."""


@dataclass(frozen=True, slots=True)
class BatchCurve:
    """Steps to the target by global batch B: least_steps · (1 + critical_batch/B), fitted to the logarithms of the steps."""

    least_steps: float
    """Steps that remain at a very large batch."""
    critical_batch: float
    """Batch in images at which the steps are twice the least steps."""
    interval: tuple[float | None, float | None]
    """95 % interval of critical_batch by the F test. None: no end on this side within the examined values."""

    def steps(self, global_batch: float) -> float:
        """Return the fitted number of steps to the target quality at a global batch in images."""
        return self.least_steps * (1 + self.critical_batch / global_batch)


@dataclass(frozen=True, slots=True)
class BatchStudy:
    """Results of runs that train with several global batches to one target quality."""

    target: float
    learning_rates: str
    """Text on the relation of the runs' learning rates to their batches."""
    points: tuple[BatchPoint, ...]
    """Results by global batch, the smallest batch first."""
    curve: BatchCurve | None
    """Fitted curve of steps by batch. None for fewer than 3 batches that reached the target."""
    best: int | None
    """Global batch with the least mean seconds. None if no batch reached the target in every run."""
    equal_to_best: tuple[int, ...]
    """Other batches whose seconds do not differ significantly from the best. All of them for single runs."""
    doublings: tuple[tuple[int, float], ...]
    """(accelerators, factor): time to the target ÷ that with more accelerators at a constant batch of each, by the curve."""


def batch_study(points: Sequence[Point], evaluation: Fraction) -> BatchStudy | None:
    """Return steps and seconds to the target quality by global batch (images per step of all accelerators), and the best.

    None if the runs have several targets or none, several numbers of accelerators, or one batch.
    """
    targets, sizes = {each.target for each in points}, {each.accelerators for each in points}
    batches = sorted({each.global_batch for each in points})
    target = targets.pop()
    if target is None or targets or len(sizes) > 1 or len(batches) < 2:
        return None
    groups = [[each for each in points if each.global_batch == batch] for batch in batches]
    steps = [[each.steps_to_target for each in group if each.steps_to_target is not None] for group in groups]
    reached = [(batch, own) for batch, own in zip(batches, steps, strict=True) if own]
    regions = {
        larger: _region(small, large, larger / smaller) for (smaller, small), (larger, large) in pairwise(reached)
    }
    made = tuple(
        _point(batch, group, regions.get(batch), evaluation) for batch, group in zip(batches, groups, strict=True)
    )
    curve = (
        fit_curve([(batch, each) for batch, own in reached for each in own]) if len(reached) >= FEWEST_BATCHES else None
    )
    timed = [each for each in made if each.seconds is not None]
    best = min(timed, key=lambda each: each.seconds or math.inf, default=None)
    seconds = {each.global_batch: _seconds(group, evaluation) for each, group in zip(made, groups, strict=True)}
    return BatchStudy(
        target=target,
        learning_rates=_learning_rates(groups),
        points=made,
        curve=curve,
        best=None if best is None else best.global_batch,
        equal_to_best=()
        if best is None
        else tuple(
            each.global_batch
            for each in timed
            if each is not best and not _differ(seconds[best.global_batch], seconds[each.global_batch])
        ),
        doublings=()
        if best is None or curve is None
        else tuple(
            (2**n, curve.steps(best.global_batch) / curve.steps(2**n * best.global_batch))
            for n in range(1, DOUBLINGS + 1)
        ),
    )


def _point(batch: int, group: Sequence[Point], region: Region | None, evaluation: Fraction) -> BatchPoint:
    steps = tuple(each.steps_to_target for each in group if each.steps_to_target is not None)
    seconds = _seconds(group, evaluation)
    is_reached = len(steps) == len(group)
    interval = None
    if is_reached and len(seconds) > 1:
        # of another run: its own deviation and that of the mean
        logarithms = [math.log(each) for each in seconds]
        half = quantile(len(seconds) - 1) * deviation(logarithms) * math.sqrt(1 + 1 / len(seconds))
        interval = (math.exp(fmean(logarithms) - half), math.exp(fmean(logarithms) + half))
    return BatchPoint(
        global_batch=batch,
        images_per_second=fmean(each.images_per_second(evaluation) for each in group),
        steps=steps,
        not_reached=len(group) - len(steps),
        region=region,
        seconds=fmean(seconds) if is_reached else None,
        next_run_seconds=interval,
    )


def _seconds(group: Sequence[Point], evaluation: Fraction) -> list[float]:
    return [
        each.steps_to_target * each.global_batch / each.images_per_second(evaluation)
        for each in group
        if each.steps_to_target is not None
    ]


def _region(small: Sequence[int], large: Sequence[int], factor: float) -> Region:
    """Return the region of a step from a smaller to a `factor` times larger batch, by the interval of S_large ÷ S_small."""
    measured = change(fmean(small), fmean(large), of_repeats(small), of_repeats(large))
    if measured is None or measured.interval is None:
        return "not determined"
    low, high = (1 + each for each in measured.interval)
    is_perfect, is_none = low <= 1 / factor, high >= 1
    if is_perfect and is_none:
        return "not determined"
    return "perfect" if is_perfect else "none" if is_none else "diminishing"


def _differ(best: Sequence[float], other: Sequence[float]) -> bool:
    measured = change(fmean(best), fmean(other), of_repeats(best), of_repeats(other))
    return measured is not None and bool(measured.is_real)


def fit_curve(steps: Sequence[tuple[int, int]]) -> BatchCurve:
    """Fit the curve by least squares of ln S. For a given B_c, the mean residual is ln S_min."""

    def fit(critical: float) -> tuple[float, float]:
        rest = [math.log(each) - math.log1p(critical / batch) for batch, each in steps]
        middle = fmean(rest)
        return math.fsum((each - middle) ** 2 for each in rest), middle

    low, high = min(batch for batch, _ in steps) / 1000, max(batch for batch, _ in steps) * 1000
    ratio = (high / low) ** (1 / (CANDIDATES - 1))
    candidates = [low * ratio**n for n in range(CANDIDATES)]
    squares = [fit(each)[0] for each in candidates]
    at = squares.index(min(squares))
    critical = candidates[at]
    freedom = len(steps) - 2
    most = squares[at] * (1 + quantile(freedom) ** 2 / freedom)
    inside = [index for index, each in enumerate(squares) if each <= most]
    return BatchCurve(
        least_steps=math.exp(fit(critical)[1]),
        critical_batch=critical,
        interval=(
            None if inside[0] == 0 else candidates[inside[0]],
            None if inside[-1] == CANDIDATES - 1 else candidates[inside[-1]],
        ),
    )


def _learning_rates(groups: Sequence[Sequence[Point]]) -> str:
    first = groups[0][0].options
    rates = {
        each.global_batch: each.options.get("trainer.learning_rate", "unknown") for group in groups for each in group
    }
    decay = f"{first.get('trainer.rate', 'unknown')} decay"
    if all(each.options.get("trainer.scale_learning_rate") == "yes" for group in groups for each in group):
        return (
            f"in proportion to the global batch, {rates[groups[0][0].global_batch]} at "
            f"{first.get('trainer.reference_batch', 'unknown')} {groups[0][0].samples}, with warm-up and {decay}"
        )
    if len(set(rates.values())) == 1:
        return f"{next(iter(rates.values()))} at every batch, {decay}"
    return f"{', '.join(f'{rate} at {batch}' for batch, rate in rates.items())}, {decay}"
