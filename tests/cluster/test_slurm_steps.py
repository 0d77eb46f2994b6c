"""Batch scripts on a real Slurm, with a stand-in for the benchmark that records the environment of its processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from aiperf.journal.events import RunEnded
from aiperf.journal.journal import read
from cluster.place import JobSubmission
from cluster.slurm import SlurmConf, batch_script
from tests.rigs.namespaces import REPOSITORY
from tests.rigs.slurm import SlurmRig, missing, slurm

pytestmark = pytest.mark.skipif(
    missing() is not None and os.environ.get("AIPERF_SLURM") != "required", reason=f"no Slurm: {missing()}"
)
STAND_IN = """#!/bin/bash
# aiperf drive RUN WORD… ends when the file `over` is there; aiperf join RUN a moment later
run=$4
printf '%s\\n' "verb=$3" "gpus=$CUDA_VISIBLE_DEVICES" "own=$OWN" "host=$(uname -n)" "$@" > "$run/seen-$3-$(uname -n)"
until [ -e "$run/over" ]; do sleep 0.2; done
"""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmRig]:
    """Three nodes: two of them with two fake GPUs."""
    with slurm(tmp_path_factory.mktemp("slurm"), nodes=3, gpus=(2, 2, 0)) as rig:
        (rig.folder / "python").write_text(STAND_IN)
        (rig.folder / "python").chmod(0o755)
        yield rig


def submission(rig: SlurmRig, run: str = "run") -> JobSubmission:
    folder = rig.folder / "runs" / run
    folder.mkdir(parents=True)
    python = str(rig.folder / "python")
    return JobSubmission(f"aiperf-{run}", folder, ["+cluster=slurm"], 60.0, python, directory=rig.folder)


def submitted(
    rig: SlurmRig, conf: SlurmConf, given: JobSubmission, environment: Mapping[str, str] | None = None
) -> str:
    """Hand a script to sbatch and return the job's number."""
    script = given.folder / "slurm.sh"
    script.write_text(batch_script(conf, given))
    return subprocess.run(
        ["sbatch", "--parsable", str(script)],
        env=rig.environment | dict(environment or {}),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def seen(rig: SlurmRig, given: JobSubmission, verb: str, node: int) -> dict[str, str]:
    """Wait for the record of a step's process, then return it."""
    path = given.folder / f"seen-{verb}-{rig.names[node]}"
    wait_for(path.is_file)
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)


