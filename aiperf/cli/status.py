"""`python -m aiperf status`: how a run stands that goes on elsewhere, from its journal alone."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from aiperf.run_warning import RunWarning

DESCRIPTION = """Shows how a run stands that goes on on another host, or in a batch job, as far as its journal
tells. Nothing is asked of the run itself, nor of a scheduler."""
EXAMPLES = ("/shared/runs/20261121-120000-imagenet", "--json /shared/runs/20261121-120000-imagenet")
OPTIONS = ""
JOB = "job.json"
"""In a run's folder, where a scheduler brings the machines: which, and the job's id as it knows it."""
MOST_LOST = 3
"""Lost workers that are named: the last."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, and in which form."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--json", action="store_true", help="for programs: one JSON object; times in seconds, rates in FLOP/s"
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints a few lines; gives the exit status."""
    from aiperf.journal.run_folder import run_folder

    folder = run_folder(arguments.run)
    if arguments.json:
        print(json.dumps(asdict(status_of(folder, time.time()))))
        return 0
    from aiperf.cli.fold import say

    say(lines(folder, time.time()))
    return 0


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker that was lost."""

    worker: int
    host: str
    at: float
    """Since the run began."""
    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    """How a run stands."""

    run: str
    seconds: float
    """Since it began, at the last line."""
    duration_seconds: float
    ended: str | None
    """Why; none: it goes on, or its driver was killed."""
    heard_seconds_ago: float
    """Since the journal grew, by this host's clock and the file system's."""
    driver_host: str
    job: dict[str, str] | None
    """The scheduler's kind and the job's id, as they were when it was submitted last; none: there is no scheduler."""
    flops_per_second: float | None
    regulated_flops_per_second: float | None
    error: float | None
    trials_finished: int
    workers: int
    """Up."""
    workers_training: int
    accelerators: int
    workers_lost: int
    lost: tuple[Lost, ...]
    """The last of them."""
    warnings: tuple[RunWarning, ...]
    """Of how its journal could be read."""
    resumes: int
    down_seconds: float
    """No driver was up."""


def status_of(folder: Path, now_unix: float) -> Status:
    """How the run in a folder stands. `now_unix`: the wall clock, for how long ago it was heard of.

    Raises:
        NoSuchRun: its journal holds no whole line yet.
    """
    from aiperf.accounting.score import score
    from aiperf.accounting.work_log import WorkLog
    from aiperf.journal.events import RunResumed, RunStarted, WorkerLost
    from aiperf.journal.journal import NAME, folding, read
    from aiperf.rules.replay import replay

    reader = read(folder)
    work_log = WorkLog()
    host, resumes, lost = "", 0, []
    with folding(reader):
        for run, event in replay(reader):
            if isinstance(event, RunStarted | RunResumed):
                host, resumes = str(event.machine.get("host", "")), resumes + isinstance(event, RunResumed)
            if isinstance(event, WorkerLost) and not event.released:
                lost.append(Lost(event.worker, run.workers[event.worker].host, event.at, event.reason))
            work_log.take(event)
    found = score(work_log, run.at)
    return Status(
        run=run.started.run,
        seconds=run.at,
        duration_seconds=run.duration,
        ended=run.ended,
        heard_seconds_ago=max(0.0, now_unix - (folder / NAME).stat().st_mtime),
        driver_host=host,
        job=json.loads((folder / JOB).read_text()) if (folder / JOB).is_file() else None,
        flops_per_second=found.flops_per_second,
        regulated_flops_per_second=found.regulated_flops_per_second,
        error=found.error,
        trials_finished=run.finished,
        workers=len(run.workers),
        workers_training=len(run.running),
        accelerators=sum(worker.ranks for worker in run.workers.values()),
        workers_lost=work_log.lost_workers,
        lost=tuple(lost[-MOST_LOST:]),
        warnings=() if reader.reading.warning is None else (reader.reading.warning,),
        resumes=resumes,
        down_seconds=work_log.down_seconds,
    )


def lines(folder: Path, now_unix: float) -> Iterator[str]:
    """The same in a few lines. Raises: see `status_of`."""
    from aiperf.units import duration, flops_per_second
    from aiperf.units import error as error_rate

    found = status_of(folder, now_unix)
    state = f"ended ({found.ended})" if found.ended else f"last heard of {duration(found.heard_seconds_ago)} ago"
    yield f"{found.run}: {duration(found.seconds)} of {duration(found.duration_seconds)}, {state}"
    figure = "after the warm-up" if found.flops_per_second is None else flops_per_second(found.flops_per_second)
    error = "none yet" if found.error is None else error_rate(found.error)
    yield f"  score {figure} · error {error} · {found.trials_finished} trials finished"
    yield f"  {found.workers} workers up, {found.workers_training} of them in training · {found.workers_lost} lost so far"
    for one in found.lost:
        yield f"  lost: worker {one.worker} on {one.host}, after {duration(one.at)}: {one.reason}"
    where = f"  driver on {found.driver_host}"
    if found.job is not None:
        where += f" · job {found.job['job']} of {found.job['kind']}"
    if found.resumes:
        where += f" · resumed {found.resumes} times, {duration(found.down_seconds)} down"
    yield where
    for warning in found.warnings:
        yield from (f"  {line}" for line in warning.lines)
