"""`python -m aiperf export`: its output and its errors. A failed export leaves no files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.builders.run import recorded
from tests.rigs.user import User


def test_export_writes_a_new_folder_and_prints_how_to_open_it(aiperf: User, tmp_path: Path) -> None:
    recorded(tmp_path / "runs" / "one", "resumed-v5")

    answer = aiperf("export", "one", "--to", "optuna")
    again = aiperf("export", "one", "--to", "optuna")
    elsewhere = aiperf("export", "one", "--to", "csv", "--out", "tables")

    assert (answer.status, again.status, elsewhere.status) == (0, 2, 0)
    assert "optuna-dashboard runs/one/export/optuna/optuna-journal.log" in answer.out
    assert "'runs/one/export/optuna' exists" in again.err
    assert "--out DIR" in again.err
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == [
        "README.md",
        "epochs.csv",
        "intervals.csv",
        "run.csv",
        "telemetry.csv",
        "trials.csv",
        "workers.csv",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("one", "--to", "tensorbord"), "did you mean 'tensorboard'?"),
        (("one", "--to", "excel"), "tensorboard, mlflow, optuna, csv, but found 'excel'"),
        (("none", "--to", "csv"), "the folder of a run must contain a journal.jsonl"),
        (("one",), "--to"),
        (("one", "--to", "csv", "--out", "file/below"), "could not be written (File exists)"),
        (("one", "--to", "csv", "--out", "file"), "'file' exists"),
    ],
)
def test_an_impossible_export_is_refused_with_the_fix(
    aiperf: User, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    recorded(tmp_path / "runs" / "one", "resumed-v4")
    (tmp_path / "file").touch()

    answer = aiperf("export", *words)

    assert answer.status == 2
    assert message in answer.err
    assert not list(tmp_path.glob(".*"))


def test_without_tensorboard_the_message_has_the_fix(
    aiperf: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "runs" / "one", "resumed-v4")
    monkeypatch.delitem(sys.modules, "aiperf.export.tensorboard_files", raising=False)
    monkeypatch.delattr("aiperf.export.tensorboard_files", raising=False)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)

    answer = aiperf("export", "one", "--to", "tensorboard", "--out", "out")

    assert answer.status == 2
    assert "pip install aiperf-cluster[tensorboard]" in answer.err
    assert not (tmp_path / "out").exists()


def test_a_damaged_journal_leaves_no_half_export(aiperf: User, tmp_path: Path) -> None:
    run = recorded(tmp_path / "runs" / "one", "resumed-v4")
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (run / "journal.jsonl").unlink()
    (run / "journal.jsonl").write_bytes(b"".join([*lines[:20], lines[20].replace(b"1", b"2", 1), *lines[21:]]))

    answer = aiperf("export", "one", "--to", "csv", "--out", "out")

    assert answer.status == 2
    assert "journal damaged at line 21" in answer.err
    assert not list(tmp_path.glob("*out*")) and not list(tmp_path.glob(".out*"))
