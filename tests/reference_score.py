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
from typing import Any

Line = dict[str, Any]


@dataclass
class Row:
    """An interval of work."""

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


def reference(lines: Iterable[str | bytes]) -> Reference:
    """The figures that the page says, of a journal's lines."""
    first: Line = {}
    last, end = 0.0, None
    costs: dict[int, tuple[int, int]] = {}
    ranks: dict[int, int] = {}
    present: dict[int, tuple[float, int]] = {}
    changes: list[tuple[float, int]] = []
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
            changes += [(joined, of_it), (line["at"], -of_it)]
        elif kind == "RunResumed":
            end = None
            for joined, of_it in present.values():
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
                Row(trial, epoch, work["start"], work["end"], float(counted), work["busy_seconds"], attempt.ranks)
            )
        if kind == "EpochFinished":
            attempts[trial].epoch = line["epoch"] + 1
            evaluations.append((line["at"], line["accuracy"]))
        last = line["at"]
    changes += present.values()
    return figures(first, last if end is None else end, rows, evaluations, changes)


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
    )


def share(row: Row, start: float, end: float) -> float:
    """The part of an interval that lies inside: one subtraction above, one below, one division, each rounded."""
    if row.end > row.start:
        return max(0.0, min(row.end, end) - max(row.start, start)) / (row.end - row.start)
    return 1.0 if start < row.end <= end else 0.0


def exactly(products: list[float]) -> float:
    """An exact sum, rounded once."""
    return float(sum(map(Fraction, products), Fraction(0)))
