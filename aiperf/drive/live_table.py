"""Text of a running run: a table for a terminal of any size, and one plain line for other outputs.

Figures are never truncated. Columns that do not fit are removed by rank. The worst workers are shown, and the others are
counted. Only names are shortened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from aiperf import units
from aiperf.drive.live_view import LiveView, WorkerView
from aiperf.sanitize import sanitize

UNKNOWN = "—"
PARTS = " · "
GAP = "  "
SHORTEST_NAME = 12
"""Minimum width of a shortened name. In less space it is removed."""


def line(view: LiveView) -> str:
    """Return the run in one plain line: `1 min 30 s left · score 41.2 TFLOPS · …`."""
    parts = [
        _left(view),
        f"{_title(view)} {_window(view)} (now {_or_unknown(view.flops_per_second, units.flops_per_second)})",
        f"error {_or_unknown(view.error, units.error)}",
        f"{_trials(view)} trials finished",
        f"{units.count(view.workers_training)} of {units.count(view.workers_present)} workers training",
        f"{units.count(view.proposals_waiting)} proposals waiting",
        f"busy {_or_unknown(view.busy_share, units.share)}",
    ]
    if view.stage == "starting":
        parts.insert(2, _starting(view))
    if view.workers_lost:
        parts.append(f"{units.count(view.workers_lost)} lost")
    if view.follows is not None:
        parts.append(f"follows {sanitize(view.follows.run)}")
    return PARTS.join(parts)


def table(view: LiveView, width: int, height: int) -> list[Text]:
    """Return the run in at most `height` lines of at most `width` cells."""
    figures = [
        f"{_title(view)} (window) {_window(view)}",
        f"now {_or_unknown(view.flops_per_second, units.flops_per_second)}",
        f"regulated {_or_unknown(view.regulated_flops_per_second, units.flops_per_second)}",
        f"best error {_or_unknown(view.error, units.error)}",
        f"busy {_or_unknown(view.busy_share, units.share)}",
        f"trials {_trials(view)}",
        f"proposals waiting {units.count(view.proposals_waiting)}",
    ]
    blank = [Text()] if height >= 16 else []
    head = [_clock(view, width), *blank, *map(Text, flowed(figures, width)), *blank]
    counts = [Text(part, "dim") for part in flowed(_counts(view), width)]
    workers = _workers(view, width, height - len(head) - len(counts))
    return [*head, *workers, *counts][: max(0, height)]


def _clock(view: LiveView, width: int) -> Text:
    """Return the line with name and remaining time. In a narrow terminal the name is shortened or removed."""
    left = _left(view)
    room = width - cell_len(left) - len(GAP)
    if room < SHORTEST_NAME:
        return Text(left if cell_len(left) <= width else "")
    follows = "" if view.follows is None else f", follows {sanitize(view.follows.run)}"
    named = Text(sanitize(view.run) + follows, "bold")
    named.truncate(room, overflow="ellipsis")
    return Text.assemble(named, GAP, left)


def flowed(parts: Sequence[str], width: int) -> list[str]:
    """Return lines of parts joined by ' · '. A part wider than the terminal is left out."""
    lines: list[str] = []
    for part in parts:
        if cell_len(part) > width:
            continue
        if lines and cell_len(lines[-1]) + len(PARTS) + cell_len(part) <= width:
            lines[-1] += PARTS + part
        else:
            lines.append(part)
    return lines


@dataclass(frozen=True, slots=True)
class WorkerColumn:
    """One column of the table of workers."""

    name: str
    written: Callable[[WorkerView], str]
    rank: int
    """Columns with higher ranks are removed first in a narrow terminal."""
    is_right: bool = False


COLUMNS = (
    WorkerColumn("worker", lambda one: str(one.worker), 0, is_right=True),
    WorkerColumn("host", lambda one: sanitize(one.host), 5),
    WorkerColumn("doing", lambda one: sanitize(one.doing), 1),
    WorkerColumn("trial", lambda one: "" if one.trial is None else str(one.trial), 2, is_right=True),
    WorkerColumn("round", lambda one: "" if one.round is None else str(one.round), 6, is_right=True),
    WorkerColumn("epoch", lambda one: "" if one.epoch is None else f"{one.epoch}/{one.epochs}", 3),
    WorkerColumn(
        "accuracy", lambda one: _or_unknown(one.accuracy, lambda value: units.share(value, 2)), 4, is_right=True
    ),
)
"""Only the host may be shortened."""


def _workers(view: LiveView, width: int, room: int) -> list[Text]:
    """Return the heading and one line for each of the worst workers that fit, and a line that counts the others."""
    if not view.workers_present:
        return [Text(part, "yellow") for part in flowed([_starting(view)], width)][: max(0, room)]
    if room < 2:
        return []
    chosen, left_out = list(view.workers), 0
    if view.workers_present > room - 1 or len(view.workers) < view.workers_present:
        chosen = sorted(view.workers, key=lambda one: one.badness)[: room - 2]
        left_out = view.workers_present - len(chosen)
    lines = _rows(chosen, width) if chosen else []
    if left_out and lines:
        more = f"and {units.count(left_out)} more worker{'' if left_out == 1 else 's'}"
        fitting = [text for text in (f"{more}, those above are the worst", more) if cell_len(text) <= width]
        lines += [Text(text, "dim") for text in fitting[:1]]
    return lines


def _rows(chosen: Sequence[WorkerView], width: int) -> list[Text]:
    for most in sorted((column.rank for column in COLUMNS), reverse=True):
        columns = [column for column in COLUMNS if column.rank <= most]
        texts = {column.name: [column.name, *map(column.written, chosen)] for column in columns}
        widths = {name: max(map(cell_len, cells)) for name, cells in texts.items()}
        spare = width - sum(widths.values()) - len(GAP) * (len(columns) - 1)
        if spare < 0 and "host" in widths:
            spare += max(0, widths["host"] - SHORTEST_NAME)
            widths["host"] = min(widths["host"], SHORTEST_NAME) + max(0, spare)
        if spare >= 0:
            styles = ["dim", *("" if one.doing == "training" else "yellow" for one in chosen)]
            rows = zip(*(_aligned(column, texts[column.name], widths[column.name]) for column in columns), strict=True)
            return [Text(GAP.join(row).rstrip(), style) for row, style in zip(rows, styles, strict=True)]
    return []


def _aligned(column: WorkerColumn, cells: Sequence[str], width: int) -> list[str]:
    """Return cells of equal width."""
    if column.is_right:
        return [f"{cell:>{width}}" for cell in cells]
    return [
        set_cell_size(cell if cell_len(cell) <= width else f"{set_cell_size(cell, width - 1)}…", width)
        for cell in cells
    ]


def _counts(view: LiveView) -> list[str]:
    parts = [
        f"{units.count(view.workers_present)} worker{'' if view.workers_present == 1 else 's'}",
        f"{units.count(view.workers_training)} training",
        f"{units.count(view.workers_preparing)} preparing",
        f"{units.count(view.workers_waiting)} waiting",
    ]
    return parts + ([f"{units.count(view.workers_lost)} lost"] if view.workers_lost else [])


def _starting(view: LiveView) -> str:
    ranks = None if view.is_simulated else view.ranks_of_worker
    each = "" if ranks is None else f": {units.count(ranks)} rank{'' if ranks == 1 else 's'} each, importing torch"
    return f"workers are starting{each}"


def _trials(view: LiveView) -> str:
    finished = units.count(view.trials_finished)
    return finished if view.follows is None else f"{finished} of {units.count(view.follows.trials)} followed"


def _title(view: LiveView) -> str:
    return "simulated score" if view.is_simulated else "score"


def _window(view: LiveView) -> str:
    if view.window_flops_per_second is None:
        return f"after the warm-up, in {units.duration(max(0.0, view.warmup_seconds - view.at))}"
    return _or_unknown(view.window_flops_per_second, units.flops_per_second)


def _left(view: LiveView) -> str:
    return f"{units.duration(max(0.0, view.duration_seconds - view.at))} left"


def _or_unknown(value: float | None, written: Callable[[float], str]) -> str:
    return UNKNOWN if value is None or not math.isfinite(value) else written(value)
