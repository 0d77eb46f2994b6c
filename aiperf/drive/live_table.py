"""Live table of a run, rendered by rich for a terminal of any size.

The table fits the width and the height of the terminal. Figures are never truncated. Columns are removed by rank,
workers from the best one, and the removed workers are counted. Only names are shortened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from aiperf import units
from aiperf.drive.live_view import LiveView, WorkerView
from aiperf.sanitize import sanitize

UNKNOWN = "—"
PARTS = " · "
BAR = 16
SHORTEST_NAME = 12
"""Minimum width of a shortened name. In less space its column is removed."""


def line(view: LiveView) -> str:
    """Return the run in one plain line: `1 min 30 s left · score 41.2 TFLOPS · …`."""
    parts = [
        _left(view),
        f"{_title(view)} {_window(view)} (now {_or_unknown(view.flops_per_second, units.flops_per_second)})",
        _quality(view),
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


def _quality(view: LiveView) -> str:
    if view.metric == "top1":
        return f"error {_or_unknown(view.error, units.error)}"
    return f"{units.METRICS[view.metric]} {_or_unknown(view.quality, units.quality)}"


def table(view: LiveView, width: int, height: int, *, can_draw: bool = True) -> list[Text]:
    """Return the run in at most `height` lines of at most `width` cells. `can_draw`: the terminal shows more than ASCII."""
    regulated = f"regulated {_or_unknown(view.regulated_flops_per_second, units.flops_per_second)}"
    figures = [
        f"{_title(view)} (window) {_window(view)}",
        f"now {_or_unknown(view.flops_per_second, units.flops_per_second)}",
        *([regulated] if view.metric == "top1" else []),
        f"best {_quality(view)}",
        f"busy {_or_unknown(view.busy_share, units.share)}",
        f"trials {_trials(view)}",
        f"proposals waiting {units.count(view.proposals_waiting)}",
    ]
    blank = [Text()] if height >= 16 else []
    head = [*_clock(view, width, can_draw), *blank, *map(Text, flowed(figures, width)), *blank]
    counts = [Text(part, "dim") for part in flowed(_counts(view), width)]
    workers = _workers(view, width, height - len(head) - len(counts), can_draw)
    return [*head, *workers, *counts][: max(0, height)]


def _clock(view: LiveView, width: int, can_draw: bool) -> list[Text]:
    """Return the line with name, bar and remaining time.

    In a narrow terminal the bar is removed first, then the name.
    """
    left = _left(view)
    room = width - cell_len(left) - 2
    named = Text(
        sanitize(view.run) + ("" if view.follows is None else f", follows {sanitize(view.follows.run)}"), "bold"
    )
    if named.cell_len + 2 + BAR <= room:
        share = view.at / view.duration_seconds if view.duration_seconds > 0 else 1.0
        (bar,) = _lines(_bar(share, can_draw), BAR)
        bar.pad_right(BAR - bar.cell_len)
        return [Text.assemble(named, "  ", bar, "  ", left)]
    if room >= SHORTEST_NAME:
        named.truncate(room, overflow="ellipsis")
        return [Text.assemble(named, "  ", left)]
    return [Text(left if cell_len(left) <= width else "")]


def _bar(share: float, can_draw: bool) -> RenderableType:
    done = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    if can_draw:
        return ProgressBar(total=1.0, completed=done, width=BAR, complete_style="green", finished_style="green")
    return Text("#" * round(done * BAR) + "-" * (BAR - round(done * BAR)))


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
    is_name: bool = False
    """May be shortened."""


COLUMNS = (
    WorkerColumn("worker", lambda one: str(one.worker), 0, is_right=True),
    WorkerColumn("host", lambda one: sanitize(one.host), 5, is_name=True),
    WorkerColumn("doing", lambda one: sanitize(one.doing), 1),
    WorkerColumn("trial", lambda one: "" if one.trial is None else str(one.trial), 2, is_right=True),
    WorkerColumn("round", lambda one: "" if one.round is None else str(one.round), 6, is_right=True),
    WorkerColumn("epoch", lambda one: "" if one.epoch is None else f"{one.epoch}/{one.epochs}", 3),
    WorkerColumn(
        "accuracy", lambda one: _or_unknown(one.accuracy, lambda value: units.share(value, 2)), 4, is_right=True
    ),
)


def _workers(view: LiveView, width: int, room: int, can_draw: bool) -> list[Text]:
    """Return the heading and one line for each of the worst workers that fit, and a line that counts the others."""
    if not view.workers_present:
        return [Text(part, "yellow") for part in flowed([_starting(view)], width)][: max(0, room)]
    if room < 2:
        return []
    chosen, left_out = list(view.workers), 0
    if view.workers_present > room - 1 or len(view.workers) < view.workers_present:
        chosen = sorted(view.workers, key=lambda one: one.badness)[: room - 2]
        left_out = view.workers_present - len(chosen)
    lines = _rows(chosen, width, can_draw) if chosen else []
    if left_out and lines:
        more = f"and {units.count(left_out)} more worker{'' if left_out == 1 else 's'}"
        fitting = [text for text in (f"{more}, those above are the worst", more) if cell_len(text) <= width]
        lines += [Text(text, "dim") for text in fitting[:1]]
    return lines


def _rows(chosen: Sequence[WorkerView], width: int, can_draw: bool) -> list[Text]:
    for most in range(max(column.rank for column in COLUMNS), -1, -1):
        columns = [column for column in COLUMNS if column.rank <= most]
        for has_bar in (True, False):
            rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
            for column in columns:
                longest = max(cell_len(text) for text in (column.name, *map(column.written, chosen)))
                shortest = min(longest, SHORTEST_NAME) if column.is_name else longest
                rows.add_column(
                    column.name,
                    justify="right" if column.is_right else "left",
                    no_wrap=True,
                    overflow="ellipsis",
                    min_width=shortest,
                )
                if column.name == "epoch" and has_bar:
                    rows.add_column(min_width=BAR)
            spare = width - _least_width(rows)
            if spare < 0:
                continue
            for shown in rows.columns:
                if shown.header == "host" and shown.min_width is not None:
                    shown.max_width = shown.min_width + spare  # else rich shortens the other columns too
            for one in chosen:
                cells: list[RenderableType] = []
                for column in columns:
                    warned = column.name == "doing" and one.doing != "training"
                    cells.append(Text(column.written(one), "yellow" if warned else ""))
                    if column.name == "epoch" and has_bar:
                        cells.append("" if one.epoch_share is None else _bar(one.epoch_share, can_draw))
                rows.add_row(*cells)
            return _lines(rows, width)
    return []


_CONSOLE = Console(file=StringIO(), force_terminal=True, color_system="standard", legacy_windows=False)


def _least_width(rows: Table) -> int:
    return Measurement.get(_CONSOLE, _CONSOLE.options.update(width=10_000), rows).minimum


def _lines(shown: RenderableType, width: int) -> list[Text]:
    lines = []
    for segments in _CONSOLE.render_lines(shown, _CONSOLE.options.update(width=width, height=None), pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
        text.rstrip()
        lines.append(text)
    return lines


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
