"""Export of a run's metrics to the Prometheus endpoint of an existing Ray cluster.

All are gauges: after a resume the driver counts from the journal, and a counter would start at 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiperf.drive.driver import Driver

EVERY_SECONDS = 5.0
METRICS = {
    "aiperf_score_flops_per_second": "The score so far: operations of the valid window, divided by its time.",
    "aiperf_regulated_flops_per_second": "The regulated score so far.",
    "aiperf_flops_per_second": "The rate now: over the last half minute or so.",
    "aiperf_error": "The best validation error so far, 0 to 1.",
    "aiperf_busy_share": "Share of the accelerators' time spent in steps, 0 to 1.",
    "aiperf_accelerators": "Ranks of all workers that are up: one an accelerator.",
    "aiperf_workers": "Workers that are up, by what they do (state: training, preparing, waiting).",
    "aiperf_workers_lost": "Workers lost since the run began.",
    "aiperf_trials": "Trials by state (training, preparing, waiting, finished, failed) and proposals rejected.",
    "aiperf_attempts_lost": "Attempts at trials that ended before their time.",
    "aiperf_proposals_waiting": "Proposals that wait for a worker.",
    "aiperf_run_seconds": "Time since the run began, by the driver's clock.",
    "aiperf_run_duration_seconds": "The run's declared time.",
    "aiperf_run_down_seconds": "How long no driver was up since the run began.",
    "aiperf_journal_lines": "Lines of the journal.",
}
"""Description by metric. Rates are in FLOP/s."""
RUN, STATE = "run", "state"
"""Labels: the run's name on all metrics, and the state on those with several states."""


def figures(driver: Driver) -> dict[tuple[str, str], float]:
    """Return the current values of the metrics in METRICS."""
    from aiperf.drive.live_view import live_view

    run, work_log = driver.run, driver.work_log
    view = live_view(run, work_log, driver.clock.now())
    known: dict[tuple[str, str], float | None] = {
        ("aiperf_score_flops_per_second", ""): view.window_flops_per_second,
        ("aiperf_regulated_flops_per_second", ""): view.regulated_flops_per_second,
        ("aiperf_flops_per_second", ""): view.flops_per_second,
        ("aiperf_error", ""): view.error,
        ("aiperf_busy_share", ""): view.busy_share,
        ("aiperf_accelerators", ""): sum(worker.ranks for worker in run.workers.values()),
        ("aiperf_workers", "training"): view.workers_training,
        ("aiperf_workers", "preparing"): view.workers_preparing,
        ("aiperf_workers", "waiting"): view.workers_waiting,
        ("aiperf_workers_lost", ""): view.workers_lost,
        ("aiperf_trials", "training"): view.workers_training,
        ("aiperf_trials", "preparing"): view.workers_preparing,
        ("aiperf_trials", "waiting"): view.proposals_waiting,
        ("aiperf_trials", "finished"): view.trials_finished,
        ("aiperf_trials", "failed"): work_log.failed,
        ("aiperf_trials", "rejected"): work_log.rejected,
        ("aiperf_attempts_lost", ""): work_log.lost_attempts,
        ("aiperf_proposals_waiting", ""): view.proposals_waiting,
        ("aiperf_run_seconds", ""): view.at,
        ("aiperf_run_duration_seconds", ""): view.duration_seconds,
        ("aiperf_run_down_seconds", ""): work_log.down_seconds,
        ("aiperf_journal_lines", ""): run.lines,
    }
    return {key: float(value) for key, value in known.items() if value is not None}


def publisher(clock: Callable[[], float] = time.monotonic) -> Callable[[Driver], None]:
    """Return a function that sets Ray's metrics of a run every 5 s.

    The driver calls it after each turn of its loop. `ray.init` must have been called.
    """
    from ray.util.metrics import Gauge

    with_state = {name for name, description in METRICS.items() if "state" in description}
    gauges = {
        name: Gauge(name, description, tag_keys=(RUN, STATE) if name in with_state else (RUN,))
        for name, description in METRICS.items()
    }
    due = 0.0

    def publish(driver: Driver) -> None:
        nonlocal due
        if (now := clock()) < due:
            return
        due = now + EVERY_SECONDS
        run = driver.run.started.run
        for (name, state), value in figures(driver).items():
            gauges[name].set(value, tags={RUN: run, STATE: state} if state else {RUN: run})

    return publish
