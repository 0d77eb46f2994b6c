"""Display of a running run: a table in a terminal, or one line per minute if the output is not a terminal."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from aiperf import units
from aiperf.accounting.intervals import Window
from aiperf.accounting.score import Score, score, window_work
from aiperf.accounting.work_log import WorkLog
from aiperf.console import SanitizedConsole
from aiperf.journal.events import FollowedRun, Metric
from aiperf.report.figures import BUSY, ERROR, REGULATED, SCORE
from aiperf.rules.procedure import epoch_limit
from aiperf.rules.state import Run, Worker
from aiperf.sanitize import sanitize, sanitize_stream

REFRESH_SECONDS = 0.5
LINE_SECONDS = 60.0
LARGEST_SHARE = 0.02
"""Maximum share of the driver's time for the display."""
UNKNOWN = "—"
PARTS = " · "
STARTING = "workers are starting, and import torch"
OTHER_LINES = 13
"""Lines of the display around those of the workers, in a terminal of 80 columns."""
MOST_WORKERS = 100
"""Maximum number of workers in a view. The others are counted."""
SILENT_SECONDS = 60.0
"""Workers that train without a message for this time are listed before the other training workers."""


@dataclass(frozen=True, slots=True)
class WorkerView:
    """State of one worker (a process group that trains one network at a time) for its line in the live table."""

    worker: int
    host: str
    doing: str
    """'training', 'preparing', 'waiting'."""
    trial: int | None = None
    round: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    """The round's limit."""
    accuracy: float | None = None
    """The trial's best so far."""
    silent_seconds: float = 0.0
    """Time since the last message of its trial."""

    @property
    def badness(self) -> tuple[int, float, int]:
        silent = self.silent_seconds if self.silent_seconds >= SILENT_SECONDS else 0.0
        return (("waiting", "preparing").index(self.doing) if self.doing != "training" else 2, -silent, self.worker)


@dataclass(frozen=True, slots=True)
class LiveView:
    """State of a run at one time, for display: rates in FLOPS, best error, counts, and up to 100 workers."""

    run: str
    at: float
    """Seconds since the run began."""
    duration_seconds: float
    warmup_seconds: float
    flops_per_second: float
    """Mean over the last NOW_SECONDS."""
    score: Score
    """Score so far."""
    proposals_waiting: int
    workers_training: int
    workers_preparing: int
    workers_waiting: int
    workers_lost: int
    workers: tuple[WorkerView, ...]
    """Workers by number. With more than MOST_WORKERS, the worst MOST_WORKERS."""
    metric: Metric = "top1"
    is_simulated: bool = False
    follows: FollowedRun | None = None
    """Run to repeat. None if the run searches."""

    @property
    def workers_present(self) -> int:
        """Number of workers that are up: training, preparing or waiting."""
        return self.workers_training + self.workers_preparing + self.workers_waiting


NOW_SECONDS = 30.0
"""Length of the interval over which `flops_per_second` is averaged."""


def live_view(run: Run, work_log: WorkLog, now: float) -> LiveView:
    """Return the current state of a run for display, with rates in FLOPS and up to 100 workers."""
    # Work is known up to the last report alone: a window that ended now would hold time without its work.
    last_report = max((run.trials[trial].interval_end for trial in islice(run.running, MOST_WORKERS)), default=now)
    recent = Window(max(0.0, last_report - NOW_SECONDS), last_report)
    training = sum(run.trials[trial].training_images > 0 or run.trials[trial].epoch > 0 for trial in run.running)
    return LiveView(
        run=run.started.run,
        at=now,
        duration_seconds=run.duration,
        warmup_seconds=run.started.warmup_seconds,
        flops_per_second=window_work(work_log, recent) / recent.seconds if recent.seconds > 0 else 0.0,
        score=score(work_log, now),
        metric=run.started.metric,
        proposals_waiting=sum(len(worker.waiting) for worker in run.workers.values()),
        workers_training=training,
        workers_preparing=len(run.running) - training,
        workers_waiting=len(run.idle),
        workers_lost=work_log.lost_workers,
        workers=_worker_views(run, now),
        is_simulated=run.started.simulated,
        follows=run.started.follows,
    )


def _worker_views(run: Run, now: float) -> tuple[WorkerView, ...]:
    views = (_worker(run, worker, now) for worker in run.workers.values())
    if len(run.workers) <= MOST_WORKERS:
        return tuple(views)
    return tuple(nsmallest(MOST_WORKERS, views, key=lambda one: one.badness))


