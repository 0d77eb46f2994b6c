"""The score computed a second time, from the words of docs/benchmark.md ("The arithmetic") and a journal's JSON alone.

Nothing of AIPerf is imported, and nothing is shared with it but the page. Where the page says "exact", fractions are summed;
where it says "rounded", a floating-point number is made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

Line = dict[str, Any]


@dataclass
class Row:
    """An interval of work."""

    worker: int
    trial: int
    epoch: int
    start: float
    end: float
    counted: float
    """Operations: exact, then rounded to a double."""
    busy: float
    ranks: int
    is_wasted: bool = False


@dataclass
class Attempt:
    """What is known of a trial."""

    number: int = 0
    worker: int = 0
    ranks: int = 0
    epoch: int = 0
    begun: set[int] = field(default_factory=set)
    """Epochs that this attempt has said work of."""


@dataclass
class Reference:
    """The figures of a journal."""

    flops_per_second: float | None
    cumulative_flops_per_second: float
    regulated_flops_per_second: float | None
    error: float | None
    window_seconds: float
    wasted_flops: float
    busy_share: float | None
    interval: tuple[float, float] | None
    """Good to nine digits, as the page says."""


def reference(lines: Iterable[str | bytes]) -> Reference:
    """The figures that the page says, of a journal's lines."""
    first: Line = {}
    last, end = 0.0, None
    costs: dict[int, tuple[int, int]] = {}
    ranks: dict[int, int] = {}
    present: dict[int, tuple[float, int]] = {}
    changes: list[tuple[float, int]] = []
    stays: dict[int, tuple[float, float]] = {}
    down = 0.0
    attempts: dict[int, Attempt] = {}
    rows: list[Row] = []
    evaluations: list[tuple[float, float]] = []
    for text in lines:
        line: Line = json.loads(text)
        kind, trial = line["event"], int(line.get("trial", -1))
        if kind == "RunStarted":
            first = line
        elif kind == "WorkerJoined":
            ranks[line["worker"]] = line["ranks"]
            present[line["worker"]] = (line["at"], line["ranks"])
        elif kind == "WorkerLost":
            joined, of_it = present.pop(line["worker"])
            stays[line["worker"]] = (joined, line["at"])
            changes += [(joined, of_it), (line["at"], -of_it)]
        elif kind == "RunResumed":
            end = None
            down += line["down_seconds"]
            for worker, (joined, of_it) in present.items():
                stays[worker] = (joined, last)
                changes += [(joined, of_it), (last, -of_it)]
            present = {}
        elif kind == "TrialProposed":
            costs[line["number"]] = (line["forward_flops"] + line["backward_flops"], line["validation_flops"])
        elif kind == "TrialStarted":
            attempts[trial] = Attempt(line["attempt"], line["worker"], ranks[line["worker"]], line["epoch"])
        elif kind == "TrialPrepared":
            attempts[trial].ranks = line["ranks"]
        elif kind == "BatchReduced":
            waste(rows, trial, attempts[trial].epoch)
        elif kind == "RunEnded":
            end = line["at"]
        work = line if kind == "Progress" else line.get("interval") if kind == "EpochFinished" else None
        if work is not None:
            attempt, epoch = attempts[trial], line["epoch"]
            if attempt.number > 1 and epoch not in attempt.begun:
                waste(rows, trial, epoch)
            attempt.begun.add(epoch)
            training, validation = costs[trial]
            counted = work["training_images"] * training + work["validation_images"] * validation
            rows.append(
                Row(
                    work["worker"],
                    trial,
                    epoch,
                    work["start"],
                    work["end"],
                    float(counted),
                    work["busy_seconds"],
                    attempt.ranks,
                )
            )
        if kind == "EpochFinished":
            attempts[trial].epoch = line["epoch"] + 1
            evaluations.append((line["at"], line["accuracy"]))
        last = line["at"]
    changes += present.values()
    stays |= {worker: (joined, math.inf) for worker, (joined, _) in present.items()}
    found = figures(first, last if end is None else end, rows, evaluations, changes)
    found.interval = interval(rows, stays, down, first["warmup_seconds"], found.window_seconds)
    return found


def waste(rows: list[Row], trial: int, epoch: int) -> None:
    """An epoch is begun again: all that was done of it before."""
    for row in rows:
        if (row.trial, row.epoch) == (trial, epoch):
            row.is_wasted = True


