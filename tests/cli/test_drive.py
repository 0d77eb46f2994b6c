"""`aiperf drive` where a job in a pod calls it, and `aiperf join` in the pods beside it."""

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
    """The folder of a run whose declared time is over."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(GOLDEN, folder / NAME)
    return folder


def test_a_run_that_is_over_is_no_reason_to_start_its_pod_again(over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drive", str(over)]) == 2, "whoever types it is told"
    assert main(["drive", "--supervised", str(over)]) == 0

    assert "is finished: its declared" in capsys.readouterr().out


@pytest.mark.parametrize("held", [None, "", "seed=1", '{"seed": 1}', "[1]"])
def test_options_that_are_no_json_list_of_words_are_refused(
    held: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPTIONS", raising=False)
    if held is not None:
        monkeypatch.setenv("OPTIONS", held)

    assert main(["drive", "--options-in", "OPTIONS", str(tmp_path / "run")]) == 2

    assert "OPTIONS holds none" in capsys.readouterr().err


def test_options_of_the_environment_are_those_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPTIONS", json.dumps(["seed=-1"]))

    assert main(["drive", "--supervised", "--options-in", "OPTIONS", str(tmp_path / "a" / "run")]) == 2

    assert "seed is at least 0, but found -1" in capsys.readouterr().err
    assert (tmp_path / "a" / "run").is_dir(), "made in the pod, since whoever submitted it does not share its volume"


def test_a_worker_waits_for_the_next_head_until_the_run_is_over(over: Path) -> None:
    assert _awaited(over, 0.0, ParentConnection(None), may_be_over=True) is None
    with pytest.raises(NoSuchRun):
        _awaited(
            over, 0.0, ParentConnection(None), may_be_over=False
        )  # before the first head: it may be about to go on

    lines = (over / NAME).read_bytes().splitlines(keepends=True)
    (over / NAME).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(NoSuchRun):
        _awaited(over, 0.0, ParentConnection(None), may_be_over=True)
