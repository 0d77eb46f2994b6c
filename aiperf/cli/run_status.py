"""State of a run in progress, from its journal alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aiperf.run_warning import RunWarning

JOB = "job.json"
"""File in the folder of a scheduled run, with the kind of scheduler and the id of the job."""
LARGEST_JOB = 1 << 12
"""Bytes of that file."""
MOST_LOST = 3
"""Number of lost workers that are listed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker that was lost."""

    worker: int
    host: str
    at: float
    """Seconds since the run began."""
    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    """State of a run."""

    run: str
    seconds: float
    """Time of the last line since the run began."""
    duration_seconds: float
    ended: str | None
    """Reason of the end. None if the run continues or its driver was killed."""
    heard_seconds_ago: float
    """Seconds since the last change of the journal, by the clocks of this host and of the file system."""
    driver_host: str
    job: dict[str, str] | None
    """Kind of scheduler and id of the job at the last submission. None without a scheduler."""
    flops_per_second: float | None
    regulated_flops_per_second: float | None
    error: float | None
    metric: str
    quality: float | None
    trials_finished: int
    workers: int
    """Workers that are running."""
    workers_training: int
    accelerators: int
    workers_lost: int
    lost: tuple[Lost, ...]
    """Last lost workers."""
    warnings: tuple[RunWarning, ...]
    """Warnings about the journal."""
    resumes: int
    down_seconds: float
    """Seconds without a running driver."""


def status_of(folder: Path, now_unix: float) -> Status:
    """Return the state of the run in a folder. `now_unix`: time of the wall clock.

    Raises:
        NoSuchRun: the journal has no complete line yet.
        BadConfiguration: the file with the job's id is damaged.
    """
    from aiperf.accounting.score import score
    from aiperf.accounting.work_log import WorkLog
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
    figures = score(work_log, run.at)
    return Status(
        run=run.started.run,
        seconds=run.at,
        duration_seconds=run.duration,
        ended=run.ended,
        heard_seconds_ago=max(0.0, now_unix - (folder / NAME).stat().st_mtime),
        driver_host=host,
        job=_job(folder / JOB),
        flops_per_second=figures.flops_per_second,
        regulated_flops_per_second=figures.regulated_flops_per_second,
        error=figures.error,
        metric=run.started.metric,
        quality=figures.quality,
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


def _job(path: Path) -> dict[str, str] | None:
    import msgspec

    from aiperf.errors import BadConfiguration

    if not path.is_file():
        return None
    with path.open("rb") as file:
        content = file.read(LARGEST_JOB + 1)
    try:
        job = msgspec.json.decode(content, type=dict[str, str])
        return {name: job[name] for name in ("kind", "job")}
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
        raise BadConfiguration(
            f"{JOB} holds the kind of a scheduler and the id of a job, at most {LARGEST_JOB} bytes, but found another content "
            f"in '{path}' ({error}). Remove the file"
        ) from error


def lines(folder: Path, now_unix: float) -> Iterator[str]:
    """Yield the state of a run as lines of text. Raises NoSuchRun, see `status_of`."""
    from aiperf.units import METRICS, duration, flops_per_second
    from aiperf.units import error as error_rate
    from aiperf.units import quality as as_text

    status = status_of(folder, now_unix)
    state = f"ended ({status.ended})" if status.ended else f"last heard of {duration(status.heard_seconds_ago)} ago"
    yield f"{status.run}: {duration(status.seconds)} of {duration(status.duration_seconds)}, {state}"
    figure = "after the warm-up" if status.flops_per_second is None else flops_per_second(status.flops_per_second)
    quality = "error " + ("none yet" if status.error is None else error_rate(status.error))
    if status.metric != "top1":
        quality = f"{METRICS[status.metric]} {'none yet' if status.quality is None else as_text(status.quality)}"
    yield f"  score {figure} · {quality} · {status.trials_finished} trials finished"
    yield f"  {status.workers} workers up, {status.workers_training} of them in training · {status.workers_lost} lost so far"
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
