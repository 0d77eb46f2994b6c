"""Signals end the program at any moment. Its reader processes end silently."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rigs.processes import comes_true

ASK = """
import os, signal, time
from aiperf import __main__
def ask():
    os.kill(os.getpid(), signal.SIGINT)
"""
IN_A_FINALISER = """
class Dying:
    def __del__(self):
        ask()
        for _ in range(1000): pass
def main():
    Dying()
    time.sleep(60)
"""
SWALLOWED = """
def main():
    try:
        ask()
        time.sleep(60)
    except: pass
    return 0
"""
BEFORE_IT_CAN_ANSWER = """
def main():
    ask()
    time.sleep(60)
"""
AT_THE_EXIT = """
import atexit
@atexit.register
def last():
    ask()
    time.sleep(60)
def main():
    print("all of it", end="")
    return 0
"""
POOL = """
import multiprocessing, signal, time
from aiperf import __main__
from aiperf.reader_processes import interrupts_held, side_processes
def main():
    with side_processes(2) as pool:
        with interrupts_held():
            work = [pool.submit(time.sleep, 60) for _ in range(4)]
        is_busy = BUSY  # in a library that lets no signal through
        if is_busy:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        print("begun", flush=True)
        if is_busy:
            deadline = time.monotonic() + 30
            while multiprocessing.active_children() and time.monotonic() < deadline:
                time.sleep(0.01)
            print(f"{len(multiprocessing.active_children())} are left", flush=True)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        [each.result() for each in work]
if __name__ == "__main__":
    __main__.main = main
    __main__.script()
"""


@pytest.mark.parametrize("program", [IN_A_FINALISER, SWALLOWED, BEFORE_IT_CAN_ANSWER, AT_THE_EXIT])
def test_a_signal_during_finalization_is_handled_later(program: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", ASK + program + "\n__main__.main = main\n__main__.script()"],
        capture_output=True,
        text=True,
        timeout=50,
    )

    assert answer.returncode == 130, answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ("all of it" if program is AT_THE_EXIT else "")


@pytest.mark.parametrize("delay", [0.0, pytest.param(0.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("is_busy", "ask"),
    [
        pytest.param(True, os.killpg, id="typed at a terminal"),
        pytest.param(False, os.kill, id="sent to the one process", marks=pytest.mark.slow),
    ],
)
def test_helper_processes_end_at_once_without_output(
    is_busy: bool, ask: Callable[[int, int], None], delay: float, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(POOL.replace("BUSY", str(is_busy)))
    with subprocess.Popen(
        [sys.executable, tmp_path / "program.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(delay)
        ask(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=50)

    assert process.returncode == 130, errors
    assert out == ("0 are left\n" if is_busy else "")
    assert errors == "aiperf: ended by SIGINT\n"
    assert comes_true(lambda: not _has_process(process.pid), 10.0)


def _has_process(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
