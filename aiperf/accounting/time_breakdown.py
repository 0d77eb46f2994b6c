"""Breakdown of the accelerators' time by activity. The remainder is a line of its own and should be small."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aiperf.accounting.intervals import Real
from aiperf.accounting.score import capacity
from aiperf.accounting.windows import Window, share_inside
from aiperf.accounting.work_log import WorkLog


@dataclass(frozen=True, slots=True)
class Line:
    """Accelerator seconds of one activity."""

    name: str
    seconds: float
    share: float
    """Share of all accelerator time."""
    meaning: str


@dataclass(frozen=True, slots=True)
class TimeBreakdown:
    """All accelerator time of a window: maximum of simultaneously present accelerators × its length."""

    whole_seconds: float
    lines: tuple[Line, ...]


_MEANINGS = {
    "training": "forward, backward and update steps",
    "communication": "exchange of gradients that the backward pass did not hide",
    "validation": "validation steps",
    "input": "waiting for images",
    "checkpoint": "training stood still for a checkpoint",
    "start": "from the order to a network that stands with its weights",
    "compile": "compiling, and measuring whether it pays",
    "gap": "a worker was there and had no trial",
    "lost": "between an attempt's last word and its loss, or the end of the run",
    "absent": "not yet there, gone, or the driver was down",
    "unexplained": "what no clock covers: the whole less all lines above",
}


def time_breakdown(work_log: WorkLog, inside: Window) -> TimeBreakdown:
    """Return the lines of a window. Each is measured by clocks or events. Only the last is a remainder."""
    columns = work_log.intervals
    weight = share_inside(columns.start, columns.end, inside) * columns.ranks.astype(np.float64)

    def seconds(amount: Real) -> float:
        return math.fsum((amount * weight).tolist())

    busy, communication, validation = map(seconds, (columns.busy, columns.communication, columns.validation))
    ranks = {presence.worker: presence.ranks for presence in work_log.presences}
    started = compiled = 0.0
    for preparation in work_log.preparations:
        length = preparation.at - preparation.started
        part = _overlap(preparation.started, preparation.at, inside) * ranks[preparation.worker]
        compiling = min(1.0, preparation.compile_seconds / length) if length > 0 else 0.0
        compiled += part * compiling
        started += part * (1.0 - compiling)
    open_idle_spans = [
        idle_span
        for presence in work_log.presences
        if presence.left is None
        for idle_span in work_log.open_idle_spans(presence, inside.end)
    ]
    idle = {"gap": 0.0, "lost": 0.0}
    for idle_span in [*work_log.idle_spans, *open_idle_spans]:
        idle[idle_span.kind] += idle_span.ranks * _overlap(idle_span.start, idle_span.end, inside)
    whole = capacity(work_log) * inside.seconds
    present = math.fsum(
        presence.ranks * _overlap(presence.joined, math.inf if presence.left is None else presence.left, inside)
        for presence in work_log.presences
    )
    amounts = {
        "training": busy - communication - validation,
        "communication": communication,
        "validation": validation,
        "input": seconds(columns.input),
        "checkpoint": seconds(columns.checkpoint),
        "start": started,
        "compile": compiled,
        **idle,
        "absent": whole - present,
    }
    amounts["unexplained"] = whole - math.fsum(amounts.values())
    return TimeBreakdown(
        whole,
        tuple(
            Line(name, amount, amount / whole if whole > 0 else 0.0, _MEANINGS[name])
            for name, amount in amounts.items()
        ),
    )


def _overlap(start: float, end: float, inside: Window) -> float:
    return max(0.0, min(end, inside.end) - max(start, inside.start))
