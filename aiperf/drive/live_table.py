"""A run's live table as lines for a terminal of any size: text only, and functions of values.

No line is wider than the terminal, and there are no more lines than it has. No figure is ever cut: what does not fit goes,
whole: columns by their ranks, workers from the least bad on, and those that are left out are counted. Only names are
shortened, and say so by '…'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from aiperf import units
from aiperf.drive.live_values import LiveView, WorkerView
from aiperf.plain import plain

UNKNOWN = "—"
GAP = "  "
PARTS = " · "
BAR = 16
LONGEST_BAR = 30
SHORTEST_NAME = 12
"""Cells of a name that is shortened; with less it goes."""


def line(view: LiveView) -> str:
    """The run in one plain line: `1 min 30 s left · score 41.2 TFLOPS · …`."""
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
        parts.append(f"follows {plain(view.follows.run)}")
    return PARTS.join(parts)


def table(view: LiveView, width: int, height: int, *, can_draw: bool = True) -> list[Text]:
    """The run in at most `height` lines of at most `width` cells each. `can_draw`: the terminal shows more than ASCII."""
    head = [_clock(view, width, can_draw)]
    roomy = height >= 16
    if roomy:
        head.append(Text())
    head += _figures(view, width, can_stand=height >= 12)
    if roomy:
        head.append(Text())
    counts = [Text(part, "dim") for part in flowed(_counts(view), width)]
    room = height - len(head) - len(counts)
    lines = [*head, *_workers(view, width, room, can_draw), *counts]
    return lines[: max(0, height)]


# --- the clock


def _clock(view: LiveView, width: int, can_draw: bool) -> Text:
    """Name, bar and what is left; in a narrow terminal without the bar, then with a shorter name, then without one."""
    left = _left(view)
    if cell_len(left) > width:
        return Text()
    name = plain(view.run) + ("" if view.follows is None else f", follows {plain(view.follows.run)}")
    bar_room = width - cell_len(name) - cell_len(left) - 2 * len(GAP)
    if bar_room >= BAR:
        share = view.at / view.duration_seconds if view.duration_seconds > 0 else 1.0
        bar = _bar(share, min(bar_room, LONGEST_BAR), can_draw)
        return Text.assemble((name, "bold"), GAP, bar, GAP, left)
    if (room := width - cell_len(left) - len(GAP)) >= SHORTEST_NAME:
        return Text.assemble((_shortened(name, room), "bold"), GAP, left)
    return Text(left)


def _bar(share: float, length: int, can_draw: bool) -> Text:
    full, empty = ("━", "─") if can_draw else ("#", "-")
    done = round(min(max(share, 0.0), 1.0) * length) if math.isfinite(share) else 0
    return Text.assemble((full * done, "green"), (empty * (length - done), "dim"))


# --- the figures


def _figures(view: LiveView, width: int, *, can_stand: bool) -> list[Text]:
    """Names above their values where that has room; else `name value · name value`, in as many lines as that takes."""
    figures = [
        (f"{_title(view)} (window)", _window(view), "bold"),
        ("now", _or_unknown(view.flops_per_second, units.flops_per_second), ""),
        ("regulated", _or_unknown(view.regulated_flops_per_second, units.flops_per_second), ""),
        ("best error", _or_unknown(view.error, units.error), ""),
        ("busy", _or_unknown(view.busy_share, units.share), ""),
        ("trials", _trials(view), ""),
        ("proposals waiting", units.count(view.proposals_waiting), ""),
    ]
    lengths = [max(cell_len(name), cell_len(value)) for name, value, _ in figures]
    gap = next((gap for gap in (3, 2) if sum(lengths) + gap * (len(lengths) - 1) <= width), None)
    if can_stand and gap is not None:
        named = zip(figures, lengths, strict=True)
        cells = [(_padded(name, length), Text(_padded(value, length), style)) for (name, value, style), length in named]
        names = Text((" " * gap).join(name for name, _ in cells), "dim")
        values = Text(" " * gap).join(value for _, value in cells)
        return [names, values]
    return [Text(part) for part in flowed([f"{name} {value}" for name, value, _ in figures], width)]


def flowed(parts: Sequence[str], width: int) -> list[str]:
    """Parts with ' · ' between them, in lines no wider than that; one that is wider by itself is left out, whole."""
    lines: list[str] = []
    for part in parts:
        if cell_len(part) > width:
            continue
        if lines and cell_len(lines[-1]) + len(PARTS) + cell_len(part) <= width:
            lines[-1] += PARTS + part
        else:
            lines.append(part)
    return lines


# --- the workers


@dataclass(frozen=True, slots=True)
class Column:
    """One of the table of workers."""

    name: str
    written: Callable[[WorkerView], str]
    rank: int
    """Columns with higher ranks go first where there is no room."""
    is_right: bool = False
    is_name: bool = False
    """May be shortened."""


DOING = Column("doing", lambda one: plain(one.doing), 1)
BAR_AFTER = Column("epoch", lambda one: "" if one.epoch is None else f"{one.epoch}/{one.epochs}", 3)
COLUMNS = (
    Column("worker", lambda one: str(one.worker), 0, is_right=True),
    Column("host", lambda one: plain(one.host), 5, is_name=True),
    DOING,
    Column("trial", lambda one: "" if one.trial is None else str(one.trial), 2, is_right=True),
    Column("round", lambda one: "" if one.round is None else str(one.round), 6, is_right=True),
    BAR_AFTER,
    Column("accuracy", lambda one: _or_unknown(one.accuracy, lambda value: units.share(value, 2)), 4, is_right=True),
)


def _workers(view: LiveView, width: int, room: int, can_draw: bool) -> list[Text]:
    """The heading and a line each for as many workers as there is room for; one line for those that are left out."""
    if not view.workers_present:
        return [Text(part, "yellow") for part in flowed([_starting(view)], width)][: max(0, room)]
    if room < 2:
        return []
    fit = room - 1
    if view.workers_present <= fit and len(view.workers) == view.workers_present:
        chosen, left_out = list(view.workers), 0
    else:
        chosen = sorted(view.workers, key=lambda one: one.badness)[: fit - 1]
        left_out = view.workers_present - len(chosen)
    lines = _rows(chosen, width, can_draw) if chosen else []
    if left_out and chosen:
        more = f"and {units.count(left_out)} more worker{'' if left_out == 1 else 's'}"
        fitting = (text for text in (f"{more}, those above are the worst", more) if cell_len(text) <= width)
        lines += [Text(text, "dim") for text in islice(fitting, 1)]
    return lines


def _rows(chosen: Sequence[WorkerView], width: int, can_draw: bool) -> list[Text]:
    texts = {column: [column.name, *map(column.written, chosen)] for column in COLUMNS}
    lengths = _fitted({column: max(map(cell_len, texts[column])) for column in COLUMNS}, width)
    has_bar = BAR_AFTER in lengths and _taken(lengths) + len(GAP) + BAR <= width
    rows = []
    for place in range(1 + len(chosen)):
        cells = []
        for column, length in lengths.items():
            text = _padded(_shortened(texts[column][place], length), length, column.is_right)
            is_warned = column is DOING and place > 0 and text.strip() != "training"
            cells.append(Text(text, "dim" if place == 0 else "yellow" if is_warned else ""))
            if column is BAR_AFTER and has_bar:
                share = chosen[place - 1].epoch_share if place > 0 else None
                cells.append(Text(" " * BAR) if share is None else _bar(share, BAR, can_draw))
        row = Text(GAP).join(cells)
        row.rstrip()
        rows.append(row)
    return rows


def _fitted(lengths: dict[Column, int], width: int) -> dict[Column, int]:
    """Columns that a terminal has room for: with names shortened, then without those of the highest ranks."""
    lengths = dict(lengths)
    for column in sorted(lengths, key=lambda column: -column.rank):
        for named in (each for each in lengths if each.is_name):
            over = _taken(lengths) - width
            lengths[named] = max(min(lengths[named], SHORTEST_NAME), lengths[named] - max(0, over))
        if _taken(lengths) <= width or len(lengths) == 1:
            break
        del lengths[column]
    return lengths if _taken(lengths) <= width else {}


def _taken(lengths: dict[Column, int]) -> int:
    return sum(lengths.values()) + len(GAP) * (len(lengths) - 1)


def _shortened(name: str, length: int) -> str:
    """A name in so many cells at most."""
    return name if cell_len(name) <= length else f"{set_cell_size(name, length - 1).rstrip()}…"


def _padded(text: str, length: int, is_right: bool = False) -> str:
    blank = " " * (length - cell_len(text))
    return blank + text if is_right else text + blank


# --- words


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
