"""Whether anything goes on in a process, as the kernel sees it (proc(5)): for work that cannot say of itself how far it is.

A thread that computes is running or wants to (R), however loaded the host; one that waits for a disk or a file server is in
uninterruptible sleep (D), or its process has read something since. Libraries that wait for other ranks wake up now and then:
that is why more than half of the last looks must have shown something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

STORAGE_SECONDS = 1800.0
"""A disk or a file server may take so long for one request; then it will not answer any more."""
_LOOKS = 10
_ENOUGH = 6
"""Horovod's thread, which looks about each millisecond, is seen awake in one look of twenty."""


class Progress:
    """Of one process and its children (compilers)."""

    def __init__(self, pid: int, now: float) -> None:
        self._pid = pid
        self._looks: deque[bool] = deque([True] * _LOOKS, maxlen=_LOOKS)
        self._read: tuple[str, ...] = ()
        self._last = self._moved = now

    def look(self, now: float) -> None:
        """To be called several times a second while it matters."""
        tree = list(_tree(self._pid))
        read = tuple(_read_bytes(pid) for pid in tree)
        states = "".join(_states(pid) for pid in tree)
        if read != self._read or "R" in states:
            self._moved = now
        waits = "D" in states and now - self._moved < STORAGE_SECONDS
        self._looks.append(self._moved == now or waits)
        self._read = read
        if sum(self._looks) >= _ENOUGH:
            self._last = now

    def forget(self, now: float) -> None:
        """What was seen before says nothing of what the process is at now."""
        self._looks.extend([True] * _LOOKS)
        self._last = self._moved = now

    def quiet_for(self, now: float) -> float:
        """Seconds since something last went on."""
        return now - self._last


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = [file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended
        return
    for child in (int(each) for many in children for each in many):
        yield from _tree(child)


def _states(pid: int) -> str:
    """The letters of its threads."""
    try:
        stats = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return ""
    return "".join(stat.rpartition(")")[2].split()[0] for stat in stats)


def _read_bytes(pid: int) -> str:
    """Read from a block device or a file server; what came through sockets and pipes is not in it."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        faults = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[9]
    except (OSError, IndexError):
        return ""
    return " ".join([*(line for line in lines if line.startswith("read_bytes")), faults])
