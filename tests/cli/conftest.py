"""A user at an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiperf.__main__ import main
from tests.rigs.user import Answer, User


@pytest.fixture
def aiperf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    """`aiperf("flops", "resnet20")`: its exit status and what it printed. The working folder is `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("aiperf.progress.FIRST_SECONDS", 600.0)  # on a loaded machine any verb takes long

    def type_words(*words: str) -> Answer:
        try:
            status = main(words)
        except SystemExit as left:  # argparse leaves so
            status = left.code if isinstance(left.code, int) else 1
        message = capsys.readouterr()
        return Answer(status, message.out, message.err)

    return type_words
