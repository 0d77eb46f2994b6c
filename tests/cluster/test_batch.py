"""Messages for a user of a login node before a job runs. Slurm's programs are replaced here."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.cli import batch


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, on a machine that has bash's programs and no scheduler's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(batch, "LOOK_SECONDS", 0.01)
    (tmp_path / "bin").mkdir()
    return tmp_path


def offers(here: Path, program: str, script: str) -> None:
    """Put a stand-in into the command's PATH."""
    path = here / "bin" / program
    path.write_text(f"#!{shutil.which('sh', path=os.defpath)}\n{script}\n")
    path.chmod(0o700)


def test_without_slurm_the_command_is_refused_and_leaves_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["+cluster=slurm", "cluster.nodes=2"]) == 2

    assert "there is no sbatch here" in capsys.readouterr().err
    assert not list((here / "runs").iterdir())


def test_a_script_that_is_only_shown_has_its_outputs_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["+cluster=slurm", "cluster.submit=false"]) == 0

    said = capsys.readouterr().out
    assert said.startswith("#!/bin/bash\n#SBATCH --job-name=aiperf-")
    (run,) = (here / "runs").iterdir()
    assert f"#SBATCH --output={run}/slurm.log" in said
    assert not list(run.iterdir())


def test_manifests_that_are_only_shown_make_nothing(here: Path) -> None:
    assert main(["+cluster=kubernetes", "cluster.image=a", "cluster.submit=false"]) == 0

    assert not (here / "runs").exists()


def test_a_job_that_would_wait_for_ever_is_taken_back(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offers(here, "sbatch", "echo '7;east'")
    # the first answer after the submission knows no reason yet
    offers(
        here, "squeue", 'if [ -e asked ]; then echo "PENDING|BadConstraints|"; else : > asked; echo "PENDING|None|"; fi'
    )
    offers(here, "scancel", 'echo "$@" > cancelled')

    assert main(["+cluster=slurm", "cluster.constraint=none"]) == 2

    assert "can never start (BadConstraints)" in capsys.readouterr().err
    assert (here / "cancelled").read_text() == "--clusters=east 7\n"
    assert not list((here / "runs").iterdir())


def test_a_job_that_ended_before_its_run_names_its_log(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offers(here, "sbatch", "echo 7")
    offers(
        here,
        "squeue",
        'if [ -e asked ]; then echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; fi\n'
        ': > asked; echo "PENDING|None|"',
    )

    assert main(["+cluster=slurm"]) == 2

    (run,) = (here / "runs").iterdir()
    said = "job 7 ended before its run began. Correct the cause, and start it again. Its last output:"
    why = "which does not exist: runs= must lie on a file system that the nodes share"
    assert f"{said} {run / 'slurm.log'}, {why}" in capsys.readouterr().err


def test_invalid_options_are_refused_before_submission(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offers(here, "sbatch", "echo submitted > submitted")

    assert main(["+cluster=slurm", "cluster.nodes=0"]) == 2
    assert main(["+cluster=slurm", "seed=-1"]) == 2
    assert main(["+cluster=slurm", "executor=inline"]) == 2

    assert not (here / "submitted").exists()
    assert "cluster.nodes is between 1 and 1000000, but found 0" in capsys.readouterr().err
