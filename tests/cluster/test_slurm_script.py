"""Batch scripts are values: what they ask of Slurm, and that bash reads them as they are meant."""

import re
import shlex
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.__main__ import main
from cluster.place import HeadPlace, JobSubmission
from cluster.slurm import SlurmConf, batch_script, time_limit

SUBMISSION = JobSubmission(
    name="aiperf-20261122-120000-digits",
    folder=Path("/shared/runs/20261122-120000-digits"),
    words=["+cluster=slurm", "cluster.nodes=2"],
    seconds=180.0,
    python="/opt/aiperf/bin/python",
    directory=Path("/shared"),
)
TEXT = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=12)


def directives(script: str) -> list[str]:
    return re.findall(r"^#SBATCH --(.*)$", script, flags=re.MULTILINE)


def test_a_run_requests_whole_nodes_time_and_a_signal() -> None:
    asked = directives(batch_script(SlurmConf(nodes=8, partition="gpu", gpus_per_node="a100:8"), SUBMISSION))

    assert {"nodes=8", "partition=gpu", "gpus-per-node=a100:8", "exclusive", "mem=0", "no-kill"} <= set(asked)
    assert "time=0-00:33:00" in asked  # three minutes and the margin of thirty
    assert "signal=B:USR1@180" in asked
    assert "output=/shared/runs/20261122-120000-digits/slurm.log" in asked


def test_options_of_the_sites_own_are_handed_on() -> None:
    conf = SlurmConf(
        account="x", qos="high", constraint="a100&nvlink", extra=["--mail-type=END", "--reservation=bench"]
    )

    assert {"account=x", "qos=high", "constraint=a100&nvlink", "mail-type=END", "reservation=bench"} <= set(
        directives(batch_script(conf, SUBMISSION))
    )


def test_shared_nodes_are_requested_by_processors_and_memory() -> None:
    asked = directives(batch_script(SlurmConf(exclusive=False, cpus_per_node=16, memory_per_node="64G"), SUBMISSION))

    assert {"cpus-per-task=16", "mem=64G"} <= set(asked)
    assert "exclusive" not in asked


def test_lines_of_the_user_come_before_anything_runs() -> None:
    script = batch_script(SlurmConf(setup=["module load cuda/12.6", "ulimit -n 65536"]), SUBMISSION)

    lines = script.splitlines()
    first_step = next(at for at, line in enumerate(lines) if line.startswith("step "))
    for wanted in ("module load cuda/12.6 || exit", "ulimit -n 65536 || exit"):
        assert lines.index(wanted) < first_step


@pytest.mark.parametrize(
    ("runtime", "wanted"),
    [
        (
            "pyxis",
            "--container-image=image --container-mounts=/shared/runs:/shared/runs,/shared:/shared,/data:/data:ro "
            "--container-workdir=/shared $hide python -m aiperf join",
        ),
        (
            "apptainer",
            "apptainer exec --nv --bind /shared/runs:/shared/runs --bind /shared:/shared --bind /data:/data:ro "
            "--pwd /shared image python -m aiperf join",
        ),
    ],
)
def test_in_a_container_run_and_data_are_there(runtime: str, wanted: str) -> None:
    conf = SlurmConf(container="image", container_runtime=runtime, container_mounts=["/data:/data:ro"])

    script = batch_script(conf, SUBMISSION).replace("'", "")

    assert wanted in script


def test_only_a_job_with_requeue_is_queued_again() -> None:
    assert "scontrol requeue" not in batch_script(SlurmConf(), SUBMISSION)
    assert "no-requeue" in directives(batch_script(SlurmConf(), SUBMISSION))
    again = batch_script(SlurmConf(requeue=True), SUBMISSION)
    assert 'scontrol requeue "$job"' in again
    assert "requeue" in directives(again)


