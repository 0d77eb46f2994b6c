"""Standard streams that are closed, and paths that are empty: no traceback, and no file in another's place."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.slurm import SlurmConf
from tests.builders.journal import joined, started
from tests.builders.report_journal import Shape, invented
from tests.rigs.user import User, write_run


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["--version", "score young", "report young --out shown", "score nowhere"])
def test_a_closed_stream_gives_no_traceback(tmp_path: Path, closed: str, words: str) -> None:
    write_run(tmp_path / "runs" / "young", [started(), joined()])

    command = f"{shlex.quote(sys.executable)} -m aiperf {words} {closed}"
    answer = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)

    assert "Traceback" not in answer.stderr and "Exception" not in answer.stderr
    assert answer.returncode == {"--version": 0, "score young": 1, "score nowhere": 2}.get(words, 0)
    assert (tmp_path / "shown" / "report.html").is_file() == words.startswith("report")


@pytest.mark.parametrize("verb", ["report young --out", "rank young --out", "export young --to csv --out"])
def test_an_empty_path_is_refused_by_verbs(aiperf: User, tmp_path: Path, verb: str) -> None:
    write_run(tmp_path / "runs" / "young", [started(), joined()])

    answer = aiperf(*verb.split(), "")

    assert answer.status == 2 and "must not be empty, but found --out ''" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_job_id_alone_is_no_allocation(tmp_path: Path) -> None:
    """SLURM_JOB_ID may be set in a shell outside of Slurm, and a node list where no scontrol is installed."""
    slurm = SlurmConf()
    inside = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "PATH": str(tmp_path)}
    (tmp_path / "scontrol").touch(0o755)

    assert slurm.is_allocated(inside)
    assert not slurm.is_allocated({"SLURM_JOB_ID": "7", "PATH": str(tmp_path)})
    assert not slurm.is_allocated(inside | {"PATH": "/nowhere"})


def test_a_telemetry_folder_that_cannot_be_read_is_a_warning(aiperf: User, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "runs" / "one", invented(Shape(duration=60.0, warmup=10.0)))
    (folder / "telemetry").write_text("no folder")

    assert "telemetry damaged: telemetry left out of every figure (it cannot be read" in aiperf("score", "one").out