def wait_for(is_so: Callable[[], bool], seconds: float = 240.0) -> None:
    """Slurm requeues a job when its node has reported the end: seconds if quiet, minutes on a busy machine."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def end(rig: SlurmRig, given: JobSubmission, job: str) -> None:
    (given.folder / "over").touch()
    wait_for(lambda: rig.ask("squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING", f"--jobs={job}") == "")
    assert "error" not in (given.folder / "slurm.log").read_text(), "no step is cancelled"


def test_steps_get_the_gpus_of_a_job_of_whole_nodes(rig: SlurmRig) -> None:
    given = submission(rig, "gpus")
    job = submitted(rig, SlurmConf(nodes=2, extra=[f"--exclude={rig.names[2]}"]), given)
    try:
        assert seen(rig, given, "drive", 0)["gpus"] == "0,1"
        assert seen(rig, given, "join", 1)["gpus"] == "0,1"
    finally:
        end(rig, given, job)


def test_steps_get_the_requested_gpus(rig: SlurmRig) -> None:
    given = submission(rig, "asked")
    job = submitted(rig, SlurmConf(nodes=2, exclusive=False, memory_per_node="1G", gpus_per_node="1"), given)
    try:
        assert seen(rig, given, "drive", 0)["gpus"] == "0"
    finally:
        end(rig, given, job)


def test_nodes_with_different_gpus_are_refused_with_the_fix(rig: SlurmRig) -> None:
    given = submission(rig, "mixed")
    submitted(rig, SlurmConf(nodes=3), given)
    log = given.folder / "slurm.log"

    wait_for(lambda: log.is_file() and "aiperf:" in log.read_text())

    assert "found: and gpu:fake:2. Set cluster.gpus_per_node" in log.read_text()
    assert not list(given.folder.glob("seen-*"))


def test_steps_keep_the_environment_under_export_none(rig: SlurmRig) -> None:
    given = submission(rig, "export")
    conf = SlurmConf(nodes=2, setup=["export OWN=kept"], extra=[f"--exclude={rig.names[2]}"])
    job = submitted(rig, conf, given, {"SBATCH_EXPORT": "NONE"})
    try:
        assert seen(rig, given, "drive", 0)["own"] == "kept"
        assert seen(rig, given, "join", 1)["own"] == "kept"
    finally:
        end(rig, given, job)


def test_a_run_folder_may_hold_blanks_and_percent_signs(rig: SlurmRig) -> None:
    given = submission(rig, 'my "run" 50%j')
    job = submitted(rig, SlurmConf(extra=["--comment=two words"]), given)
    try:
        seen(rig, given, "drive", 0)
        assert (given.folder / "slurm.log").is_file()
        assert "Comment=two words" in rig.ask("scontrol", "show", "job", job)
    finally:
        end(rig, given, job)


@pytest.mark.parametrize(
    "form",
    [["--gpus=4"], ["--gpus-per-task=1", "--ntasks=4"], ["--gpus-per-node=fake:2"], ["--gres=gpu:2"], ["--exclusive"]],
)
def test_steps_get_the_gpus_of_every_form_of_allocation(rig: SlurmRig, form: list[str]) -> None:
    given = submission(rig, form[0].strip("-").replace("=", "-").replace(":", "-"))
    (given.folder / "slurm.sh").write_text(batch_script(SlurmConf(), given))
    words = ["salloc", "--nodes=2", f"--exclude={rig.names[2]}", *form, "bash", str(given.folder / "slurm.sh")]

    process = subprocess.Popen(words, env=rig.environment)

    try:
        assert seen(rig, given, "drive", 0)["gpus"] == "0,1"
        assert seen(rig, given, "join", 1)["gpus"] == "0,1"
    finally:
        (given.folder / "over").touch()
        assert process.wait(60) == 0


def test_a_newer_releases_field_leaves_the_gpus(rig: SlurmRig) -> None:
    """23.11 and later print TresPerTask=cpu=N for --cpus-per-task."""
    given = submission(rig, "newer")
    (rig.folder / "newer").mkdir()
    scontrol = f'#!/bin/sh\n{shutil.which("scontrol")} "$@" | sed "/^JobId/s/ *$/ TresPerTask=cpu=1/"\n'
    (rig.folder / "newer/scontrol").write_text(scontrol)
    (rig.folder / "newer/scontrol").chmod(0o755)
    path = f"export PATH={rig.folder}/newer:$PATH"
    job = submitted(rig, SlurmConf(cpus_per_node=1, setup=[path], extra=[f"--exclude={rig.names[2]}"]), given)
    try:
        assert seen(rig, given, "drive", 0)["gpus"] == "0,1"
    finally:
        end(rig, given, job)


def test_the_last_task_of_an_array_requeues_itself_alone(rig: SlurmRig) -> None:
    for task in ("1", "2"):
        given = submission(rig, f"task-{task}")
        (given.folder / "slurm.sh").write_text(batch_script(SlurmConf(requeue=True), given))
    wrap = f"exec bash {rig.folder}/runs/task-$SLURM_ARRAY_TASK_ID/slurm.sh"
    words = [
        "--parsable",
        "--array=1-2",
        "--requeue",
        "--nodes=1",
        "--exclusive",
        "--output=/dev/null",
        f"--wrap={wrap}",
    ]
    job = rig.ask("sbatch", *words)
    wait_for(lambda: len(list((rig.folder / "runs").glob("task-*/seen-drive-*"))) == 2)

    rig.ask("scancel", "--batch", "--signal=USR1", f"{job}_2")
    (rig.folder / "runs/task-2/over").touch()  # the driver ends after the signal: a job that is over is not requeued

    wait_for(lambda: "Restarts=1" in rig.ask("scontrol", "show", "job", f"{job}_2"))
    assert "Restarts=0" in rig.ask("scontrol", "show", "job", f"{job}_1")
    rig.ask("scancel", job)
    wait_for(lambda: rig.ask("squeue", "--noheader") == "")


@pytest.mark.slow
def test_a_job_whose_gpus_are_not_seen_is_refused(rig: SlurmRig) -> None:
    """The fake GPUs of the rig have no driver. A job that selects none of them runs on processors."""

    def ended(*words: str) -> tuple[int, str]:
        options = ["schedule.duration_seconds=45", "schedule.warmup_seconds=10", *words]
        command = [
            sys.executable,
            "-m",
            "aiperf",
            "+cluster=slurm",
            f'cluster.extra=["--exclude={rig.names[2]}"]',
            *options,
        ]
        environment = rig.environment | {"PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(command, cwd=rig.folder, env=environment, capture_output=True, text=True, timeout=600)
        return done.returncode, done.stdout + done.stderr

    status, said = ended("name=unseen")

    assert status == 2, said
    (run,) = (rig.folder / "runs").glob("*-unseen")
    assert "the accelerators that its job owns, 2 on " in (run / "slurm.log").read_text()
    assert not (run / "journal.jsonl").exists(), "its clock has not started"

    _, said = ended("name=processors", 'cluster.setup=["export CUDA_VISIBLE_DEVICES="]')

    (run,) = (rig.folder / "runs").glob("*-processors")
    *_, last = read(run)  # a busy machine may finish no trial
    assert isinstance(last, RunEnded), said
    assert last.reason == "duration"


@pytest.mark.slow  # Slurm and the nodes wait before they give the first node up
def test_a_run_that_ends_on_a_cut_off_first_node_ends_its_job(rig: SlurmRig) -> None:
    given = submission(rig, "cut")
    job = submitted(rig, SlurmConf(nodes=2, extra=[f"--exclude={rig.names[2]}"]), given)
    seen(rig, given, "drive", 0)
    seen(rig, given, "join", 1)

    rig.hosts.cut(rig.names[0])
    try:
        (given.folder / "over").touch()
        wait_for(lambda: "CANCELLED" in rig.ask("scontrol", "show", "job", job))
    finally:
        rig.hosts.join(rig.names[0])
        wait_for(lambda: rig.ask("sinfo", "--noheader", "--states=idle", "--format=%D") == "3")
