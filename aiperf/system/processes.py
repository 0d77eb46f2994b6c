"""Processes of this host as the kernel describes them (proc(5)). Linux only.

A process that has ended gives an empty result, never an error: any process may end between two reads.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_STATE = 0
_PARENT = 1
_FLAGS = 6
_MAJOR_FAULTS = 9
_USER_TICKS = 11
_SYSTEM_TICKS = 12
_CHILDREN_USER_TICKS = 13
_CHILDREN_SYSTEM_TICKS = 14
_STARTED = 19
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, linux/sched.h


@dataclass(frozen=True, slots=True)
class Process:
    """State of one process at one time. Times are in clock ticks."""

    pid: int
    parent: int
    started: int
    ticks: int
    """Processor time of all its threads, user and system."""
    children_ticks: int
    """Processor time of its ended descendants for which it has waited."""
    is_kernel_thread: bool


def everybody(proc: Path = _PROC) -> dict[int, Process]:
    processes: dict[int, Process] = {}
    for name in os.listdir(proc):  # noqa: PTH208  # only names are needed
        if not name.isdecimal() or (fields := _stat(proc / name / "stat")) is None:
            continue
        of = [int(word) for word in fields[_PARENT : _STARTED + 1]]
        processes[int(name)] = Process(
            pid=int(name),
            parent=of[0],
            started=of[_STARTED - _PARENT],
            ticks=of[_USER_TICKS - _PARENT] + of[_SYSTEM_TICKS - _PARENT],
            children_ticks=of[_CHILDREN_USER_TICKS - _PARENT] + of[_CHILDREN_SYSTEM_TICKS - _PARENT],
            is_kernel_thread=bool(of[_FLAGS - _PARENT] & _KERNEL_THREAD),
        )
    return processes


def command(pid: int, proc: Path = _PROC) -> list[str]:
    return (_text(proc / str(pid) / "cmdline") or "").split("\0")[:-1]


def name(pid: int, proc: Path = _PROC) -> str:
    """Return the program's name, at most 15 characters. '' if the process has ended."""
    return (_text(proc / str(pid) / "comm") or "").strip()


def process_space(proc: Path = _PROC) -> str | None:
    """Return the PID namespace of this process, such as 'pid:[4026531836]'. None if the kernel does not report it."""
    try:
        return str((proc / "self/ns/pid").readlink())
    except OSError:
        return None


def state(pid: int) -> str:
    """Return the kernel's state letter, such as 'R', 'S' or 'D'. '' if the process has ended."""
    return _letter(_PROC / str(pid) / "stat")


def is_stopped(pid: int) -> bool:
    return state(pid) in ("T", "t")


def thread_states(pid: int) -> str:
    """Return the state letters of all threads as one text. '' if the process has ended."""
    return "".join(_letter(thread / "stat") for thread in _threads(pid))


def family(pid: int) -> Iterator[int]:
    yield pid
    for thread in _threads(pid):
        for child in (_text(thread / "children") or "").split():
            yield from family(int(child))


def storage_reads(pid: int) -> tuple[str, ...]:
    """Two texts that change with each read of storage: read bytes, major page faults. Empty for an ended or foreign process."""
    counts, stat = _text(_PROC / str(pid) / "io"), _stat(_PROC / str(pid) / "stat")
    if counts is None or stat is None:
        return ()
    return (*(line for line in counts.splitlines() if line.startswith("read_bytes")), stat[_MAJOR_FAULTS])


def signal_at_end_of_parent(number: int) -> None:
    """Let the kernel signal this process when the thread that started it ends (prctl(2)). No effect except on Linux."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def threads_that_never_waited() -> set[int]:
    return {
        int(thread.name)
        for thread in _threads(os.getpid())
        if "\nvoluntary_ctxt_switches:\t0\n" in (_text(thread / "status") or "")
    }


def _threads(pid: int) -> list[Path]:
    folder = _PROC / str(pid) / "task"
    try:
        return [folder / name for name in os.listdir(folder)]  # noqa: PTH208  # a hot loop: only names are needed
    except OSError:  # the process has ended
        return []


def _letter(stat: Path) -> str:
    fields = _stat(stat)
    return "" if fields is None else fields[_STATE]


def _stat(path: Path) -> list[str] | None:
    """Return the fields from the state on. The program's name before it may contain any character."""
    text = _text(path)
    return None if not text else text.rpartition(")")[2].split()


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process has ended
        return None
