"""Activities of each worker over time, as spans that can be compared with power samples.

They are coarser than the loss waterfall: samples at 1 Hz cannot separate steps from waiting within an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from aiperf.accounting.valid_window import Window
from aiperf.accounting.work_log import WorkLog

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
    """Span of one worker."""

    start: float
    """Seconds since the start of the run."""
    end: float
    activity: Activity


def spans(work_log: WorkLog, inside: Window) -> dict[int, tuple[WorkerSpan, ...]]:
    """Return the ordered, disjoint spans of each worker.

    In an overlap, caused by a late message, the earlier span has priority.
    """
    found: dict[int, list[WorkerSpan]] = {}
    for worker, start, end, is_again in zip(*_stretches(work_log), strict=True):
        found.setdefault(worker, []).append(WorkerSpan(start, end, "done again" if is_again else "epochs"))
    for preparation in work_log.preparations:
        found.setdefault(preparation.worker, []).append(WorkerSpan(preparation.started, preparation.at, "start-up"))
    for idle in work_log.idle_spans:
        activity: Activity = "search" if idle.kind == "gap" else "lost attempts"
        found.setdefault(idle.worker, []).append(WorkerSpan(idle.start, idle.end, activity))
    for presence in work_log.presences:
        if presence.left is None:
            for idle in work_log.open_idle_spans(presence, inside.end):
                activity = "search" if idle.kind == "gap" else "end of the run"
                found.setdefault(idle.worker, []).append(WorkerSpan(idle.start, idle.end, activity))
    return {worker: _disjoint(listed) for worker, listed in found.items()}


def _stretches(work_log: WorkLog) -> tuple[list[int], list[float], list[float], list[bool]]:
    """Merge consecutive intervals that all count or all do not: worker, start, end, done again."""
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
