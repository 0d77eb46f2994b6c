"""Run with a former driver that still lives.

For example after the first node of a job was cut off and the job was queued again.
"""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf.drive.session import require_free
from aiperf.errors import JournalInUse
from aiperf.journal.events import AnyEvent, EpochFinished, RunEnded, RunResumed
from aiperf.journal.journal import NAME, read
from tests.rigs.real_run import REPOSITORY, SMALL


def test_a_journal_is_waited_for_until_its_driver_ends(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    with (tmp_path / NAME).open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(JournalInUse, match="Another driver is writing"):
            require_free(tmp_path)
        threading.Timer(1.5, lambda: fcntl.flock(held, fcntl.LOCK_UN)).start()

        require_free(tmp_path, patience_seconds=60.0)


def driving(folder: Path) -> subprocess.Popen[bytes]:
    """As the batch script of a job of one node does it."""
    words = ["drive", str(folder), "+cluster=slurm", f"runs={folder.parent}", *SMALL, "schedule.duration_seconds=3600"]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "aiperf", *words], cwd=REPOSITORY, stdout=log, stderr=log, start_new_session=True
        )


def until(folder: Path, has_happened: Callable[[list[AnyEvent]], bool]) -> None:
    deadline = time.monotonic() + 400.0
    while not (folder / NAME).is_file() or not has_happened(list(read(folder))):
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.5)


@pytest.mark.slow
def test_a_new_driver_of_a_job_takes_the_run_over(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "taken"
    folder.mkdir(parents=True)
    former = driving(folder)
    until(folder, lambda events: any(isinstance(event, EpochFinished) for event in events))
    by_hand = subprocess.run(
        [sys.executable, "-m", "aiperf", f"resume={folder}"], cwd=REPOSITORY, capture_output=True, text=True
    )

    new = driving(folder)
    try:
        until(folder, lambda events: isinstance(events[-1], EpochFinished) and not is_one_driver(events))
        assert former.wait(60) in (0, 1), "it ends by itself, with whatever score"
        new.send_signal(signal.SIGINT)
        assert new.wait(120) in (0, 1)
    finally:
        former.kill()
        new.kill()

    assert by_hand.returncode == 2
    assert "end that run first" in by_hand.stderr
    ends = [event.reason for event in read(folder) if isinstance(event, RunEnded)]
    (resumed,) = [event for event in read(folder) if isinstance(event, RunResumed)]
    assert ends == ["interrupted", "interrupted"]
    assert resumed.rolled_back_lines == 0, "what the former driver wrote last is kept"


def is_one_driver(events: list[AnyEvent]) -> bool:
    return not any(isinstance(event, RunResumed) for event in events)
