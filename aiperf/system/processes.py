"""What the kernel says of a process on this host (proc(5)): the one place that reads a process's stat, threads and children.

Linux; no torch. Whoever has ended is told as one of whom nothing is known, and never as an error: any process may end between
two looks.
"""

from __future__ import annotations

import os
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
"""Places in /proc/PID/stat, counted from the state, which is the third field."""
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, linux/sched.h


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment. Times are in clock ticks."""

    pid: int
    parent: int
    started: int
    """Since the machine began. With the number it tells a process from a later one of the same number."""
    ticks: int
    """Of processor time, user and system, all its threads together."""
    children_ticks: int
    """That of its children, and of theirs, which have ended and for which it has waited."""
    is_kernel_thread: bool


def everybody(proc: Path = _PROC) -> dict[int, Process]:
    """All processes that can be seen from here, by number."""
    found: dict[int, Process] = {}
    for name in os.listdir(proc):  # noqa: PTH208  # names alone, no more calls
        if not name.isdecimal() or (fields := _stat(proc / name / "stat")) is None:
            continue
        of = [int(word) for word in fields[_PARENT : _STARTED + 1]]
        found[int(name)] = Process(
            pid=int(name),
            parent=of[0],
            started=of[_STARTED - _PARENT],
            ticks=of[_USER_TICKS - _PARENT] + of[_SYSTEM_TICKS - _PARENT],
            children_ticks=of[_CHILDREN_USER_TICKS - _PARENT] + of[_CHILDREN_SYSTEM_TICKS - _PARENT],
            is_kernel_thread=bool(of[_FLAGS - _PARENT] & _KERNEL_THREAD),
        )
    return found


def command(pid: int, proc: Path = _PROC) -> list[str]:
    """The words it was started with; none of a kernel thread, or where it has ended."""
    return (_text(proc / str(pid) / "cmdline") or "").split("\0")[:-1]


def name(pid: int, proc: Path = _PROC) -> str:
    """Of its program, as the kernel keeps it (15 letters at most); empty when it is gone."""
    return (_text(proc / str(pid) / "comm") or "").strip()


def process_space(proc: Path = _PROC) -> str | None:
    """Which numbers of processes are meant here: two with the same see each other's. None: the kernel does not say."""
    try:
        return str((proc / "self/ns/pid").readlink())
    except OSError:
        return None


def state(pid: int) -> str:
    """Its letter; empty when it is gone."""
    return _letter(_PROC / str(pid) / "stat")


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped it."""
    return state(pid) in ("T", "t")


def thread_states(pid: int) -> str:
    """The letters of its threads."""
    return "".join(_letter(thread / "stat") for thread in _threads(pid))


def family(pid: int) -> Iterator[int]:
    """A process, then its children, each with its own."""
    yield pid
    for thread in _threads(pid):
        for child in (_text(thread / "children") or "").split():
            yield from family(int(child))


def storage_reads(pid: int) -> tuple[str, ...]:
    """What grows whenever it has read from a block device or a file server; what came through sockets and pipes is not in it.

    Empty when it is gone, or is another user's. Pages of a mapped file are counted by their faults alone.
    """
    counts, stat = _text(_PROC / str(pid) / "io"), _stat(_PROC / str(pid) / "stat")
    if counts is None or stat is None:
        return ()
    return (*(line for line in counts.splitlines() if line.startswith("read_bytes")), stat[_MAJOR_FAULTS])


def _threads(pid: int) -> list[Path]:
    """Their folders; one whose thread ends before it is looked into holds nothing, and says nothing of the others."""
    folder = _PROC / str(pid) / "task"
    try:
        return [folder / name for name in os.listdir(folder)]  # noqa: PTH208  # a hot loop: names alone, no more calls
    except OSError:  # it has ended
        return []


def _letter(stat: Path) -> str:
    fields = _stat(stat)
    return "" if fields is None else fields[_STATE]


def _stat(path: Path) -> list[str] | None:
    """The fields from the state on: before it stands the program's name, in which there may be anything."""
    text = _text(path)
    return None if not text else text.rpartition(")")[2].split()


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended
        return None
