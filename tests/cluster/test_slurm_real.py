"""Whole runs on a real Slurm of several nodes, each from one command, with good and bad ends.

Each trains for a minute or two: `make test-long ARGS=tests/cluster`. With AIPERF_SLURM=required they fail without
Slurm, instead of being skipped.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiperf.journal.events import (
    AnyEvent,
    EpochFinished,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialPrepared,
    TrialStarted,
    WorkerJoined,
    WorkerLost,
)
from aiperf.journal.journal import read
from aiperf.report.gather import gather
from aiperf.system.processes import family
from aiperf.system.processes import name as process_name
from tests.audit.run_model import audit
from tests.rigs.namespaces import REPOSITORY
from tests.rigs.slurm import SlurmRig, missing, slurm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        missing() is not None and os.environ.get("AIPERF_SLURM") != "required", reason=f"no Slurm: {missing()}"
    ),
]
SHORT = ("schedule.duration_seconds=75", "schedule.warmup_seconds=10", "cluster.nodes=2")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmRig]:
    """Three nodes."""
    with slurm(tmp_path_factory.mktemp("slurm"), nodes=3) as rig:
        yield rig


def command(rig: SlurmRig, *words: str) -> subprocess.Popen[str]:
    """Python -m aiperf, as a user of the login node types it."""
    return subprocess.Popen(
        [sys.executable, "-m", "aiperf", "+cluster=slurm", *words],
        cwd=rig.folder,
        env=rig.environment | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str], seconds: float = 600.0) -> tuple[int, str]:
    said, _ = process.communicate(timeout=seconds)
    return process.returncode, said


def folder(rig: SlurmRig, name: str) -> Path:
    (found,) = (rig.folder / "runs").glob(f"*-{name}")
    return found


def wait_for(what: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def trains(rig: SlurmRig, name: str) -> Callable[[], bool]:
    """Return whether a trial of the run is training."""

    def asked() -> bool:
        journals = list((rig.folder / "runs").glob(f"*-{name}/journal.jsonl"))
        return bool(journals) and any(isinstance(event, TrialPrepared) for event in read(journals[0].parent))

    return asked


def job_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.match(r"job (\d+) is submitted", line):
            return found[1]
    raise AssertionError("no job was submitted")


def test_one_command_runs_the_benchmark_on_two_nodes(rig: SlurmRig) -> None:
    status, said = ended(command(rig, *SHORT, "name=whole"))

    assert status == 0, said
    assert re.search(r"job \d+: running on n\d+x\[1-2\]", said), said
    assert re.search(r"^score [\d.]+ [GMT]?FLOPS", said, flags=re.MULTILINE), said
    run = folder(rig, "whole")
    assert (run / "report.html").is_file()
    events = list(read(run))
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason == "duration"
    joined = [event for event in events if isinstance(event, WorkerJoined)]
    assert [event.host for event in joined] == [rig.names[1]], "the head trains nothing"
    assert not (run / "ray-head.json").exists(), "the token goes with the run"


def test_a_requeued_job_resumes_after_the_time_limit(rig: SlurmRig) -> None:
    words = ("schedule.duration_seconds=210", "schedule.warmup_seconds=10", "cluster.nodes=2", "cluster.requeue=true")
    # Slurm looks at its limits each half minute: the signal comes a minute or so before the end of the third minute
    status, said = ended(command(rig, *words, "cluster.time=3", "cluster.signal_seconds=60", "name=limit"))

    events = list(read(folder(rig, "limit")))
    # valid if Slurm took less than the rest of the run to start the job again
    assert status == (0 if gather(iter(events)).score.valid else 1), said
    ends = [event.reason for event in events if isinstance(event, RunEnded)]
    assert ends[0] == "interrupted"
    assert ends[-1] == "duration"
    assert any(isinstance(event, RunResumed) for event in events)
    assert len([event for event in events if isinstance(event, RunStarted)]) == 1


def test_a_job_that_is_cancelled_leaves_a_closed_journal(rig: SlurmRig) -> None:
    process = command(rig, "schedule.duration_seconds=600", "cluster.nodes=2", "name=cancelled")
    job = job_of(process)
    wait_for(trains(rig, "cancelled"))

    rig.ask("scancel", job)
    _, said = ended(process)

    assert "cancelled" in said
    *_, last = read(folder(rig, "cancelled"))
    assert isinstance(last, RunEnded)
    assert last.reason == "interrupted"


def test_the_loss_of_a_node_is_survived(rig: SlurmRig) -> None:
    process = command(
        rig, "schedule.duration_seconds=120", "schedule.warmup_seconds=10", "cluster.nodes=3", "name=lost"
    )
    wait_for(trains(rig, "lost"))
    workers = [event for event in read(folder(rig, "lost")) if isinstance(event, WorkerJoined)]

    rig.off(workers[0].host)
    status, said = ended(process)

    assert status == 0, said
    events = list(read(folder(rig, "lost")))
    assert [event.worker for event in events if isinstance(event, WorkerLost)] == [workers[0].worker]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason == "duration"
    rig.on(workers[0].host)


def test_the_loss_of_the_first_node_is_a_pause_with_requeue(
    rig: SlurmRig,
) -> None:
    words = ("schedule.duration_seconds=360", "schedule.warmup_seconds=10", "cluster.nodes=2", "cluster.requeue=true")
    process = command(rig, *words, "name=head")
    wait_for(trains(rig, "head"))
    run = folder(rig, "head")
    (first,) = [event for event in read(run) if isinstance(event, RunStarted)]
    assert first.machine["host"] == rig.names[0]

    rig.off(rig.names[0])
    try:
        status, said = ended(process)
    finally:
        rig.on(rig.names[0])

    assert status == 0, said
    events = list(read(run))
    (resumed,) = [event for event in events if isinstance(event, RunResumed)]
    assert resumed.machine["host"] in rig.names[1:], "another node holds head and driver now"
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason == "duration"
    report = gather(iter(events))
    assert report.score.valid
    assert report.run.down_seconds == pytest.approx(resumed.down_seconds)
    assert resumed.down_seconds > 0.0
    assert f"the driver was down for {resumed.down_seconds:.0f} s" in said, said
    wait_for(lambda: rig.ask("sinfo", "--noheader", "--states=idle", "--format=%D") == "3")


def test_a_first_node_that_is_cut_off_and_lives_is_a_pause(rig: SlurmRig) -> None:
    """Its driver still holds the journal when the job begins again elsewhere."""
    words = ("schedule.duration_seconds=600", "schedule.warmup_seconds=10", "cluster.nodes=2", "cluster.requeue=true")
    process = command(rig, *words, "name=alive")
    job = job_of(process)
    wait_for(trains(rig, "alive"))
    run = folder(rig, "alive")

    rig.hosts.cut(rig.names[0])
    try:
        wait_for(lambda: "Restarts=1" in rig.ask("scontrol", "show", "job", job), seconds=250.0)  # Ray alone: longer
        wait_for(lambda: any(isinstance(event, RunResumed) for event in read(run)), seconds=600.0)
    finally:
        rig.hosts.join(rig.names[0])
    status, said = ended(process)

    assert status == 0, said
    events = list(read(run))
    assert [event.reason for event in events if isinstance(event, RunEnded)] == ["interrupted", "duration"]
    (resumed,) = [event for event in events if isinstance(event, RunResumed)]
    assert resumed.machine["host"] in rig.names[1:]
    wait_for(lambda: rig.ask("sinfo", "--noheader", "--states=idle", "--format=%D") == "3")


def test_a_node_whose_raylet_dies_comes_back(rig: SlurmRig) -> None:
    process = command(rig, "schedule.duration_seconds=1800", "cluster.nodes=3", "name=raylet")
    wait_for(trains(rig, "raylet"))
    run = folder(rig, "raylet")
    worker, *_ = (event for event in read(run) if isinstance(event, WorkerJoined))

    raylet = next(pid for pid in family(rig.hosts.init_of(worker.host)) if process_name(pid) == "raylet")
    os.kill(raylet, signal.SIGKILL)
    wait_for(lambda: [event.host for event in read(run) if isinstance(event, WorkerJoined)].count(worker.host) == 2)
    (run / "end-requested").touch()
    ended(process)

    assert [event.worker for event in read(run) if isinstance(event, WorkerLost)] == [worker.worker]
    assert "it is started again" in (run / "slurm.log").read_text()


def test_a_terminal_that_closes_leaves_the_job_running(rig: SlurmRig) -> None:
    process = command(rig, *SHORT, "name=left")
    job = job_of(process)
    wait_for(lambda: rig.ask("squeue", "--noheader", f"--jobs={job}", "--format=%T") == "RUNNING")

    process.send_signal(signal.SIGINT)
    status, said = ended(process)

    assert status == 0
    assert f"job {job} continues" in said
    assert rig.ask("squeue", "--noheader", f"--jobs={job}", "--format=%T") == "RUNNING"
    rig.ask("scancel", job)
    wait_for(lambda: rig.ask("squeue", "--noheader", "--states=RUNNING,COMPLETING", f"--jobs={job}") == "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("cluster.partition=none",), "invalid partition specified: none"),
        (("cluster.nodes=9",), r"can never start \(Partition(NodeLimit|Config)\) and is cancelled"),
    ],
)
def test_what_cannot_start_is_refused_and_leaves_nothing(rig: SlurmRig, words: tuple[str, ...], told: str) -> None:
    status, said = ended(command(rig, *words, "name=refused"))

    assert status == 2
    assert re.search(told, said), said
    assert not list((rig.folder / "runs").glob("*-refused"))
    assert "PENDING" not in rig.ask("squeue", "--noheader", "--format=%T %j")


def test_within_an_allocation_the_run_takes_place_there(rig: SlurmRig) -> None:
    words = [sys.executable, "-m", "aiperf", "+cluster=slurm", *SHORT, "name=salloc"]
    done = subprocess.run(
        ["salloc", "--nodes=2", "--ntasks-per-node=1", "--exclusive", *words],
        cwd=rig.folder,
        env=rig.environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "runs here" in done.stdout
    *_, last = read(folder(rig, "salloc"))
    assert isinstance(last, RunEnded)
    assert last.reason == "duration"


def test_ctrl_c_in_an_allocation_ends_with_the_report(rig: SlurmRig) -> None:
    words = [sys.executable, "-m", "aiperf", "+cluster=slurm", "schedule.duration_seconds=600", "name=stopped"]
    process = subprocess.Popen(
        ["script", "-qefc", shlex.join(["salloc", "--nodes=2", "--exclusive", *words]), "/dev/null"],  # in a terminal
        cwd=rig.folder,
        env=rig.environment | {"PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    wait_for(trains(rig, "stopped"))

    _, said = process.communicate("\x03", timeout=180.0)

    run = folder(rig, "stopped")
    *_, last = read(run)
    assert isinstance(last, RunEnded), said
    assert last.reason == "interrupted"
    assert (run / "report.html").is_file(), said
    wait_for(lambda: rig.ask("squeue", "--noheader") == "")


APPTAINER = """#!/bin/sh
# stand-in: apptainer exec OPTION… IMAGE COMMAND…, with the path of programs of an image
while [ "${1##*/}" != image ]; do shift; done
shift
PATH=/usr/bin:/bin APPTAINER_CONTAINER=image exec "$@"
"""


def test_a_run_in_apptainer_ends_with_its_report(rig: SlurmRig) -> None:
    """In an image of empty folders, into which this machine's system and environment are mounted."""
    image, programs = rig.folder / "image", rig.folder / "programs"
    for name in ("etc", "usr", "bin", "lib", "lib64", "tmp", "proc", "sys", "dev", "root", "var/tmp"):
        (image / name).mkdir(parents=True)
    programs.mkdir()
    if not (is_real := shutil.which("apptainer") is not None):
        (programs / "apptainer").write_text(APPTAINER)
        (programs / "apptainer").chmod(0o755)
    python = Path(sys.base_prefix), Path(sys.prefix), REPOSITORY
    mounts = ",".join(f'"{path}:{path}"' for path in ("/etc", "/usr", "/bin", "/lib", "/lib64", *python))
    words = (f"cluster.container={image}", "cluster.container_runtime=apptainer", f"cluster.python={sys.executable}")
    # without a capability of the usual way: in a user namespace
    setup = f'cluster.setup=["export PATH=$PATH:{programs} APPTAINER_USERNS=1"]'

    status, said = ended(command(rig, *SHORT, *words, f"cluster.container_mounts=[{mounts}]", setup, "name=boxed"))

    run = folder(rig, "boxed")
    assert status == 0, said + (run / "slurm.log").read_text()
    assert (run / "report.html").is_file()
    (joined,) = [event for event in read(run) if isinstance(event, WorkerJoined)]
    assert joined.machine["container"] == "apptainer" or not is_real


