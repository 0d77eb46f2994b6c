"""Real processes as the kernel reports them: with odd names, stopped, ended, and with changing threads."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiperf.system.host import cpu_features
from aiperf.system.processes import family, is_stopped, state, storage_reads, thread_states
from tests.rigs.processes import comes_true

TOP = Path(__file__).parents[2]
NOBODY = 1 << 22
"""No process has this number: the kernel's own bound of them (PID_MAX_LIMIT)."""


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", ["sleep", "a) T (b", ") Z 1", "R\n) D"])
def test_a_process_is_what_it_is_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = Path(shutil.copy(sleep, tmp_path / name))

    with running(str(program), "60") as process:
        assert comes_true(lambda: state(process.pid) == "S")
        assert not is_stopped(process.pid)
        assert thread_states(process.pid) == "S"
        process.send_signal(signal.SIGSTOP)
        assert comes_true(lambda: is_stopped(process.pid))
        assert thread_states(process.pid) == state(process.pid) == "T"
        process.send_signal(signal.SIGCONT)
        assert comes_true(lambda: state(process.pid) == "S")
        process.kill()
        assert comes_true(lambda: state(process.pid) == "Z"), "nobody has waited for it yet"
        process.wait()
        assert state(process.pid) == thread_states(process.pid) == ""


def test_of_one_who_is_gone_nothing_is_known() -> None:
    assert not is_stopped(NOBODY)
    assert state(NOBODY) == thread_states(NOBODY) == ""
    assert storage_reads(NOBODY) == ()
    assert list(family(NOBODY)) == [NOBODY]


RESTLESS = """
import threading, time

def computes():
    while True:
        pass

def comes_and_goes():
    while True:
        ended = threading.Thread(target=lambda: None)
        ended.start()
        ended.join()

for task in (computes, comes_and_goes, comes_and_goes):
    threading.Thread(target=task, daemon=True).start()
time.sleep(0.1)
print(flush=True)
input()
"""


def test_threads_that_end_while_they_are_looked_at_hide_no_other() -> None:
    with running(sys.executable, "-c", RESTLESS) as process:
        assert process.stdout is not None
        process.stdout.readline()

        looks = [thread_states(process.pid) for _ in range(1000)]

    assert min(map(len, looks)) >= 4, "the main thread and the three that last are always there"
    assert max(map(len, looks)) > 4, "no thread was caught between: this has tried nothing"


def test_a_thread_that_ended_between_two_looks_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiperf.system.processes._PROC", tmp_path)
    for thread, letter in ((5, "S"), (6, None), (7, "R")):
        folder = tmp_path / f"5/task/{thread}"
        folder.mkdir(parents=True)
        if letter is not None:
            (folder / "stat").write_text(f"{thread} (some (name) {letter} 1 1")
            (folder / "children").write_text("9 " if thread == 7 else "")

    assert sorted(thread_states(5)) == ["R", "S"]
    assert list(family(5)) == [5, 9]


def test_a_family_includes_children_of_every_thread() -> None:
    started_by_a_thread = """
import subprocess, threading
def start():
    print(subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"]).pid, flush=True)
    threading.Event().wait()
threading.Thread(target=start, daemon=True).start()
input()
"""
    with running(sys.executable, "-c", started_by_a_thread) as process:
        assert process.stdout is not None
        below = {int(process.stdout.readline()) for _ in range(2)}

        found = list(family(process.pid))

        for pid in below:
            os.kill(pid, signal.SIGKILL)
    assert found[0] == process.pid
    assert set(found[1:]) == below


def test_processor_features_are_read_on_linux_only(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(
        "processor\t: 0\nmodel name\t: bf16 fake\nFeatures\t: fp asimd bf16\nCPU part\t: 0xd49\n\nprocessor\t: 1\n"
    )

    assert cpu_features(tmp_path) == {"fp", "asimd", "bf16"}
    assert cpu_features(tmp_path / "none") == frozenset()


def test_proc_is_read_in_one_room_alone() -> None:
    packages = ("aiperf", "morphism", "searchers", "cluster")
    reading = {
        path.relative_to(TOP)
        for package in packages
        for path in (TOP / package).rglob("*.py")
        if '"/proc' in (text := path.read_text("utf-8")) or "/proc/[" in text
    }

    room = Path("aiperf/system")
    others = {path for path in reading if not path.is_relative_to(room)}
    assert room / "processes.py" in reading
    # the mark in an environment is below all packages, and bops has tables by processor
    assert others == {
        Path("aiperf/data/hostcache.py"),
        Path("aiperf/scratch.py"),
        Path("aiperf/bops/instructions.py"),
        Path("aiperf/bops/peak.py"),
    }