def _worker(run: Run, worker: Worker, now: float) -> WorkerView:
    if worker.trial is None:
        return WorkerView(worker.number, worker.host, "waiting")
    trial = run.trials[worker.trial]
    is_training = trial.training_images or trial.validation_images or trial.epoch
    return WorkerView(
        worker.number,
        worker.host,
        "training" if is_training else "preparing",
        trial=trial.number,
        round=trial.round,
        epoch=trial.current_epoch,
        epochs=epoch_limit(run.schedule, trial.round) if trial.epochs is None else trial.epochs,
        accuracy=trial.best_accuracy or None,
        silent_seconds=max(0.0, now - trial.last_message),
    )


def terminal() -> Console:
    """Return the output console (class of the library rich) for standard output."""
    can_move = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return SanitizedConsole(force_terminal=can_move)


class Live:
    """Display of a run in progress, until `close`."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: returns a time in seconds. Only differences are used."""
        self._console = console
        self._clock = clock
        self._next = clock()
        self._live: RichLive | None = None
        """From the first refresh on, in a terminal."""

    def show(self, make: Callable[[], LiveView], *, is_last: bool = False) -> bool:
        """Show the run if a refresh is due: every 0.5 s in a terminal, every 60 s otherwise."""
        before = self._clock()
        if before < self._next and not is_last:
            return False
        if self._console.is_terminal:
            self._update(make())
        else:
            self._console.print(line(make()), markup=False, highlight=False, soft_wrap=True)
        interval = REFRESH_SECONDS if self._console.is_terminal else LINE_SECONDS
        self._next = before + max(interval, (self._clock() - before) / LARGEST_SHARE)
        if is_last:
            self.close()
        return True

    def _update(self, view: LiveView) -> None:
        if self._live is None:
            self._live = RichLive(console=self._console, auto_refresh=False)
            self._live.start()
            sanitize_stream(sys.stdout)  # rich puts its own streams there, which read escape sequences
            sanitize_stream(sys.stderr)
        self._live.update(table(view, self._console.size.height), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def line(view: LiveView) -> str:
    """Return the state of a run as one line of text, with score and rates: `1 min 30 s left · score 41.2 TFLOPS · …`."""
    return PARTS.join([_left(view), *_figures(view), _counts(view)])


def table(view: LiveView, height: int) -> Group:
    """Return the table that shows a run in a terminal, for the library rich: heading, figures and one line per worker."""
    head, blank = Text.assemble((sanitize(view.run), "bold"), "  ", _left(view)), Text()
    figures = Columns(map(Text, _figures(view)), padding=(0, 3))  # a line of text would break groups of digits
    return Group(head, blank, figures, blank, *_workers(view, height), Text(_counts(view), "dim"))


def _figures(view: LiveView) -> list[str]:
    figures = [
        f"{'simulated ' if view.is_simulated else ''}score {_window(view)}",
        f"now {_or_unknown(view.flops_per_second, units.flops_per_second)}",
        *(f"{each.name} {_or_unknown(each.of(view), each.shown)}" for each in (REGULATED, ERROR, BUSY)),
        f"trials {_trials(view)}",
        f"proposals waiting {units.count(view.proposals_waiting)}",
    ]
    return figures if view.follows is None else [*figures, f"follows {sanitize(view.follows.run)}"]


def _workers(view: LiveView, height: int) -> list[RenderableType]:
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
    if not view.workers_present and not view.score.trials_finished:
        return STARTING
    parts = [
        units.counted(view.workers_present, "worker"),
        f"{units.count(view.workers_training)} training",
        f"{units.count(view.workers_preparing)} preparing",
        f"{units.count(view.workers_waiting)} waiting",
    ]
    return PARTS.join(parts + ([f"{units.count(view.workers_lost)} lost"] if view.workers_lost else []))


def _trials(view: LiveView) -> str:
    finished = units.count(view.score.trials_finished)
    return finished if view.follows is None else f"{finished} of {units.count(view.follows.trials)} followed"


def _window(view: LiveView) -> str:
    if SCORE.of(view) is None:
        return f"after the warm-up, in {units.duration(max(0.0, view.warmup_seconds - view.at))}"
    return _or_unknown(SCORE.of(view), SCORE.shown)


def _left(view: LiveView) -> str:
    return f"{units.duration(max(0.0, view.duration_seconds - view.at))} left"


def _or_unknown(value: float | None, written: Callable[[float], str]) -> str:
    return UNKNOWN if value is None or not math.isfinite(value) else written(value)
