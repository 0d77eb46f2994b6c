"""Text of a running run: a table for a terminal, and one plain line for other outputs.

The worst workers are shown as far as the terminal has lines, and the others are counted. rich fits the table into the width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from aiperf import units
from aiperf.drive.live_view import LiveView, WorkerView
from aiperf.sanitize import sanitize

UNKNOWN = "—"
PARTS = " · "
STARTING = "workers are starting, and import torch"
OTHER_LINES = 13
"""Lines of the display around those of the workers, in a terminal of 80 columns."""


def line(view: LiveView) -> str:
    """Return the run in one plain line: `1 min 30 s left · score 41.2 TFLOPS · …`."""
    return PARTS.join([_left(view), *_figures(view), _counts(view)])


def table(view: LiveView, height: int) -> Group:
    """Return the display for a terminal of `height` lines."""
    head, blank = Text.assemble((sanitize(view.run), "bold"), "  ", _left(view)), Text()
    figures = Columns(map(Text, _figures(view)), padding=(0, 3))  # a line of text would break groups of digits
    return Group(head, blank, figures, blank, *_workers(view, height), Text(_counts(view), "dim"))


def _figures(view: LiveView) -> list[str]:
    figures = [
        f"{_title(view)} {_window(view)}",
        f"now {_or_unknown(view.flops_per_second, units.flops_per_second)}",
        f"regulated {_or_unknown(view.regulated_flops_per_second, units.flops_per_second)}",
        f"error {_or_unknown(view.error, units.error)}",
        f"busy {_or_unknown(view.busy_share, units.share)}",
        f"trials {_trials(view)}",
        f"proposals waiting {units.count(view.proposals_waiting)}",
    ]
    return figures if view.follows is None else [*figures, f"follows {sanitize(view.follows.run)}"]


def _workers(view: LiveView, height: int) -> list[RenderableType]:
    """Return the table of the worst workers that fit, and a line that counts the others."""
    if not view.workers_present:
        return []
    chosen: Sequence[WorkerView] = view.workers
    if view.workers_present > (room := max(1, height - OTHER_LINES)):
        chosen = sorted(view.workers, key=lambda one: one.badness)[:room]
    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("worker", "host", "doing", "trial", "round", "epoch", "accuracy"):
        is_text = name in ("host", "doing")
        rows.add_column(name, justify="left" if is_text else "right", no_wrap=True, min_width=None if is_text else 5)
    for one in chosen:
        cells = [
            str(one.worker),
            sanitize(one.host),
            sanitize(one.doing),
            "" if one.trial is None else str(one.trial),
            "" if one.round is None else str(one.round),
            "" if one.epoch is None else f"{one.epoch}/{one.epochs}",
            _or_unknown(one.accuracy, lambda value: units.share(value, 2)),
        ]
        rows.add_row(*map(Text, cells), style="" if one.doing == "training" else "yellow")
    left_out = view.workers_present - len(chosen)
    if not left_out:
        return [rows]
    return [rows, Text(f"and {units.count(left_out)} more, those above are the worst", "dim")]


def _counts(view: LiveView) -> str:
    if not view.workers_present and not view.trials_finished:
        return STARTING
    parts = [
        f"{units.count(view.workers_present)} worker{'' if view.workers_present == 1 else 's'}",
        f"{units.count(view.workers_training)} training",
        f"{units.count(view.workers_preparing)} preparing",
        f"{units.count(view.workers_waiting)} waiting",
    ]
    return PARTS.join(parts + ([f"{units.count(view.workers_lost)} lost"] if view.workers_lost else []))


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
