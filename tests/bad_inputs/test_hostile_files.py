"""Each hostile file of each verb gives one message and a status, without a traceback, a hang or gigabytes.

The fast tests call the command line in this process. The slow tests execute commands in processes with limited memory: a fork
for each kind of file with an expensive verb, a new interpreter for each verb with the kinds that stop a process.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from aiperf.__main__ import main
from tests.bad_inputs.hostile_files import ACCEPTED, FILES, KINDS, RUNS, place
from tests.bad_inputs.lines import BadInput
from tests.bad_inputs.test_bad_inputs import WHOLE, Server, server

__all__ = ["server"]
HANGS_AFTER_SECONDS = 60
SLOW = {
    "announce --key", "announce --log", "follow=", "inspect", "predict=", "prepare, record of weather", "quality", "rank",
    "rank --announcements", "score, form of a meter", "resume=", "start=", "submit --key", "system.file=", "verify",
}  # fmt: skip
"""Rows that plan a run, read many journals or load torch for each file."""
SLOWEST = {"prepare, record of weather", "quality", "submit --key"}
"""Rows of several seconds for each file. Other rows have their readers: `predict=`, `check` and `announce --key`."""
AS_PROCESSES = ("a FIFO", "a device", "100,000 brackets", "a line of 2 GB")
"""Kinds that each row also meets in a new interpreter: they would hang it, or need much memory or a deep stack."""


@pytest.mark.parametrize("row", [row for row in FILES | RUNS if row not in SLOW])
def test_a_hostile_file_gives_one_message(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, kind in enumerate(kind for kind in KINDS if (row, kind) not in ACCEPTED):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = place(folder, row, kind)
        monkeypatch.chdir(folder)
        before = signal.alarm(HANGS_AFTER_SECONDS)  # its action ends the test run, as a hang would

        status = main(words)

        signal.alarm(before)
        output, message = capsys.readouterr()
        is_finding = row.startswith("inspect") and status == 1 and "BAD" in output
        is_error = status in (1, 2) and message.startswith("aiperf: ") and message.count("\n") == 1
        assert is_finding or is_error, (kind, status, message)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (row, kind)
        for row in FILES | RUNS
        for kind in KINDS
        if (kind in AS_PROCESSES or row in SLOW - SLOWEST) and (row, kind) not in ACCEPTED
    ],
)
def test_a_hostile_file_ends_a_process_in_words(server: Server, tmp_path: Path, row: str, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    words = place(tmp_path / "folder", row, kind)

    answer = server.answer(BadInput(row, tuple(words), ()), tmp_path, WHOLE if kind in AS_PROCESSES else None)

    assert answer.status in (1, 2) and "Traceback" not in answer.output and not answer.left, answer
