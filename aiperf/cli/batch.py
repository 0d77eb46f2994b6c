"""Runs as jobs of a batch scheduler: print, submit and follow a job. The job continues when the terminal closes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from aiperf.atomic_files import replace_file
from aiperf.cli.output import print_lines, program
from aiperf.config import RunConf
from aiperf.errors import AiperfError, BadConfiguration, SchedulerRefused
from aiperf.journal.journal import NAME
from aiperf.planning.plan import check_cluster, check_options, folder_of, make_folder
from aiperf.sanitize import sanitize
from cluster.place import BatchJob, ClusterError, JobState, JobSubmission, NoReport, SchedulerConf, UnknownJob

JOB = "job.json"
"""File in the folder of a scheduled run, with the kind of scheduler and the id of the job."""
LOOK_SECONDS = 2.0
"""Interval between queries of the job's state in the minute after a change."""
STEADY_SECONDS = 30.0
"""Interval between queries of the state of a job that runs, or has waited for a minute."""
SHOW_SECONDS = 60.0
"""Interval between printed states of the run."""
LARGEST_SHARE = 0.01
"""Maximum share of the time in which the state of the run is read."""
SILENT_SECONDS = 300.0
"""Longest time without an answer of the scheduler."""


def submit(conf: RunConf, cluster: SchedulerConf, words: Sequence[str]) -> int:
    """Submit a new run as a job. Return 0 if the score is valid, or if the job is not followed to its end (Ctrl-C), else 1."""
    check_options(conf)
    folder = folder_of(conf, time.time()).absolute()
    return _execute(conf, cluster, folder, words, is_new=True)


def resubmit(conf: RunConf, cluster: SchedulerConf, folder: Path) -> int:
    """Submit a job that resumes the run in `folder`, with the options in its journal."""
    return _execute(conf, cluster, folder.absolute(), [], is_new=False)


