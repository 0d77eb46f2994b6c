"""A run's metrics at the Prometheus endpoint of an existing Ray cluster. All are gauges, since a resume begins them anew."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.report.figures import BUSY, ERROR, REGULATED, SCORE, Figure, Scored

if TYPE_CHECKING:
    from aiperf.drive.driver import Driver
    from aiperf.drive.live import LiveView

EVERY_SECONDS = 5.0
Value = Callable[["Driver", "LiveView"], float | Mapping[str, float] | None]


def _so_far(figure: Figure[Scored]) -> tuple[str, tuple[str, Value]]:
    name = f"aiperf_{figure.name}{'_flops_per_second' if figure.unit == 'FLOPS' else ''}"
    return name, (f"The {figure.title} so far: {figure.meaning}.", lambda driver, view: figure.of(view))


def _workers(_: Driver, view: LiveView) -> dict[str, float]:
    return {"training": view.workers_training, "preparing": view.workers_preparing, "waiting": view.workers_waiting}


def _trials(driver: Driver, view: LiveView) -> dict[str, float]:
    waiting, finished, log = view.proposals_waiting, view.score.trials_finished, driver.work_log
    return _workers(driver, view) | {
        "waiting": waiting, "finished": finished, "failed": log.failed, "rejected": log.rejected
    }  # fmt: skip


def _used(folder: Path) -> float | None:
    with suppress(OSError):
        usage = shutil.disk_usage(folder)
        return 1 - usage.free / usage.total if usage.total else None
    return None


FORMER = "aiperf_busy_share"
"""Former name of aiperf_busy, for one release."""
METRICS: dict[str, tuple[str, Value]] = {
    **dict(map(_so_far, (SCORE, REGULATED, ERROR, BUSY))),
    FORMER: _so_far(BUSY)[1],
    "aiperf_flops_per_second": ("The rate over the last half minute or so.", lambda _, view: view.flops_per_second),
    "aiperf_accelerators": ("Ranks of all workers that are up: one an accelerator.",
        lambda driver, _: sum(worker.ranks for worker in driver.run.workers.values())),
    "aiperf_workers": ("Workers that are up, by what they do (state: training, preparing, waiting).", _workers),
    "aiperf_workers_lost": ("Workers lost since the run began.", lambda _, view: view.workers_lost),
    "aiperf_trials": ("Trials by state (training, preparing, waiting, finished, failed) and proposals rejected.", _trials),
    "aiperf_attempts_lost": ("Attempts that ended before their time.", lambda driver, _: driver.work_log.lost_attempts),
    "aiperf_proposals_waiting": ("Proposals that wait for a worker.", lambda _, view: view.proposals_waiting),
    "aiperf_run_seconds": ("Time since the run began, by the driver's clock.", lambda _, view: view.at),
    "aiperf_run_duration_seconds": ("The run's declared time.", lambda _, view: view.duration_seconds),
    "aiperf_run_down_seconds": ("Time without a driver.", lambda driver, _: driver.work_log.down_seconds),
    "aiperf_journal_lines": ("Lines of the journal.", lambda driver, _: driver.run.lines),
    "aiperf_disk_used": ("Used share of the file system of the run's folder.",
        lambda driver, _: _used(driver.journal.path.parent)),
}  # fmt: skip
"""Description and value by metric. Rates are in FLOP/s. A mapping has a value for each state."""
RUN, STATE = "run", "state"
"""Labels: the run's name on all metrics, and the state on those with several states."""


def figures(driver: Driver) -> dict[tuple[str, str], float]:
    """Return the current values of the metrics by (name, state). The state is '' for a metric without states."""
    from aiperf.drive.live import live_view

    view = live_view(driver.run, driver.work_log, driver.clock.now())
    known = {name: of(driver, view) for name, (_, of) in METRICS.items()}
    states = {name: value if isinstance(value, Mapping) else {"": value} for name, value in known.items()}
    return {(name, at): float(value) for name, of in states.items() for at, value in of.items() if value is not None}


def publisher(clock: Callable[[], float] = time.monotonic) -> Callable[[Driver], None]:
    """Return a function that sets Ray's metrics every 5 s, called after each turn of the driver's loop, after `ray.init`."""
    from ray.util.metrics import Gauge

    with_state = {name for name, (description, _) in METRICS.items() if "state" in description}
    gauges = {
        name: Gauge(name, _ascii(description), tag_keys=(RUN, STATE) if name in with_state else (RUN,))
        for name, (description, _) in METRICS.items()
    }
    due = 0.0

    def publish(driver: Driver) -> None:
        nonlocal due
        if (now := clock()) < due:
            return
        due = now + EVERY_SECONDS
        run = _ascii(driver.run.started.run)
        for (name, state), value in figures(driver).items():
            gauges[name].set(value, tags={RUN: run, STATE: state} if state else {RUN: run})

    return publish


def _ascii(text: str) -> str:
    """Return a text that Ray's metrics accept: ASCII. (Ray 2.60)."""
    return text.replace("÷", "/").encode("ascii", "backslashreplace").decode()