@given(folder=TEXT, word=TEXT, directory=TEXT)
def test_bash_hands_every_word_on_as_it_was_typed(folder: str, word: str, directory: str) -> None:
    """Run with an srun and scontrol that only record their arguments."""
    submission = replace(
        SUBMISSION,
        folder=Path("/shared") / folder.replace("/", "_").strip(". ") / "run",
        words=["+cluster=slurm", word],
        directory=Path("/"),
    )
    script = batch_script(SlurmConf(nodes=2), submission)
    with tempfile.TemporaryDirectory() as programs:
        for program, does in (("srun", 'printf "%s\\0" "$@"'), ("scontrol", "echo n1")):
            (Path(programs) / program).write_text(f"#!/bin/sh\n{does}\n")
            (Path(programs) / program).chmod(0o700)
        environment = {"PATH": f"{programs}:/usr/bin:/bin", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "n1"}
        done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env=environment)
    said = done.stdout.decode()

    given_words = said.split("\0")
    assert given_words[given_words.index("drive") + 1 : -1] == [str(submission.folder), "+cluster=slurm", word]


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (SlurmConf(nodes=2, fewest_nodes=3), "cluster.fewest_nodes is between 1 and cluster.nodes, 2, but found 3"),
        (SlurmConf(extra=["--time=3"]), "which the batch script does not set"),
        (SlurmConf(extra=["-N2"]), "long options"),
        (SlurmConf(extra=["--wait"]), "does not set, .* returns, but found '--wait'"),
        (SlurmConf(extra=["--test-only"]), "but found '--test-only'"),
    ],
)
def test_what_makes_no_job_is_refused(wrong: SlurmConf, law: str) -> None:
    with pytest.raises(ValueError, match=law):
        wrong.check()


def test_all_nodes_that_were_granted_are_waited_for() -> None:
    assert SlurmConf(nodes=4).place({"SLURM_JOB_NUM_NODES": "4"}) == HeadPlace(4, 4, 300.0)
    assert SlurmConf(nodes=4, fewest_nodes=3).place({"SLURM_JOB_NUM_NODES": "4"}) == HeadPlace(4, 3, 300.0)
    # an allocation that somebody else made, as with salloc
    assert SlurmConf().place({"SLURM_JOB_NUM_NODES": "2"}) == HeadPlace(2, 2, 300.0)


def test_an_allocation_of_another_size_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")

    assert main(["+cluster=slurm", "cluster.nodes=4"]) == 2

    assert "SLURM_JOB_NUM_NODES is 2, but found cluster.nodes=4. Leave cluster.nodes out" in capsys.readouterr().err


@given(st.floats(min_value=1.0, max_value=30 * 86400.0))
def test_a_time_limit_is_never_shorter_than_what_it_is_for(seconds: float) -> None:
    days, _, rest = time_limit(seconds).partition("-")
    hours, minutes, over = (int(part) for part in rest.split(":"))

    limit = ((int(days) * 24 + hours) * 60 + minutes) * 60 + over
    assert seconds <= limit < seconds + 60
    assert shlex.quote(time_limit(seconds)) == time_limit(seconds)


@pytest.mark.parametrize(
    ("requeue", "status", "first", "asked"),
    [
        (True, 3, "alloc*", "scontrol requeue 7"),
        (False, 3, "down*", "scancel 7"),
        (False, 3, "alloc", ""),
        (False, 3, "", ""),
        (True, 0, "down*", "scontrol requeue 7"),
        (False, 0, "down*", "scancel 7"),
        (False, 0, "alloc*", ""),
        (True, 2, "down*", ""),
        (False, 2, "down*", ""),
    ],
)
def test_nodes_end_the_job_of_a_lost_first_node(
    tmp_path: Path, requeue: bool, status: int, first: str, asked: str
) -> None:
    """`status` is that of `join`: 3 after the loss of the head.

    Slurm would keep the job without its script. A node that is cut off itself gets no answer from Slurm, and must not
    end the job.
    """
    programs = {
        "scontrol": 'echo scontrol "$@" > asked',
        "scancel": 'echo scancel "$@" > asked',
        "sinfo": f"echo '{first}'",
        "sleep": "[ ! -e slept ] && : > slept",  # one interval, then the script ends the step
    }
    for program, does in programs.items():
        (tmp_path / program).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / program).chmod(0o700)
    script = batch_script(SlurmConf(nodes=2, requeue=requeue), SUBMISSION)
    joined = re.search(r"^joined='[^']*'$", script, flags=re.MULTILINE)
    assert joined is not None

    done = subprocess.run(
        ["bash", "-c", f'{joined[0]}\nbash -c "$joined" join sh -c "exit {status}"'],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "job": "7", "first": "n1"},
        check=False,
    )

    assert done.returncode == (3 if asked else status)
    assert ((tmp_path / "asked").read_text().strip() if (tmp_path / "asked").exists() else "") == asked
    assert 'bash -c "$joined" join' in script
