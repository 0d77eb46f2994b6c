"""Accelerator-seconds by activity, of which each second of a present accelerator has one, and the accelerators present."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from aiperf.accounting.intervals import Real, Window, share_inside
from aiperf.accounting.score import capacity
from aiperf.accounting.work_log import IdleSpan, WorkerPresence, WorkLog
from aiperf.journal.events import CLOCKS, CLOCKS_OF_BUSY


@dataclass(frozen=True, slots=True)
class IntervalTime:
    """Accelerator-seconds of work intervals."""

    activities: Mapping[str, float]
    """'training': steps without their parts. The other `events.CLOCKS` without their ending `_seconds`."""
    length: float
    """Total length of the intervals. The rest of it is unexplained."""


@dataclass(frozen=True, slots=True)
class AcceleratorTime:
    """Accelerator-seconds of a time window by activity."""

    window_seconds: float
    accelerators: int
    """Maximum number of simultaneously present accelerators."""
    present: Fraction
    """Of present workers, by their accelerators at the start. Workers that replace each other sum to the window."""
    counted: IntervalTime
    """Intervals whose work counts."""
    repeated: IntervalTime
    """Intervals whose work was repeated after a loss or with a smaller batch."""
    start: float
    """From the command to train until a network with its weights, without compiling."""
    compile: float
    gap: float
    """Workers that had no trial (network to train)."""
    lost: float
    """From the last message of an attempt (one start of a trial's training) until its loss."""
    end_of_run: float
    """From the last message of an attempt that was running at the end of the run to that end."""
    validation_flops: float
    """Counted floating-point operations of validation. This field alone is no time."""


@dataclass(frozen=True, slots=True)
class Line:
    """Accelerator-seconds of one activity."""

    name: str
    seconds: float
    share: float
    """Share of all accelerator time, 0..1."""
    meaning: str


@dataclass(frozen=True, slots=True)
class TimeBreakdown:
    """All accelerator time of a window (maximum of simultaneously present accelerators × its length), divided by activity."""

    whole_seconds: float
    lines: tuple[Line, ...]


_MEANINGS = {
    "training": "forward, backward and update steps",
    "communication": "exchange of gradients that the backward pass did not hide",
    "validation": "validation steps",
    "input": "waiting for input",
    "checkpoint": "training stopped for a checkpoint",
    "start": "from the order to a network with its weights",
    "compile": "compiling, and measuring the speed of the compiled network",
    "gap": "a worker was present without a trial",
    "lost": "from the last message of an attempt to its loss, or to the end of the run",
    "absent": "before a worker joined, after it left, or without a driver",
    "unexplained": "time in no other line",
}


def accelerator_time(work_log: WorkLog, inside: Window) -> AcceleratorTime:
    """A worker with n accelerators (on processors: n ranks) adds n accelerator-seconds per second."""
    rows = work_log.intervals
    inside_share = share_inside(rows.start, rows.end, inside)
    weight = inside_share * rows.ranks.astype(np.float64)
    is_repeated = rows.wasted > 0
    presences = {presence.worker: presence for presence in work_log.presences}

    def accelerator_seconds(worker: int, start: float, end: float) -> float:
        parts = _parts(presences[worker], max(start, inside.start), min(end, inside.end))
        return math.fsum(ranks * (last - first) for ranks, first, last in parts)

    started = compiled = 0.0
    for preparation in work_log.preparations:
        length = preparation.at - preparation.started
        part = accelerator_seconds(preparation.worker, preparation.started, preparation.at)
        compiling = min(1.0, preparation.compile_seconds / length) if length > 0 else 0.0
        compiled += part * compiling
        started += part * (1.0 - compiling)
    idle: dict[Activity, float] = {"search": 0.0, "lost attempts": 0.0, "end of the run": 0.0}
    for span, activity in _idle(work_log, inside.end):
        idle[activity] += accelerator_seconds(span.worker, span.start, span.end)
    validation_flops = np.maximum(0.0, rows.flops - _training_flops(work_log))
    return AcceleratorTime(
        window_seconds=inside.seconds,
        accelerators=capacity(work_log),
        present=sum(
            (
                ranks * (Fraction(last) - Fraction(first))
                for one in work_log.presences
                for ranks, first, last in _parts(one, inside.start, inside.end)
            ),
            Fraction(0),
        ),
        counted=_interval_time(work_log, np.where(is_repeated, 0.0, weight)),
        repeated=_interval_time(work_log, np.where(is_repeated, weight, 0.0)),
        start=started,
        compile=compiled,
        gap=idle["search"],
        lost=idle["lost attempts"],
        end_of_run=idle["end of the run"],
        validation_flops=math.fsum((validation_flops * np.where(is_repeated, 0.0, inside_share)).tolist()),
    )


def time_breakdown(spent: AcceleratorTime) -> TimeBreakdown:
    """Shares are of (maximum of simultaneously present accelerators × window). The rest is negative if activities overlap."""
    whole = spent.accelerators * spent.window_seconds
    repeated = spent.repeated.activities
    amounts = {name: seconds + repeated[name] for name, seconds in spent.counted.activities.items()}
    amounts |= {"start": spent.start, "compile": spent.compile, "gap": spent.gap, "lost": spent.lost + spent.end_of_run}
    amounts["absent"] = float(spent.accelerators * Fraction(spent.window_seconds) - spent.present)
    amounts["unexplained"] = whole - math.fsum(amounts.values())
    return TimeBreakdown(
        whole,
        tuple(
            Line(name, amount, amount / whole if whole > 0 else 0.0, _MEANINGS[name])
            for name, amount in amounts.items()
        ),
    )


def seconds_present(presences: Iterable[WorkerPresence], inside: Window) -> dict[int, float]:
    """Return the seconds inside a window by worker, not multiplied by its accelerators. Absent workers are left out."""
    present: dict[int, float] = {}
    for presence in presences:
        seconds = math.fsum(last - first for _, first, last in _parts(presence, inside.start, inside.end))
        if seconds > 0:
            present[presence.worker] = present.get(presence.worker, 0.0) + seconds
    return present


def _interval_time(work_log: WorkLog, weight: Real) -> IntervalTime:
    rows = work_log.intervals

    def total(seconds: Real) -> float:
        return math.fsum((seconds * weight).tolist())

    seconds = {name: rows.clock(name) for name in (clock.removesuffix("_seconds") for clock in CLOCKS)}
    training = seconds.pop("busy")
    for part in CLOCKS_OF_BUSY:
        training = training - seconds[part.removesuffix("_seconds")]
    seconds = {"training": np.maximum(0.0, training), **seconds}
    return IntervalTime({name: total(column) for name, column in seconds.items()}, total(rows.end - rows.start))


def _training_flops(work_log: WorkLog) -> Real:
    rows = work_log.intervals
    of_image = np.zeros(1 + max(work_log.trials, default=0))
    for number, record in work_log.trials.items():
        of_image[number] = record.operations.training
    return np.asarray(rows.training_images.astype(np.float64) * of_image[rows.trial], dtype=np.float64)


def _parts(presence: WorkerPresence, start: float, end: float) -> Iterator[tuple[int, float, float]]:
    for since, left, ranks in presence.spans():
        first, last = max(start, since), end if left is None else min(end, left)
        if last > first:
            yield ranks, first, last


Activity = Literal["epochs", "start-up", "search", "lost attempts", "done again", "end of the run"]

PARTS: dict[Activity, tuple[str, ...]] = {
    "epochs": ("clocks", "kernels", "clocks and kernels", "input", "communication", "evaluation", "checkpoints"),
    "start-up": ("start-up", "compiling"),
    "search": ("search",),
    "lost attempts": ("lost attempts",),
    "done again": ("done again",),
    "end of the run": ("end of the run",),
}
"""Parts of the loss waterfall in each activity. Epochs also contain the work of the score."""


@dataclass(frozen=True, slots=True)
class WorkerSpan:
    start: float
    end: float
    activity: Activity


def spans(work_log: WorkLog, inside: Window) -> dict[int, tuple[WorkerSpan, ...]]:
    """Return the activities of each worker, also before `inside.start`. Of two spans that overlap the earlier has priority."""
    by_worker: dict[int, list[WorkerSpan]] = {}
    for worker, start, end, is_again in zip(*_stretches(work_log), strict=True):
        by_worker.setdefault(worker, []).append(WorkerSpan(start, end, "done again" if is_again else "epochs"))
    for preparation in work_log.preparations:
        by_worker.setdefault(preparation.worker, []).append(WorkerSpan(preparation.started, preparation.at, "start-up"))
    for idle, activity in _idle(work_log, inside.end):
        by_worker.setdefault(idle.worker, []).append(WorkerSpan(idle.start, idle.end, activity))
    return {worker: _disjoint(listed) for worker, listed in by_worker.items()}


def _idle(work_log: WorkLog, end: float) -> Iterator[tuple[IdleSpan, Activity]]:
    for span in work_log.idle_spans:
        yield span, "search" if span.kind == "gap" else "lost attempts"
    for presence in work_log.presences:
        if presence.left is None:
            for span in work_log.open_idle_spans(presence, end):
                yield span, "search" if span.kind == "gap" else "end of the run"


def _stretches(work_log: WorkLog) -> tuple[list[int], list[float], list[float], list[bool]]:
    """Merge consecutive intervals that are all counted or all repeated. Return columns: worker, start, end, is repeated."""
    rows = work_log.intervals
    if not len(rows):
        return [], [], [], []
    order = np.lexsort((rows.start, rows.worker))
    worker, start, end, again = rows.worker[order], rows.start[order], rows.end[order], (rows.wasted > 0)[order]
    is_first = np.append(True, (worker[1:] != worker[:-1]) | (again[1:] != again[:-1]) | (start[1:] > end[:-1]))
    firsts = np.flatnonzero(is_first)
    ends = np.maximum.reduceat(end, firsts)
    return worker[firsts].tolist(), start[firsts].tolist(), ends.tolist(), again[firsts].tolist()


def _disjoint(listed: list[WorkerSpan]) -> tuple[WorkerSpan, ...]:
    kept: list[WorkerSpan] = []
    until = 0.0
    for span in sorted(listed, key=lambda one: (one.start, one.end)):
        start = max(span.start, until)
        if span.end > start:
            kept.append(WorkerSpan(start, span.end, span.activity))
            until = span.end
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Availability:
    """Planned and present accelerators over a run. On machines without accelerators: training processes."""

    planned: int
    """Planned number, at least the maximum of simultaneously present ones."""
    is_declared: bool
    """True if the configuration declares the number. Otherwise it is the maximum of simultaneously present ones."""
    share: float | None
    """Present share of the planned accelerators' time in the valid window, 0..1. None without a window or an accelerator."""
    adjusted_flops_per_second: float | None
    """Score ÷ share: estimated score if all had been present and worked like the others. It is not a score."""
    steps: tuple[tuple[float, int], ...]
    """(seconds since the start of the run, accelerators from then on) in order of time, from 0 to the end of the run."""


def availability(work_log: WorkLog, inside: Window, end: float, flops_per_second: float | None) -> Availability:
    """`end`: end of the run, or the time of its last event."""
    assert work_log.started is not None
    started = work_log.started
    declared = planned_accelerators(started.config, None if started.shape is None else started.shape.ranks)
    planned = max(declared or 0, capacity(work_log))
    whole = planned * inside.seconds
    share = None
    if whole > 0:
        parts = (part for presence in work_log.presences for part in _parts(presence, inside.start, inside.end))
        share = math.fsum(ranks * (last - first) for ranks, first, last in parts) / whole
    adjusted = None if not share or flops_per_second is None else flops_per_second / share
    return Availability(planned, declared is not None, share, adjusted, _steps(work_log, end))


def planned_accelerators(config: Mapping[str, Any], ranks: int | None = None) -> int | None:
    """Return the configured number, on processors of ranks. None if it is not configured or not known."""
    match config.get("cluster"):
        case {"kind": "simulated", "workers": int(workers), "accelerators": int(each)}:
            return workers * each
        case {"kind": "kubernetes", "max_workers": int(nodes), "accelerators": int(each)} | {
            "kind": "ray",
            "ask_nodes": int(nodes),
            "ask_accelerators": int(each),
        } if nodes:
            of_node = each or ranks
            return None if of_node is None else nodes * of_node
        case _:
            return None


def _steps(work_log: WorkLog, end: float) -> tuple[tuple[float, int], ...]:
    changes: list[tuple[float, int]] = [(0.0, 0)]
    for presence in work_log.presences:
        for joined, left, ranks in presence.spans():
            changes.append((joined, ranks))
            if left is not None:
                changes.append((left, -ranks))
    steps: list[tuple[float, int]] = []
    count = 0
    for at, of_then in groupby(sorted(changes), key=itemgetter(0)):
        count += sum(change for _, change in of_then)
        if not steps or steps[-1][1] != count:
            steps.append((at, count))
    return (*steps, (max(end, steps[-1][0]), count))
