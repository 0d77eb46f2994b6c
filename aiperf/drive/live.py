"""A run while it goes on: a table in a terminal, a plain line every 30 s where the output is none.

The driver hands over a way to make a LiveView, and it is asked only when a refresh is due: at most twice a second, and so
seldom that showing takes no more than 2 % of the driver's time. Nothing here runs in a thread of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from aiperf import units
from aiperf.journal.events import FollowedRun
from aiperf.plain import plain

REFRESH_SECONDS = 0.5
LINE_SECONDS = 30.0
LARGEST_SHARE = 0.02
"""Of the driver's time, spent on showing."""
MOST_WORKERS = 20
"""Workers with a line of their own; of the others the counts are shown."""


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker's line."""

    worker: int
    host: str
    doing: str
    """'training', 'preparing', 'waiting'."""
    trial: int | None = None
    round: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    """The round's limit."""
    epoch_share: float | None = None
    """How much of the epoch's images are done, 0..1."""
    accuracy: float | None = None
    """The trial's best so far."""


@dataclass(frozen=True, slots=True)
class LiveView:
    """What is shown: made by the driver from its state, of bounded size."""

    run: str
    at: float
    """Seconds since the run began."""
    duration_seconds: float
    warmup_seconds: float
    flops_per_second: float
    """Now: over the last half minute or so."""
    window_flops_per_second: float | None
    """In the valid window so far; None before it has begun."""
    regulated_flops_per_second: float | None
    error: float | None
    """The best so far."""
    busy_share: float | None
    trials_finished: int
    proposals_waiting: int
    workers_training: int
    workers_preparing: int
    workers_waiting: int
    workers_lost: int
    workers: tuple[WorkerView, ...]
    """The first MOST_WORKERS at most; more are cut off."""
    is_simulated: bool = False
    follows: FollowedRun | None = None
    """The run whose trials it trains instead of searching."""

    @property
    def workers_present(self) -> int:
        """All that are there."""
        return self.workers_training + self.workers_preparing + self.workers_waiting


def line(view: LiveView) -> str:
    """The run in one plain line: `1 min 30 s left · score 41.2 TFLOPS · …`."""
    parts = [
        _left(view),
        f"{_title(view)} {_window(view)} (now {units.flops_per_second(view.flops_per_second)})",
        f"error {_or_dash(view.error, units.error)}",
        f"{_trials(view)} trials finished",
        f"{units.count(view.workers_training)} of {units.count(view.workers_present)} workers training",
        f"{units.count(view.proposals_waiting)} proposals waiting",
        f"busy {_or_dash(view.busy_share, units.share)}",
    ]
    if view.workers_lost:
        parts.append(f"{units.count(view.workers_lost)} lost")
    if view.follows is not None:
        parts.append(f"follows {plain(view.follows.run)}")
    return " · ".join(parts)


def table(view: LiveView) -> RenderableType:
    """The run as a table of about MOST_WORKERS + 8 lines, whatever its size."""
    head = Table.grid(padding=(0, 3))
    figures = [
        (f"{_title(view)} (window)", _window(view), "bold"),
        ("now", units.flops_per_second(view.flops_per_second), ""),
        ("regulated", _or_dash(view.regulated_flops_per_second, units.flops_per_second), ""),
        ("best error", _or_dash(view.error, units.error), ""),
        ("busy", _or_dash(view.busy_share, units.share), ""),
        ("trials", _trials(view), ""),
        ("proposals waiting", units.count(view.proposals_waiting), ""),
    ]
    for _ in figures:
        head.add_column(no_wrap=True)
    head.add_row(*(Text(name, style="dim") for name, _, _ in figures))
    head.add_row(*(Text(value, style=style) for _, value, style in figures))
    clock = Table.grid(padding=(0, 2))
    clock.add_row(
        Text(plain(view.run) + _followed(view), style="bold"),
        ProgressBar(total=max(view.duration_seconds, 1e-9), completed=min(view.at, view.duration_seconds), width=30),
        Text(_left(view)),
    )
    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("worker", "host", "doing", "trial", "round", "epoch"):
        rows.add_column(name, justify="right" if name in ("worker", "trial", "round") else "left", no_wrap=True)
    rows.add_column("", width=16)
    rows.add_column("accuracy", justify="right", no_wrap=True)
    for worker in view.workers[:MOST_WORKERS]:
        rows.add_row(*_row(worker))
    return Group(clock, Text(), head, Text(), rows, Text(_counts(view), style="dim"))


def _row(worker: WorkerView) -> tuple[RenderableType, ...]:
    epoch = "" if worker.epoch is None else f"{worker.epoch}/{worker.epochs}"
    share = worker.epoch_share
    return (
        str(worker.worker),
        Text(plain(worker.host)),
        Text(plain(worker.doing), style="" if worker.doing == "training" else "yellow"),
        "" if worker.trial is None else str(worker.trial),
        "" if worker.round is None else str(worker.round),
        epoch,
        Text() if share is None else ProgressBar(total=1.0, completed=min(max(share, 0.0), 1.0), width=16),
        _or_dash(worker.accuracy, lambda value: units.share(value, 2)),
    )


def _counts(view: LiveView) -> str:
    shown = min(len(view.workers), MOST_WORKERS)
    text = (
        f"workers: {units.count(view.workers_present)}, {units.count(view.workers_training)} training, "
        f"{units.count(view.workers_preparing)} preparing, {units.count(view.workers_waiting)} waiting"
    )
    if view.workers_lost:
        text += f"; {units.count(view.workers_lost)} lost"
    return text + (f"; the first {shown} are shown" if view.workers_present > shown else "")


def _trials(view: LiveView) -> str:
    finished = units.count(view.trials_finished)
    return finished if view.follows is None else f"{finished} of {units.count(view.follows.trials)} followed"


def _followed(view: LiveView) -> str:
    return "" if view.follows is None else f", follows {plain(view.follows.run)}"


def _title(view: LiveView) -> str:
    return "simulated score" if view.is_simulated else "score"


def _window(view: LiveView) -> str:
    if view.window_flops_per_second is None:
        return f"after the warm-up, in {units.duration(max(0.0, view.warmup_seconds - view.at))}"
    return units.flops_per_second(view.window_flops_per_second)


def _left(view: LiveView) -> str:
    return f"{units.duration(max(0.0, view.duration_seconds - view.at))} left"


def _or_dash(value: float | None, written: Callable[[float], str]) -> str:
    return "—" if value is None else written(value)


class Live:
    """Shows a run for as long as it is open. Use it in a `with` block; what is printed meanwhile goes above the table."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds from any beginning."""
        self._console = console
        self._clock = clock
        self._next = clock()
        self._live = RichLive(console=console, auto_refresh=False) if console.is_terminal else None

    def show(self, make: Callable[[], LiveView]) -> bool:
        """Shows the run if a refresh is due, and says whether it did; `make` is called only then."""
        before = self._clock()
        if before < self._next:
            return False
        self._draw(make())
        spent = self._clock() - before
        pause = REFRESH_SECONDS if self._live is not None else LINE_SECONDS
        self._next = before + max(pause, spent / LARGEST_SHARE)
        return True

    def _draw(self, view: LiveView) -> None:
        if self._live is None:
            self._console.print(line(view), markup=False, highlight=False, soft_wrap=True)
        else:
            self._live.update(table(view), refresh=True)

    def __enter__(self) -> Live:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
