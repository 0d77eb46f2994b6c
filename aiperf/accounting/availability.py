"""Accelerators present over a run, and the score adjusted to the planned number (docs/benchmark.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from aiperf.accounting.score import capacity
from aiperf.accounting.valid_window import Window
from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import RunStarted


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
    declared = planned_accelerators(work_log.started)
    planned = max(declared or 0, capacity(work_log))
    whole = planned * inside.seconds
    share = None
    if whole > 0:
        present = math.fsum(
            ranks * max(0.0, min(inside.end, math.inf if left is None else left) - max(inside.start, joined))
            for presence in work_log.presences
            for joined, left, ranks in presence.spans()
        )
        share = present / whole
    adjusted = None if not share or flops_per_second is None else flops_per_second / share
    return Availability(planned, declared is not None, share, adjusted, _steps(work_log, end))


def planned_accelerators(started: RunStarted) -> int | None:
    """Return the configured number, on processors of ranks. None if it is not configured or not known."""
    cluster = started.config.get("cluster")
    if not isinstance(cluster, Mapping):
        return None
    ranks = started.shape.ranks if started.shape is not None else None
    match cluster:
        case {"kind": "simulated", "workers": int(workers), "accelerators": int(each)}:
            return workers * each
        case {"kind": "kubernetes", "max_workers": int(nodes), "accelerators": int(each)}:
            return _of_nodes(nodes, each, ranks)
        case {"kind": "ray", "ask_nodes": int(nodes), "ask_accelerators": int(each)} if nodes:
            return _of_nodes(nodes, each, ranks)
        case _:
            return None


def _of_nodes(nodes: int, each: int, ranks: int | None) -> int | None:
    if each:
        return nodes * each
    return None if ranks is None else nodes * ranks


def _steps(work_log: WorkLog, end: float) -> tuple[tuple[float, int], ...]:
    changes: list[tuple[float, int]] = [(0.0, 0)]
    for presence in work_log.presences:
        for joined, left, ranks in presence.spans():
            changes.append((joined, ranks))
            if left is not None:
                changes.append((left, -ranks))
    steps: list[tuple[float, int]] = []
    count = 0
    for at, of_then in groupby(sorted(changes), key=_when):
        count += sum(change for _, change in of_then)
        if not steps or steps[-1][1] != count:
            steps.append((at, count))
    return (*steps, (max(end, steps[-1][0]), count))


def _when(change: tuple[float, Any]) -> float:
    return change[0]
