"""The 95 % interval of a score: how evenly the run went, by batch means or by its workers, with Student's t.

What is done in one trial hangs together, so a stretch of time tells something new only where it is long against a trial. The
law: docs/benchmark.md, "95 % interval"; what it covers is measured by `python -m benchmarks.interval_coverage`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from aiperf.accounting.presence import Presence
from aiperf.accounting.windows import Window, share_inside
from aiperf.accounting.work_log import WorkLog

METHOD = 2
"""Version of this statistic. 1 was a bootstrap over 40 blocks, which covered far less than 95 %."""
TRIALS_A_BATCH = 4
"""A batch is at least so many trials long."""
FEWEST_BATCHES = 4
MOST_BATCHES = 10
FEWEST_WORKERS = 16
"""From so many on, where trials are too long for batches of time, the workers are the sample."""

Real = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Work:
    """Intervals of work, one an index."""

    worker: Whole
    trial: Whole
    start: Real
    end: Real
    flops: Real
    """That count."""


@dataclass(frozen=True, slots=True)
class Evenness:
    """The interval, and what it is made of."""

    interval: tuple[float, float] | None
    basis: str
    """What the sample was; without an interval, why there is none."""
    freedom: int | None = None
    """Student's degrees of freedom of the interval."""


def evenness(work_log: WorkLog, inside: Window) -> Evenness:
    """Of a run's score."""
    rows = work_log.intervals
    work = Work(rows.worker, rows.trial, rows.start, rows.end, rows.flops)
    return evenness_of(work, work_log.presences, inside, work_log.down_seconds)


def evenness_of(work: Work, presences: Sequence[Presence], inside: Window, down_seconds: float) -> Evenness:
    """Of a score that is the sum of `work` inside the window ÷ its length.

    None where chance has too little of a sample: a driver that was down (one event), or few trials on few workers.
    """
    if inside.seconds <= 0:
        return Evenness(None, "none: no valid window")
    if not (work.flops * share_inside(work.start, work.end, inside)).any():
        return Evenness(None, "none: no work was counted in the window")
    if down_seconds > 0:
        return Evenness(None, "none: the driver was down, and one such time tells nothing of how often it happens")
    row = trials_in_a_row(work, inside)
    batches = min(MOST_BATCHES, math.floor(row / TRIALS_A_BATCH))
    if batches >= FEWEST_BATCHES:
        length = inside.seconds / batches
        interval, freedom = _around(_by_time(work, inside, batches), is_in_time=True)
        return Evenness(interval, f"{batches} batches of {length:.4g} s", freedom)
    there = [one for one in presences if one.joined < inside.end and (one.left is None or one.left > inside.start)]
    if len(there) >= FEWEST_WORKERS and all(_is_there_throughout(one, inside) for one in there):
        sample = _by_worker(work, inside, [one.worker for one in there])
        interval, freedom = _around(sample, is_in_time=False)
        return Evenness(interval, f"{len(there)} workers, each over the whole window", freedom)
    needed = FEWEST_BATCHES * TRIALS_A_BATCH
    return Evenness(
        None,
        f"none: {row:.1f} trials in a row, and {needed} are needed, or {FEWEST_WORKERS} workers that were there throughout",
    )


def trials_in_a_row(work: Work, inside: Window) -> float:
    """How many trials follow one another in the window: its length ÷ the length of the trial that a moment lies in, on average.

    Of trials of unlike length the long ones count for more: the mean is Σ length² ÷ Σ length, over all that reach into it.
    """
    reaches = (work.end > inside.start) & (work.start < inside.end)
    if not reaches.any():
        return 0.0
    # A trial that went on on another worker is another stretch: lengths are of one worker's time.
    order = np.lexsort((work.trial[reaches], work.worker[reaches]))
    worker, trial = work.worker[reaches][order], work.trial[reaches][order]
    firsts = np.flatnonzero(np.append(True, (worker[1:] != worker[:-1]) | (trial[1:] != trial[:-1])))
    begun = np.minimum.reduceat(work.start[reaches][order], firsts)
    done = np.maximum.reduceat(work.end[reaches][order], firsts)
    lengths = done - begun
    squares = math.fsum((lengths * lengths).tolist())
    return inside.seconds * math.fsum(lengths.tolist()) / squares if squares > 0 else 0.0


def _by_time(work: Work, inside: Window, batches: int) -> Real:
    """The score of each batch."""
    edges = [inside.start + inside.seconds * index / batches for index in range(batches + 1)]
    sums = [
        float(np.sum(work.flops * share_inside(work.start, work.end, Window(start, end))))
        for start, end in pairwise(edges)
    ]
    return np.array(sums) / (inside.seconds / batches)


def _by_worker(work: Work, inside: Window, workers: Sequence[int]) -> Real:
    """What the score would be if all workers had worked like this one, for each."""
    weighted = work.flops * share_inside(work.start, work.end, inside)
    sums = np.bincount(work.worker, weighted, minlength=max(workers) + 1)[list(workers)]
    return np.asarray(sums * len(workers) / inside.seconds, dtype=np.float64)


def _is_there_throughout(one: Presence, inside: Window) -> bool:
    return one.joined <= inside.start and (one.left is None or one.left >= inside.end)


def _around(sample: Real, *, is_in_time: bool) -> tuple[tuple[float, float], int]:
    """Mean ± t · standard error, at 95 %; never below zero. And t's degrees of freedom.

    Of a sample in time the deviations are those from the straight line through it, which costs a degree of freedom: networks
    grow from round to round, and that a run goes faster at its end than at its beginning is no chance.
    """
    from scipy.special import stdtrit  # a tenth of a second, for a line that few commands print

    size, mean = len(sample), float(np.mean(sample))
    deviations = sample - mean
    freedom = size - 1
    if is_in_time:
        moments = np.arange(size) - (size - 1) / 2
        deviations -= moments * float(np.sum(moments * sample)) / float(np.sum(moments * moments))
        freedom = size - 2
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(float(np.sum(deviations * deviations)) / freedom / size)
    return (max(0.0, mean - half), mean + half), freedom
