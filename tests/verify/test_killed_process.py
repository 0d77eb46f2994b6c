"""A side process that the kernel or a user kills is an error in words."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from aiperf.__main__ import main
from aiperf.verify import verification
from tests.builders.listed_runs import golden


def killed(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_of_verify_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verification, "LONG", 0)
    monkeypatch.setattr(verification, "follow", killed)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    assert main(["verify", str(golden(tmp_path / "run", "resumed-v5"))]) == 2
    assert capsys.readouterr().err.startswith(
        "aiperf: each process of a command must run to its end, but one was killed"
    )
