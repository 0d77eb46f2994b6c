"""A run whose Ray is lost ends as an error with a report and the command to resume, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray._private import worker

from aiperf.drive.ray.cluster import daemons
from aiperf.drive.ray.cluster.daemons import Runtime
from aiperf.drive.ray.cluster.started_ray import local_ray
from aiperf.errors import RuntimeLost
from aiperf.journal.events import AnyEvent, EpochFinished, RunEnded, RunResumed
from aiperf.system.processes import family, state
from tests.rigs.processes import Census, command_line, descendants
from tests.rigs.real_run import CTRL_C, SMALL, Begin, Left, RealRun, left_behind, mark_of


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Process in place of Ray's raylet."""
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


def test_a_process_that_stays_stopped_is_lost(
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


def test_a_call_does_not_wait_without_end_for_a_lost_process(process: subprocess.Popen[bytes]) -> None:
    watching = Runtime({"gcs_server": process})

    def ask() -> None:
        process.kill()
        time.sleep(600)

    with pytest.raises(RuntimeLost):
        watching.call(ask, "a question")
    other = Runtime({})
    assert other.call(lambda: 7, "one") == 7 and other.call(lambda: None, "none") is None
    with pytest.raises(ZeroDivisionError):
        other.call(lambda: 1 / 0, "a sum")


def test_a_call_that_an_existing_ray_never_answers_has_a_limit() -> None:
    with pytest.raises(RuntimeLost, match=r"asking for 3 workers got no answer from it for 0 s"):
        Runtime({}).call(threading.Event().wait, "asking for 3 workers", limit_seconds=0.4)


@pytest.mark.slow
def test_nothing_of_rays_outlives_a_lost_gcs() -> None:
    """Ray's two agents would continue for 43 s."""
    with local_ray():
        node: Any = worker._global_node
        raylet, gcs = (node.all_processes[name][0].process for name in ("raylet", "gcs_server"))
        deadline = time.monotonic() + 60.0
        while len(pids := list(family(raylet.pid))) < 3:
            assert time.monotonic() < deadline, "its agents are its children"
            time.sleep(0.1)
        runtime = Runtime.of_this_process()
        gcs.kill()
        gcs.wait()

        runtime.kill_if_lost()

        deadline = time.monotonic() + 5.0
        while any(state(pid) not in ("", "Z") for pid in pids):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def epochs(count: int) -> Callable[[list[AnyEvent]], bool]:
    return lambda events: sum(isinstance(event, EpochFinished) for event in events) >= count


def one_of(run: RealRun, start: bytes, name: str = "") -> int:
    """A process of a run by what its command line begins with, or holds."""
    return next(
        pid
        for pid in descendants(run.process.pid)
        if command_line(pid).startswith(start) and name.encode() in command_line(pid)
    )


@pytest.mark.parametrize(
    ("victim", "strike"),
    [
        pytest.param("gcs_server", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("gcs_server", signal.SIGSTOP, marks=pytest.mark.slow),
        pytest.param("raylet", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("raylet", signal.SIGSTOP, marks=pytest.mark.slow),
    ],
)
def test_a_run_whose_ray_is_lost_ends_with_a_report(begin: Begin, victim: str, strike: signal.Signals) -> None:
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
    assert left_behind(mark) == Left()
    if (victim, strike) != ("raylet", signal.SIGKILL):
        return  # one of the four is resumed
    again = begin(f"resume={run.folder}")
    again.until(lambda events: any(isinstance(event, RunResumed) for event in events) and epochs(3)(events))
    assert again.interrupt() == CTRL_C, again.output.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("strike", [signal.SIGKILL, signal.SIGSTOP])
def test_a_run_ends_with_its_mailbox_and_can_be_resumed(begin: Begin, strike: signal.Signals) -> None:
    run = begin(*SMALL, "schedule.duration_seconds=7200")
    run.until(epochs(2))
    mark = mark_of(run)

    os.kill(one_of(run, b"ray::Mailbox"), strike)
    status = run.wait()

    said = run.output.read_text()
    assert status == 2, said
    assert "a run needs its mailbox" in said and f"resume={run.folder}" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert left_behind(mark) == Left()


@pytest.mark.slow
@pytest.mark.parametrize("program", ["GCS_SERVER_EXECUTABLE", "RAYLET_EXECUTABLE"])
def test_a_ray_that_does_not_start_is_an_error_with_a_remedy(program: str, tmp_path: Path) -> None:
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
    assert not census.left_over(300.0)
