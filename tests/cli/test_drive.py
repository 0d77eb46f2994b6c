"""`aiperf drive` as a job in a pod calls it, and `aiperf join` in the other pods."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.drive.ray.cluster.join_node import ParentConnection, _awaited
from aiperf.errors import NoSuchRun
from aiperf.journal.journal import NAME

GOLDEN = Path(__file__).parents[1] / "golden" / "resumed-v4.jsonl"


@pytest.fixture
def over(tmp_path: Path) -> Path:
    """Return the folder of a run that reached its declared time."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(GOLDEN, folder / NAME)
    return folder


def test_a_supervised_pod_of_a_finished_run_exits_with_0(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drive", str(over)]) == 2, "a user gets an error"
    assert main(["drive", "--supervised", str(over)]) == 0

    assert "is finished: its declared" in capsys.readouterr().out


@pytest.mark.parametrize("held", [None, "", "seed=1", '{"seed": 1}', "[1]"])
def test_options_that_are_no_json_list_are_refused(
    held: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPTIONS", raising=False)
    if held is not None:
        monkeypatch.setenv("OPTIONS", held)

    assert main(["drive", "--options-in", "OPTIONS", str(tmp_path / "run")]) == 2

    assert "OPTIONS has none: set it" in capsys.readouterr().err


def test_options_in_a_variable_equal_those_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPTIONS", json.dumps(["seed=-1"]))

    assert main(["drive", "--supervised", "--options-in", "OPTIONS", str(tmp_path / "a" / "run")]) == 2

    assert "seed is at least 0, but found -1" in capsys.readouterr().err
    assert (tmp_path / "a" / "run").is_dir(), (
        "created in the pod, since the submitting machine does not share its volume"
    )


def test_a_worker_waits_for_the_next_head_until_the_run_is_over(over: Path) -> None:
    assert _awaited(over, 0.0, ParentConnection(None), may_be_over=True) is None
    with pytest.raises(NoSuchRun):
        _awaited(over, 0.0, ParentConnection(None), may_be_over=False)  # before the first head: the run may continue

    lines = (over / NAME).read_bytes().splitlines(keepends=True)
    (over / NAME).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(NoSuchRun):
        _awaited(over, 0.0, ParentConnection(None), may_be_over=True)