def figures(
    first: Line,
    at: float,
    rows: list[Row],
    evaluations: list[tuple[float, float]],
    changes: list[tuple[float, int]],
) -> Reference:
    """The formulas."""
    end, start = min(at, first["duration_seconds"]), first["warmup_seconds"]
    seconds = max(0.0, end - start)
    there = most = 0
    for _, change in sorted(changes):
        there += change
        most = max(most, there)
    good = [row for row in rows if not row.is_wasted]
    inside = exactly([row.counted * share(row, start, end) for row in good])
    score = inside / seconds if seconds > 0 else None
    counting = [accuracy for when, accuracy in evaluations if when <= end]
    error = max(1.0 - max(counting), 1.0 / (2 * first["dataset"]["validation_images"])) if counting else None
    whole = most * seconds
    busy = exactly([row.busy * row.ranks * share(row, start, end) for row in rows])
    return Reference(
        flops_per_second=score,
        cumulative_flops_per_second=(
            exactly([row.counted * share(row, 0.0, end) for row in good]) / end if end > 0 else 0.0
        ),
        regulated_flops_per_second=None if score is None or error is None else -math.log(error) * score,
        error=error,
        window_seconds=seconds,
        wasted_flops=exactly([row.counted for row in rows if row.is_wasted]),
        busy_share=busy / whole if whole > 0 else None,
        interval=None,
    )


def interval(
    rows: list[Row], stays: dict[int, tuple[float, float]], down: float, start: float, seconds: float
) -> tuple[float, float] | None:
    """The 95 % interval by its method 2."""
    end = start + seconds

    def done(some: list[Row], since: float, until: float) -> float:
        return math.fsum(0.0 if row.is_wasted else row.counted * share(row, since, until) for row in some)

    if seconds <= 0 or down > 0 or done(rows, start, end) == 0:
        return None
    stretches: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        if row.end > start and row.start < end:
            stretches.setdefault((row.worker, row.trial), []).append(row)
    lengths = [max(row.end for row in each) - min(row.start for row in each) for each in stretches.values()]
    squares = exactly([length * length for length in lengths])
    in_a_row = seconds * exactly(lengths) / squares if squares else 0.0
    batches = min(10, math.floor(in_a_row / TRIALS_A_BATCH))
    there = {worker: stay for worker, stay in stays.items() if stay[0] < end and stay[1] > start}
    if batches >= 4:
        edges = [start + seconds * index / batches for index in range(batches + 1)]
        sample = [done(rows, a, b) * batches / seconds for a, b in pairwise(edges)]
    elif len(there) >= 16 and all(joined <= start and left >= end for joined, left in there.values()):
        sample = [done([r for r in rows if r.worker == one], start, end) * len(there) / seconds for one in there]
    else:
        return None
    size, mean, slope, freedom = len(sample), math.fsum(sample) / len(sample), 0.0, len(sample) - 1
    moments = [index - (size - 1) / 2 for index in range(size)]
    if batches >= 4:
        freedom = size - 2
        slope = math.fsum(m * one for m, one in zip(moments, sample, strict=True)) / math.fsum(m * m for m in moments)
    squared = math.fsum((one - mean - slope * m) ** 2 for m, one in zip(moments, sample, strict=True))
    half = students_t(freedom) * math.sqrt(squared / freedom / size)
    return max(0.0, mean - half), mean + half


def students_t(freedom: int) -> float:
    """Below which 97.5 % of Student's t lies, by halving; the distribution is Abramowitz and Stegun's 26.7.3 and 26.7.4."""
    low, high = 0.0, 13.0
    while high - low > 1e-13:
        t = (low + high) / 2
        angle = math.atan(t / math.sqrt(freedom))
        term, total = (math.cos(angle), 0.0) if freedom % 2 else (1.0, 0.0)
        for index in range(1 if freedom % 2 else 0, freedom - 1, 2):
            total += term
            term *= math.cos(angle) ** 2 * (index + 1) / (index + 2)
        inside = (angle + math.sin(angle) * total) * 2 / math.pi if freedom % 2 else math.sin(angle) * total
        low, high = (t, high) if inside < 0.95 else (low, t)
    return low


TRIALS_A_BATCH = 4


def share(row: Row, start: float, end: float) -> float:
    """The part of an interval that lies inside: one subtraction above, one below, one division, each rounded."""
    if row.end > row.start:
        return max(0.0, min(row.end, end) - max(row.start, start)) / (row.end - row.start)
    return 1.0 if start < row.end <= end else 0.0


def exactly(products: list[float]) -> float:
    """An exact sum, rounded once."""
    return float(sum(map(Fraction, products), Fraction(0)))
