"""What the kernel says of a process on this host (proc(5)): the one place that reads a process's stat, threads and children.

Linux; no torch. Whoever has ended is told as one of whom nothing is known, and never as an error: any process may end between
two looks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_STATE = 0
_MAJOR_FAULTS = 9
"""Places in /proc/PID/stat, counted from the state, which is the third field."""


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
        return path.read_text()
    except OSError:  # it has ended
        return None
