"""Computation of the live table's values from the driver's state."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice

from aiperf.accounting.score import score, window_work
from aiperf.accounting.valid_window import Window
from aiperf.drive.driver import Driver
from aiperf.drive.live_values import MOST_WORKERS, LiveView, WorkerView
from aiperf.rules.procedure import epoch_limit
from aiperf.rules.state import Run
from aiperf.rules.worker import Worker

NOW_SECONDS = 30.0
"""Length of the interval over which `flops_per_second` is averaged."""


def live_view(driver: Driver) -> LiveView:
    """Return the current values of the run."""
    run, now = driver.run, driver.clock.now()
    so_far = score(driver.work_log, now)
    # Work is known up to the last report alone: a window that ended now would hold time without its work.
    last_report = max((run.trials[trial].interval_end for trial in islice(run.running, MOST_WORKERS)), default=now)
    recent = Window(max(0.0, last_report - NOW_SECONDS), last_report)
    training = sum(run.trials[trial].training_images > 0 or run.trials[trial].epoch > 0 for trial in run.running)
    return LiveView(
        run=run.started.run,
        at=now,
        duration_seconds=run.duration,
        warmup_seconds=run.started.warmup_seconds,
        flops_per_second=window_work(driver.work_log, recent) / recent.seconds if recent.seconds > 0 else 0.0,
        window_flops_per_second=so_far.flops_per_second,
        regulated_flops_per_second=so_far.regulated_flops_per_second,
        error=so_far.error,
        busy_share=so_far.busy_share,
        trials_finished=run.finished,
        proposals_waiting=sum(len(worker.waiting) for worker in run.workers.values()),
        workers_training=training,
        workers_preparing=len(run.running) - training,
        workers_waiting=len(run.idle),
        workers_lost=driver.work_log.lost_workers,
        workers=_workers(run, now),
        is_simulated=run.started.simulated,
        follows=run.started.follows,
        ranks_of_worker=None if run.started.shape is None else run.started.shape.ranks or None,
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
    data = run.started.dataset
    images = data["training_images"] + data["validation_images"]
    done = trial.training_images + trial.validation_images
    return WorkerView(
        worker.number,
        worker.host,
        "training" if done or trial.epoch else "preparing",
        trial=trial.number,
        round=trial.round,
        epoch=trial.current_epoch,
        epochs=epoch_limit(run.schedule, trial.round) if trial.epochs is None else trial.epochs,
        epoch_share=min(1.0, done / images),
        accuracy=trial.best_accuracy or None,
        silent_seconds=max(0.0, now - trial.last_word),
    )
