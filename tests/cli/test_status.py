"""`python -m aiperf status`: state of a run from a journal that another process writes."""

import json
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.cli.batch import JOB
from aiperf.cli.verbs.runs.status import lines, status_of
from aiperf.errors import BadConfiguration, NoSuchRun
from aiperf.units import flops_per_second

GOLDEN = Path(__file__).parents[1] / "golden"


def journal(tmp_path: Path, content: bytes) -> tuple[Path, float]:
    """A run's folder, and when its journal was last written."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content)
    return tmp_path, path.stat().st_mtime


def test_status_of_a_finished_run_has_its_score(tmp_path: Path) -> None:
    folder, written = journal(tmp_path, (GOLDEN / "resumed-v4.jsonl").read_bytes())
    score = json.loads((GOLDEN / "resumed-v4.score.json").read_text())

    first, figures, *_ = lines(status_of(folder, written + 5.0))

    assert "ended (duration)" in first
    assert f"score {flops_per_second(score['flops_per_second'])} · " in figures


def test_status_prints_the_age_of_the_last_journal_line(tmp_path: Path) -> None:
    whole = (GOLDEN / "resumed-v4.jsonl").read_bytes().splitlines(keepends=True)
    folder, written = journal(tmp_path, b"".join(whole[:12]) + whole[12][:20])  # the driver is just writing a line

    first, _, workers, *_ = lines(status_of(folder, written + 5.0))

    assert "journal written 5.0 s ago" in first
    assert "workers up" in workers


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"kind": "slurm", "job": ' + b"9" * 400 + b"}",
        b"\xff\xfe",
        b"{}",
        b'{"kind": ["x"], "job": "1"}',
    ],
    ids=["100,000 brackets", "400 digits", "no text", "no job", "a list"],
)
def test_a_damaged_job_file_is_refused_with_its_fix(tmp_path: Path, content: bytes) -> None:
    folder, written = journal(tmp_path, (GOLDEN / "resumed-v4.jsonl").read_bytes())
    (folder / JOB).write_bytes(content)

    with pytest.raises(BadConfiguration, match=r"job\.json holds the kind .*: remove it"):
        list(lines(status_of(folder, written)))


def test_status_prints_job_driver_pauses_and_lost_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, written = journal(tmp_path, (GOLDEN / "resumed-v4.jsonl").read_bytes())
    (folder / JOB).write_text('{"kind": "slurm", "job": "17"}')
    kept = [json.loads(line) for line in (GOLDEN / "resumed-v4.jsonl").read_text().splitlines()]
    resumed = [line for line in kept if line.get("type", line.get("event")) == "RunResumed" or "down_seconds" in line]

    outputs = "\n".join(lines(status_of(folder, written + 5.0)))
    assert main(["status", "--json", str(folder)]) == 0
    found = json.loads(capsys.readouterr().out)

    assert found["job"] == {"kind": "slurm", "job": "17"}
    assert "job 17 of slurm" in outputs
    assert found["view"]["window_flops_per_second"] == found["view"]["score"]["flops_per_second"] is not None
    assert found["resumes"] == len(resumed) > 0
    assert found["down_seconds"] == pytest.approx(sum(line["down_seconds"] for line in resumed))
    assert f"resumed {found['resumes']} times" in outputs
    assert found["driver_host"] == resumed[-1]["machine"]["host"]
    assert f"driver on {found['driver_host']}" in outputs
    assert len(found["lost"]) == min(3, found["view"]["workers_lost"])


def test_a_run_without_a_complete_line_is_named(tmp_path: Path) -> None:
    folder, written = journal(tmp_path, b"")

    with pytest.raises(NoSuchRun, match="empty"):
        list(lines(status_of(folder, written)))
