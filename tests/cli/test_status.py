"""`python -m aiperf status`: how a run stands, from a journal that another process writes."""

import json
from pathlib import Path

import pytest

from aiperf.cli.status import lines
from aiperf.errors import NoSuchRun
from aiperf.units import flops_per_second

GOLDEN = Path(__file__).parents[1] / "golden"


def journal(tmp_path: Path, content: bytes) -> tuple[Path, float]:
    """A run's folder, and when its journal was last written."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(content)
    return tmp_path, path.stat().st_mtime


def test_a_run_that_is_over_is_told_with_its_score(tmp_path: Path) -> None:
    folder, written = journal(tmp_path, (GOLDEN / "resumed-v4.jsonl").read_bytes())
    score = json.loads((GOLDEN / "resumed-v4.score.json").read_text())

    first, figures, _ = lines(folder, written + 5.0)

    assert "ended (duration)" in first
    assert f"score {flops_per_second(score['flops_per_second'])} · " in figures


def test_a_run_that_goes_on_is_told_with_when_it_was_last_heard_of(tmp_path: Path) -> None:
    whole = (GOLDEN / "resumed-v4.jsonl").read_bytes().splitlines(keepends=True)
    folder, written = journal(tmp_path, b"".join(whole[:12]) + whole[12][:20])  # the driver is just writing a line

    first, _, workers = lines(folder, written + 5.0)

    assert "last heard of 5.0 s ago" in first
    assert "workers up" in workers


def test_a_run_of_which_not_one_line_stands_is_named(tmp_path: Path) -> None:
    folder, written = journal(tmp_path, b"")

    with pytest.raises(NoSuchRun, match="holds none"):
        list(lines(folder, written))
