"""How many accelerators were there over time, and what the score would be had all of those been there that the run was planned
with. The law: docs/benchmark.md, "Runs whose workers come and go".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from aiperf.accounting.score import capacity
from aiperf.accounting.windows import Window
from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import RunStarted


@dataclass(frozen=True, slots=True)
class Availability:
    """Accelerators over a run; on machines without, the processes that train."""

    planned: int
    """As many as the run was to have; never fewer than were there at once."""
    is_declared: bool
    """Whether the configuration says how many that is; else it is the most that were there at once."""
    share: float | None
    """Of the planned accelerators' time in the valid window, what was there. None without a window or an accelerator."""
    adjusted_flops_per_second: float | None
    """Score ÷ share: what the score would be had all been there, and worked as those did that were. It is no score."""
    steps: tuple[tuple[float, int], ...]
    """(when, accelerators from then on), in order of time, from 0 to the run's last moment."""


def availability(work_log: WorkLog, inside: Window, end: float, flops_per_second: float | None) -> Availability:
    """From a run's work log. `inside`: its valid window; `end`: its last moment; `flops_per_second`: its score."""
    assert work_log.started is not None
    declared = planned_accelerators(work_log.started)
    planned = max(declared or 0, capacity(work_log))
    whole = planned * inside.seconds
    share = None
    if whole > 0:
        present = math.fsum(
            there.ranks
            * max(
                0.0, min(inside.end, math.inf if there.left is None else there.left) - max(inside.start, there.joined)
            )
            for there in work_log.presences
        )
        share = present / whole
    adjusted = None if not share or flops_per_second is None else flops_per_second / share
    return Availability(planned, declared is not None, share, adjusted, _steps(work_log, end))


def planned_accelerators(started: RunStarted) -> int | None:
    """As many as a run's configuration asks for; None where it asks for whatever is there.

    Where workers train on processors alone, their ranks stand for accelerators, as in all figures of a run.
    """
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
    """A node without accelerators is one worker's."""
    if each:
        return nodes * each
    return None if ranks is None else nodes * ranks


def _steps(work_log: WorkLog, end: float) -> tuple[tuple[float, int], ...]:
    changes: list[tuple[float, int]] = [(0.0, 0)]
    for there in work_log.presences:
        changes.append((there.joined, there.ranks))
        if there.left is not None:
            changes.append((there.left, -there.ranks))
    steps: list[tuple[float, int]] = []
    count = 0
    for at, of_then in groupby(sorted(changes), key=_when):
        count += sum(change for _, change in of_then)
        if not steps or steps[-1][1] != count:
            steps.append((at, count))
    return (*steps, (max(end, steps[-1][0]), count))


def _when(change: tuple[float, Any]) -> float:
    return change[0]