def run_verb_here(conf: RunConf, cluster: SchedulerConf, words: Sequence[str], verb: Sequence[str]) -> int:
    """Run a command of AIPerf, such as `preflight`, on the nodes of the current allocation, and return its exit status."""
    if not cluster.is_allocated(os.environ):
        raise BadConfiguration(
            f"{verb[0]} runs on the nodes of an allocation of +cluster={cluster.kind}, but this process is in none. Run it "
            "in an allocation (salloc), or give --folder on the head node"
        )
    folder = make_folder(folder_of(conf, time.time()).absolute())
    try:
        job = _job(conf, cluster, folder, words, verb)
        script = folder / job.script_name
        replace_file(script, job.script.encode())
        return run_in_allocation(script)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_in_allocation(script: Path) -> int:
    """Run a script by bash in the allocation of this process. A first SIGINT ends the run with its report, a second at once."""
    started: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []

    def pass_on(number: int, _: object) -> None:
        asked.append(number)
        for process in started:
            process.terminate()

    before = {
        number: signal.signal(number, pass_on)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        # in a session of its own it gets each Ctrl-C once
        started.append(subprocess.Popen(["bash", str(script)], start_new_session=True))
        if asked:
            started[0].terminate()
        return started[0].wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _execute(conf: RunConf, cluster: SchedulerConf, folder: Path, words: Sequence[str], *, is_new: bool) -> int:
    check_cluster(cluster)
    job = _job(conf, cluster, folder, words)
    if is_new and (cluster.submit or job.writes_here):
        job = _job(conf, cluster, make_folder(folder), words)
    if not cluster.submit:
        if is_new and job.writes_here:
            print(f"the run's folder is made, and the scheduler writes into it: {job.folder}", file=sys.stderr)
        print(job.script, end="")
        return 0
    script = job.folder / job.script_name
    replace_file(script, job.script.encode())
    if cluster.is_allocated(os.environ):
        print(f"within an allocation: {script} runs here")
        return run_in_allocation(script)
    state = job.folder / JOB
    try:
        number = _submit(job, script)
        replace_file(state, json.dumps({"kind": cluster.kind, "job": number}).encode())
        print(f"job {number} is submitted. Its script: {script}")
        print(f"the run: {job.folder}")
        return _follow(job, number) if cluster.follow else 0
    except _NeverStarts as error:
        if is_new:
            script.unlink()
            state.unlink(missing_ok=True)
            with suppress(OSError):  # a job that ran before has left its output
                job.folder.rmdir()
        raise SchedulerRefused(str(error)) from error


def _job(
    conf: RunConf, cluster: SchedulerConf, folder: Path, words: Sequence[str], verb: Sequence[str] = ("drive",)
) -> BatchJob:
    for text in (*words, str(folder), str(Path.cwd()), sys.executable):
        if sanitize(text) != text:
            raise BadConfiguration(
                f"a job script must contain no control characters, but found {text!r}: remove them from the option or path"
            )
    submission = JobSubmission(
        name=f"aiperf-{folder.name}",
        folder=folder,
        words=words,
        seconds=conf.schedule.duration_seconds,
        python=sys.executable,
        directory=Path.cwd(),
        verb=verb,
        program=program(),
    )
    return cluster.job(submission)


class _NeverStarts(Exception):
    """The job has not started and will not start."""


def _submit(job: BatchJob, script: Path) -> str:
    try:
        return job.submit(script)
    except ClusterError as error:
        raise _NeverStarts(str(error)) from error


def _follow(job: BatchJob, number: str) -> int:
    reported: JobState | None = None
    silent_since = changed = time.monotonic()
    show_at, shown = changed + SHOW_SECONDS, list[str]()
    try:
        while reported is None or not reported.is_over:
            try:
                state = _look(job, number, reported)
            except ClusterError as error:  # the controller may be restarting
                if time.monotonic() - silent_since > SILENT_SECONDS:
                    raise SchedulerRefused(
                        f"job {number} is no longer followed, but may continue: {error}. Its state: {job.status_command}"
                    ) from error
            else:
                silent_since = time.monotonic()
                if state != reported:
                    changed = silent_since
                    print(_state_line(number, state), flush=True)
                reported = state
                if state.is_hopeless:
                    job.cancel(number)
                    raise _NeverStarts(f"job {number} can never start ({state.reason}) and is cancelled: {job.advice}")
                if state.is_over:
                    break
            if (now := time.monotonic()) > show_at:
                shown = _show(job, number, shown)
                show_at = now + max(SHOW_SECONDS, (time.monotonic() - now) / LARGEST_SHARE)
            runs = reported is not None and bool(reported.nodes)
            time.sleep(STEADY_SECONDS if runs or now - changed > SHOW_SECONDS else LOOK_SECONDS)
    except KeyboardInterrupt:
        print(f"\njob {number} continues. Its state: {job.status_command}")
        return 0
    _fetch(job, number)
    return _finish(job, number)


def _look(job: BatchJob, number: str, reported: JobState | None) -> JobState:
    try:
        return job.state(number)
    except UnknownJob:
        if reported is None:
            raise
        return replace(reported, name="ENDED", reason="", nodes="", is_over=True)


def _fetch(job: BatchJob, number: str) -> None:
    try:
        job.fetch(number)
    except NoReport as none:
        raise AiperfError(
            f"job {number} ended before its run began, and there is no report: {none}. Correct the cause, and start it again"
        ) from none
    except ClusterError as error:
        raise SchedulerRefused(
            f"job {number} has ended, but its report could not be copied from its nodes: {error}. Copy the run's folder from "
            "the storage of the cluster by hand"
        ) from error


def _show(job: BatchJob, number: str, shown: Sequence[str]) -> list[str]:
    """Print the state of the run in progress, unless it equals the lines `shown`. Return its lines."""
    try:
        lines = [*job.lines(number)]
    except ClusterError as error:  # the next query may succeed
        lines = [f"the state of the run could not be read: {error}"]
    print_lines(map(sanitize, lines if lines != shown else ()))
    return lines


def _state_line(number: str, state: JobState) -> str:
    nodes = f" on {state.nodes}" if state.nodes else ""
    reason = f" ({state.reason})" if state.reason else ""
    return f"{time.strftime('%H:%M:%S')} job {number}: {state.name.lower()}{nodes}{reason}"


def _finish(job: BatchJob, number: str) -> int:
    from aiperf.report.write import closing_lines, report_of

    if not (job.folder / NAME).is_file():
        raise AiperfError(
            f"job {number} ended before its run began. Correct the cause, and start it again. Its last output: "
            f"{job.last_output}"
        )
    report = report_of(job.folder)
    print_lines(closing_lines(report, job.folder / "report.html", job.folder))
    return 0 if report.score.valid else 1
