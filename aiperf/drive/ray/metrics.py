"""A run's figures as metrics of Ray's own Prometheus endpoint, on the driver's host: what the live table shows, set every few
seconds.

Ray puts "ray_" before each name. All are gauges: a driver that takes a run up again counts from the journal, where a counter of
its own would begin anew. What is not known yet (a score in the warm-up) is not exported.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiperf.errors import BadConfiguration

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
"""Each with what it tells. The rates are in FLOP/s, as the report's."""
RUN, STATE = "run", "state"
"""Labels: the run's name, on all; the state, where a metric is one of several."""


def figures(driver: Driver) -> dict[tuple[str, str], float]:
    """By metric and state ('' where it has none), as the run stands; a function of the driver's folds."""
    from aiperf.drive.live_view import live_view

    view, run, work_log = live_view(driver), driver.run, driver.work_log
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
    """What is to be called after each of the driver's turns; it looks at the time, and mostly does nothing. Ray must have been
    initialised; where that Ray has no endpoint (Ray without its extra 'default'), what is set goes nowhere."""
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


def require_endpoint() -> None:
    """Raises BadConfiguration where this Ray cannot have an endpoint: what it is made of comes with Ray's extra 'default'."""
    try:
        import ray.dashboard.optional_deps  # noqa: F401
    except ImportError as error:
        raise BadConfiguration(
            f"metrics_port opens Ray's own endpoint, which needs more than the benchmark itself; found no {error.name}: "
            "pip install 'ray[default]', or leave metrics_port out"
        ) from error
