"""Snapshot of a run in progress for the live table, the metrics and `aiperf status`. Its size is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice

from aiperf.accounting.score import Score, score, window_work
from aiperf.accounting.valid_window import Window
from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import FollowedRun, Metric
from aiperf.rules.procedure import epoch_limit
from aiperf.rules.state import Run, Worker

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
        """Sort key of a worker."""
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
        workers=_workers(run, now),
        is_simulated=run.started.simulated,
        follows=run.started.follows,
    )


def _workers(run: Run, now: float) -> tuple[WorkerView, ...]:
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
