"""A driver in a pod that is moved to another node: SIGTERM, and the same command again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from aiperf.journal.events import AnyEvent, EpochFinished, RunResumed
from aiperf.journal.journal import NAME, read
from tests.rigs.real_run import REPOSITORY, small

PATIENCE_SECONDS = 300.0


def until(folder: Path, happened: Callable[[list[AnyEvent]], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not ((folder / NAME).exists() and (folder / NAME).stat().st_size and happened(list(read(folder)))):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def epochs(events: list[AnyEvent]) -> int:
    return sum(isinstance(event, EpochFinished) for event in events)


def test_a_terminated_pod_fails_and_its_successor_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "pod"
    options = small("executor=inline", "schedule.duration_seconds=600", "trainer.ranks=1", "trainer.threads=1")
    command = [sys.executable, "-m", "aiperf", "drive", "--supervised", str(folder), *options]

    with subprocess.Popen(command, cwd=REPOSITORY) as pod:
        until(folder, lambda events: epochs(events) > 0)
        pod.send_signal(signal.SIGTERM)
        assert pod.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    before = epochs(list(read(folder)))
    with subprocess.Popen(command, cwd=REPOSITORY) as successor:
        until(folder, lambda events: epochs(events) > before)
        (folder / "end-requested").touch()
        assert successor.wait(PATIENCE_SECONDS) == 0

    assert any(isinstance(event, RunResumed) for event in read(folder))