def test_a_printed_script_runs_by_sbatch(rig: SlurmRig) -> None:
    """As a task of an array. Its only task has the array's id."""
    status, script = ended(command(rig, *SHORT, "name=printed", "cluster.submit=false"))
    assert status == 0
    (rig.folder / "job.sh").write_text(script[script.index("#!/bin/bash") :])

    job = rig.ask("sbatch", "--parsable", "--array=3", str(rig.folder / "job.sh"))
    wait_for(lambda: rig.ask("squeue", "--noheader", f"--jobs={job}") == "", seconds=600.0)

    run = folder(rig, "printed")
    *_, last = read(run)
    assert isinstance(last, RunEnded), (run / "slurm.log").read_text()
    assert last.reason == "duration"


def test_worker_jobs_join_and_leave_a_running_run(rig: SlurmRig) -> None:
    words = ("schedule.duration_seconds=150", "schedule.warmup_seconds=10", "cluster.nodes=2", "name=elastic")
    process = command(rig, *words)
    wait_for(trains(rig, "elastic"))
    run = folder(rig, "elastic")
    join = f"{shlex.quote(sys.executable)} -m aiperf join {shlex.quote(str(run))}"

    job = rig.ask("sbatch", "--parsable", "--nodes=1", "--exclusive", f"--output={run}/joined.log", f"--wrap={join}")
    wait_for(lambda: len({event.worker for event in trained(run)}) == 2)
    rig.ask("scancel", job)
    status, said = ended(process)

    assert status == 0, said
    events = list(read(run))
    first, came = (event for event in events if isinstance(event, WorkerJoined))
    assert [event.worker for event in events if isinstance(event, WorkerLost)] == [came.worker]
    assert first.host != came.host
    assert any(event.at > lost_at(events) for event in trained(run)), "the other went on"
    audit(events)
    assert gather(iter(events)).score.valid


def trained(run: Path) -> list[TrialStarted]:
    """Return the trials of which an epoch has ended."""
    events = list(read(run))
    ended = {event.trial for event in events if isinstance(event, EpochFinished)}
    return [event for event in events if isinstance(event, TrialStarted) and event.trial in ended]


def lost_at(events: list[AnyEvent]) -> float:
    return next(event.at for event in events if isinstance(event, WorkerLost))
