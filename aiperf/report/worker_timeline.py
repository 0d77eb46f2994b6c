"""Activities of the workers over time: bars for a few workers, a grid of busy shares for thousands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from aiperf.accounting.work_log import WorkerPresence, WorkLog
from aiperf.report.facts import Bar, Gantt

MOST_BARS_ROWS = 40
"""Maximum number of workers for a chart of bars without a grid."""
FEWER_BARS_ROWS = 20
"""Number of workers with bars in a chart with a grid."""
GRID_ROWS = 64
GRID_COLUMNS = 240
RESOLUTION = 2000
"""A pause shorter than the run's length divided by this is not drawn."""

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def gantt(work_log: WorkLog, end: float) -> Gantt:
    """Return the activities of the workers over time as bars, one row for each worker, in order of worker numbers."""
    presences = {presence.worker: presence for presence in work_log.presences}
    numbers = sorted(presences)
    with_grid = len(numbers) > MOST_BARS_ROWS
    shown = numbers[:FEWER_BARS_ROWS] if with_grid else numbers
    gap = end / RESOLUTION
    grid: tuple[tuple[float | None, ...], ...] = ()
    grid_rows: tuple[tuple[int, int], ...] = ()
    if with_grid and end > 0:
        size = math.ceil(len(numbers) / GRID_ROWS)
        groups = [numbers[i : i + size] for i in range(0, len(numbers), size)]
        grid_rows = tuple((group[0], group[-1]) for group in groups)
        grid = busy_grid(work_log, groups, end, GRID_COLUMNS)
    return Gantt(
        workers=tuple(shown),
        hosts=tuple(presences[number].host for number in shown),
        present=tuple(_presence(presences[number], end) for number in shown),
        bars=_bars(work_log, shown, gap),
        merged_gap_seconds=gap,
        all_workers=len(numbers),
        grid=grid,
        grid_rows=grid_rows,
        end=end,
    )


def _presence(presence: WorkerPresence, end: float) -> tuple[float, float]:
    left = end if presence.left is None else presence.left
    return presence.joined, max(presence.joined, min(left, end))


def _bars(work_log: WorkLog, shown: Sequence[int], gap: float) -> tuple[Bar, ...]:
    row_of = {number: row for row, number in enumerate(shown)}
    columns = work_log.intervals
    worker = columns.worker
    pieces: list[tuple[int, float, float, str, int]] = []
    drawn = np.flatnonzero(np.isin(worker, np.array(shown, dtype=np.int64)))
    parts = (worker, columns.trial, columns.start, columns.end, columns.clock("validation"))
    for number, trial, start, end, validation in zip(*(part[drawn].tolist() for part in parts), strict=True):
        row = row_of[number]
        # An epoch's validation follows its training, so it is the end of an interval.
        edge = max(start, end - validation)
        if edge > start:
            pieces.append((row, start, edge, "train", trial))
        if end > edge:
            pieces.append((row, edge, end, "validate", trial))
    for preparation in work_log.preparations:
        if preparation.worker in row_of:
            pieces.append(
                (row_of[preparation.worker], preparation.started, preparation.at, "prepare", preparation.trial)
            )
    pieces.sort(key=lambda piece: (piece[0], piece[4], piece[3], piece[1]))
    merged: list[tuple[int, float, float, str, int]] = []
    for row, start, end, kind, trial in pieces:
        if merged:
            last_row, last_start, last_end, last_kind, last_trial = merged[-1]
            if (row, kind, trial) == (last_row, last_kind, last_trial) and start - last_end <= gap:
                merged[-1] = (row, last_start, max(end, last_end), kind, trial)
                continue
        merged.append((row, start, end, kind, trial))
    # Invisibly short validations would cover the bridged training around them.
    visible = sorted(
        (piece for piece in merged if piece[2] - piece[1] > gap / 4), key=lambda piece: (piece[0], piece[1])
    )
    return tuple(_alternating(visible))


def _alternating(pieces: Sequence[tuple[int, float, float, str, int]]) -> list[Bar]:
    bars: list[Bar] = []
    row_before, trial_before, is_odd = -1, -1, False
    for row, start, end, kind, trial in pieces:
        if row != row_before:
            is_odd = False
        elif trial != trial_before:
            is_odd = not is_odd
        row_before, trial_before = row, trial
        bars.append(Bar(row, start, end, kind, trial, is_odd))
    return bars


def busy_grid(
    work_log: WorkLog, groups: Sequence[Sequence[int]], end: float, columns: int
) -> tuple[tuple[float | None, ...], ...]:
    """Busy share of the accelerator time, 0..1, by group of workers and equal part of the run. None without a worker."""
    row_of = np.full(max(max(group) for group in groups) + 1, -1, dtype=np.int64)
    for row, group in enumerate(groups):
        row_of[list(group)] = row
    intervals = work_log.intervals
    rows = row_of[intervals.worker]
    weight = intervals.clock("busy") * intervals.ranks.astype(np.float64)
    busy = _spread(rows, intervals.start, intervals.end, weight, len(groups), end, columns)
    present = [presence for presence in work_log.presences if presence.worker < len(row_of)]
    joined = np.array([presence.joined for presence in present], dtype=np.float64)
    left = np.array([end if presence.left is None else presence.left for presence in present], dtype=np.float64)
    ranks = np.array([presence.ranks for presence in present], dtype=np.float64)
    there_rows = row_of[np.array([presence.worker for presence in present], dtype=np.int64)]
    presence = _spread(there_rows, joined, left, (left - joined) * ranks, len(groups), end, columns)
    return tuple(
        tuple(min(1.0, b / t) if t > 0 else None for b, t in zip(busy_row, there_row, strict=True))
        for busy_row, there_row in zip(busy.tolist(), presence.tolist(), strict=True)
    )


def _spread(
    rows: Indices, start: Array, end: Array, amount: Array, row_count: int, whole: float, columns: int
) -> Array:
    width = whole / columns
    kept = (rows >= 0) & (end > start)
    rows, start, end, amount = rows[kept], start[kept], end[kept], amount[kept]
    # The running total at the left edges of cells is piecewise linear: each interval changes its slope twice.
    slopes = np.zeros((row_count, columns + 2))
    offsets = np.zeros((row_count, columns + 2))
    rate = amount / np.where(end > start, end - start, 1.0)
    for moment, sign in ((start, 1.0), (end, -1.0)):
        cell = np.clip(np.ceil(np.maximum(moment, 0.0) / width).astype(np.int64), 0, columns + 1)
        np.add.at(slopes, (rows, cell), sign * rate)
        np.add.at(offsets, (rows, cell), -sign * rate * moment)
    edges = np.arange(columns + 1) * width
    total = np.cumsum(slopes, axis=1)[:, : columns + 1] * edges + np.cumsum(offsets, axis=1)[:, : columns + 1]
    return np.asarray(np.clip(np.diff(total, axis=1), 0.0, None), dtype=np.float64)
