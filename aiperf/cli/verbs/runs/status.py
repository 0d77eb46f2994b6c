"""`python -m aiperf status`: show the state of a run in progress, from its journal alone."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aiperf.cli.arguments import add_json
from aiperf.cli.output import print_result
from aiperf.page.section import Items
from aiperf.run_warning import RunWarning

if TYPE_CHECKING:
    from aiperf.drive.live import LiveView


DESCRIPTION = """Shows the state of a run on another host or in a batch job, from its journal. Neither the run nor the
scheduler is contacted."""
EXAMPLES = ("/shared/runs/20261121-120000-imagenet", "--json /shared/runs/20261121-120000-imagenet")
MOST_LOST = 3
"""Number of lost workers that are listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    add_json(parser, "; times in seconds, rates in FLOP/s")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.journal.run_folder import run_folder

    folder = run_folder(arguments.run)
    status = status_of(folder, time.time())
    plain = asdict(status)
    view, score = plain["view"], plain["view"]["score"]
    former = score | view | {"window_flops_per_second": score["flops_per_second"]}  # former names, for one release
    print_result("aiperf-status", plain | {"view": former}, [Items(tuple(lines(status)))], arguments)
    return 0


class _Job(msgspec.Struct, frozen=True):
    kind: str
    job: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker that was lost during the run, for example because its host crashed. Its number, host, time and reason."""

    worker: int
    host: str
    at: float
    """Seconds since the run began."""
    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    view: LiveView
    """State at the last line of the journal."""
    ended: str | None
    """Reason of the end. None if the run continues or its driver was killed."""
    heard_seconds_ago: float
    """Seconds since the last change of the journal, by the clocks of this host and of the file system."""
    driver_host: str
    job: dict[str, str] | None
    """Kind of scheduler and id of the job at the last submission. None without a scheduler."""
    accelerators: int
    lost: tuple[Lost, ...]
    """Last lost workers."""
    warnings: tuple[RunWarning, ...]
    """Warnings about the journal."""
    resumes: int
    down_seconds: float
    """Seconds without a running driver."""


def status_of(folder: Path, now_unix: float) -> Status:
    from aiperf.accounting.work_log import WorkLog
    from aiperf.cli.batch import JOB
    from aiperf.drive.live import live_view
    from aiperf.journal.events import RunResumed, RunStarted, WorkerLost
    from aiperf.journal.journal import NAME, folding, read
    from aiperf.rules.evolve import replay

    reader = read(folder)
    work_log = WorkLog()
    host, resumes, lost = "", 0, []
    with folding(reader):
        for run, event in replay(reader):
            if isinstance(event, RunStarted | RunResumed):
                host, resumes = str(event.machine.get("host", "")), resumes + isinstance(event, RunResumed)
            if isinstance(event, WorkerLost) and event.cause != "released":
                lost.append(Lost(event.worker, run.workers[event.worker].host, event.at, event.reason))
            work_log.take(event)
    return Status(
        view=live_view(run, work_log, run.at),
        ended=run.ended,
        heard_seconds_ago=max(0.0, now_unix - (folder / NAME).stat().st_mtime),
        driver_host=host,
        job=_job(folder / JOB),
        accelerators=sum(worker.ranks for worker in run.workers.values()),
        lost=tuple(lost[-MOST_LOST:]),
        warnings=() if reader.reading.warning is None else (reader.reading.warning,),
        resumes=resumes,
        down_seconds=work_log.down_seconds,
    )


def _job(path: Path) -> dict[str, str] | None:
    from aiperf.given_file import read_json

    if not os.path.lexists(path):
        return None
    job = read_json(path, f"{path.name} holds the kind of a scheduler and the id of a job", _Job, "remove it")
    return {"kind": job.kind, "job": job.job}


def lines(status: Status) -> Iterator[str]:
    """Yield the state of a run as lines of text: time, score, quality, workers, driver host and warnings."""
    from aiperf.report.figures import BEST_QUALITY, ERROR, SCORE
    from aiperf.units import ACCURACIES, METRICS, duration

    view = status.view
    state = f"ended ({status.ended})" if status.ended else f"journal written {duration(status.heard_seconds_ago)} ago"
    yield f"{view.run}: {duration(view.at)} of {duration(view.duration_seconds)}, {state}"
    is_error = view.metric in ACCURACIES
    quality = f"error {ERROR.text(view)}" if is_error else f"{METRICS[view.metric]} {BEST_QUALITY.text(view)}"
    yield f"  score {SCORE.text(view)} · {quality} · {view.score.trials_finished} trials finished"
    yield f"  {view.workers_present} workers up, {view.workers_training} of them in training · {view.workers_lost} lost so far"
    for one in status.lost:
        yield f"  lost: worker {one.worker} on {one.host}, after {duration(one.at)}: {one.reason}"
    where = f"  driver on {status.driver_host}"
    if status.job is not None:
        where += f" · job {status.job['job']} of {status.job['kind']}"
    if status.resumes:
        where += f" · resumed {status.resumes} times, {duration(status.down_seconds)} down"
    yield where
    for warning in status.warnings:
        yield from (f"  {line}" for line in warning.lines)
