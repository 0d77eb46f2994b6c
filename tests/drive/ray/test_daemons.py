"""A run whose Ray is lost ends as an error that says how to go on, with its report, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiperf.drive.ray import daemons
from aiperf.drive.ray.daemons import Runtime
from aiperf.errors import RuntimeLost
from aiperf.journal.events import AnyEvent, EpochFinished, RunEnded, RunResumed, WorkerJoined, WorkerLost
from aiperf.scratch import MARK
from tests.drive.census import Census
from tests.drive.processes import command_line, descendants
from tests.drive.runs import SMALL, RealRun


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """One that stands for Ray's raylet."""
    with subprocess.Popen(["sleep", "600"]) as one:
        yield one
        one.kill()


def test_a_process_that_is_killed_is_named_with_its_signal(process: subprocess.Popen[bytes]) -> None:
    watching = Runtime({"raylet": process})
    watching.check()

    process.kill()
    process.wait()

    with pytest.raises(RuntimeLost, match=rf"raylet.*process {process.pid}.*SIGKILL"):
        watching.check()
    assert watching.is_lost


def test_a_process_that_stays_stopped_is_lost_and_one_that_goes_on_is_not(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "STOPPED_SECONDS", 0.5)
    watching = Runtime({"gcs_server": process})
    for _ in range(2):
        process.send_signal(signal.SIGSTOP)
        watching.check()
        process.send_signal(signal.SIGCONT)
        time.sleep(0.6)
        watching.check()
    assert not watching.is_lost

    process.send_signal(signal.SIGSTOP)

    with pytest.raises(RuntimeLost, match=r"gcs server.*stopped"):
        while True:
            watching.check()
            time.sleep(0.05)


def test_a_call_that_would_wait_for_a_lost_process_for_ever_does_not(process: subprocess.Popen[bytes]) -> None:
    watching = Runtime({"gcs_server": process})

    def ask() -> None:
        process.kill()
        time.sleep(600)

    with pytest.raises(RuntimeLost):
        watching.asked(ask)
    other = Runtime({})
    assert other.asked(lambda: 7) == 7 and other.asked(lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        other.asked(lambda: 1 / 0)


Begin = Callable[..., RealRun]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begins a real run."""
    begun: list[RealRun] = []

    def run(*words: str) -> RealRun:
        begun.append(RealRun(tmp_path, *words))
        return begun[-1]

    yield run
    for one in begun:
        one.end()


def epochs(count: int) -> Callable[[list[AnyEvent]], bool]:
    return lambda events: sum(isinstance(event, EpochFinished) for event in events) >= count


def one_of(run: RealRun, start: bytes, name: str = "") -> int:
    """A process of a run by what its command line begins with, or holds."""
    return next(
        pid
        for pid in descendants(run.process.pid)
        if command_line(pid).startswith(start) and name.encode() in command_line(pid)
    )


def left_of(mark: bytes) -> list[bytes]:
    """Command lines of the processes of a run that still live, by the mark in their environment."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in file.read_bytes().split(b"\0"):
                found.append(command_line(int(file.parent.name)))
        except OSError:
            continue
    return found


def mark_of(run: RealRun) -> bytes:
    rank = one_of(run, sys.executable.encode(), "aiperf.train.ranks.rank")
    environment = Path(f"/proc/{rank}/environ").read_bytes().split(b"\0")
    return next(entry for entry in environment if entry.startswith(f"{MARK}=".encode()))


def wait_until_gone(pid: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} is still there: {Path(f'/proc/{pid}/stat').read_text()}"
        time.sleep(0.05)


def assert_nothing_left(mark: bytes) -> None:
    folder = Path(mark.decode().partition("=")[2])
    deadline = time.monotonic() + 60
    while (left_of(mark) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_of(mark) == []
    assert not folder.exists()


@pytest.mark.parametrize(
    ("victim", "strike"),
    [
        pytest.param("gcs_server", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("gcs_server", signal.SIGSTOP, marks=pytest.mark.slow),
        pytest.param("raylet", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("raylet", signal.SIGSTOP, marks=pytest.mark.slow),
    ],
)
def test_a_run_whose_ray_is_lost_ends_with_a_report_and_the_way_to_go_on(
    begin: Begin, victim: str, strike: signal.Signals
) -> None:
    run = begin(*SMALL, "schedule.duration_seconds=600")
    run.until(epochs(2))
    mark = mark_of(run)
    lost = next(
        pid for pid in descendants(run.process.pid) if command_line(pid).partition(b"\0")[0].endswith(victim.encode())
    )

    os.kill(lost, strike)
    status = run.wait()

    said = run.output.read_text()
    assert status == 2, said
    assert f"resume={run.folder}" in said.splitlines()[-1]
    assert f"(process {lost})" in said and "Traceback" not in said and "state-dump" not in said
    assert (run.folder / "report.html").stat().st_size > 0
    assert not any(isinstance(event, RunEnded) for event in run.events())
    assert_nothing_left(mark)
    if (victim, strike) != ("raylet", signal.SIGKILL):
        return  # one of the four is taken up again
    again = begin(f"resume={run.folder}")
    again.until(lambda events: any(isinstance(event, RunResumed) for event in events) and epochs(3)(events))
    assert again.interrupt() == 0, again.output.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("strike", [signal.SIGKILL, signal.SIGSTOP])
def test_a_run_goes_on_through_the_loss_of_its_mailbox(begin: Begin, strike: signal.Signals) -> None:
    run = begin(*SMALL, "schedule.duration_seconds=60")
    for count in (2, 5):
        run.until(epochs(count))
        os.kill(one_of(run, b"ray::Mailbox"), strike)

    assert run.wait() == 0, run.output.read_text()

    events = run.events()
    assert isinstance(events[-1], RunEnded) and events[-1].reason == "duration"
    assert sum(isinstance(event, WorkerJoined) for event in events) == 1
    assert not any(isinstance(event, WorkerLost) for event in events)


def test_a_killed_driver_leaves_nothing_behind(begin: Begin) -> None:
    run = begin(*SMALL, "schedule.duration_seconds=600")
    run.until(epochs(1))
    mark = mark_of(run)
    host = one_of(run, b"ray::WorkerHost")
    rank = one_of(run, sys.executable.encode(), "aiperf.train.ranks.rank")
    folder = mark.decode().partition("=")[2]
    assert re.search(rf"{folder}/\S+/heartbeats$", Path(f"/proc/{rank}/maps").read_text(), re.MULTILINE), (
        "it goes with the run's"
    )
    os.kill(host, signal.SIGSTOP)  # one that would not notice

    run.kill()

    assert_nothing_left(mark)
    # a process that has ended shows no mark any more, and is there until whoever inherited it has reaped it
    wait_until_gone(host, seconds=30.0)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["GCS_SERVER_EXECUTABLE", "RAYLET_EXECUTABLE"])
def test_a_ray_that_does_not_come_up_is_an_error_with_its_remedy_and_leaves_nothing(
    program: str, tmp_path: Path
) -> None:
    # Ray waits 30 s for the program that has ended already
    code = (
        "from ray._private import services\n"
        f"services.{program} = '/bin/false'\n"
        "from aiperf.__main__ import main\n"
        f"raise SystemExit(main(['runs={tmp_path}']))\n"
    )
    with (
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as run,
        Census(run.pid) as census,
    ):
        said = run.communicate()[1]

    assert run.returncode == 2
    assert said.startswith("aiperf: a run needs Ray on this machine, and it did not come up: "), said
    assert not list(tmp_path.iterdir())
    assert not census.left_over(10.0)
