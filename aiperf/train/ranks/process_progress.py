"""Progress of a process as the kernel reports it (proc(5)), for work that cannot report its own progress.

A computing thread is running or runnable (R), also on a loaded host. A thread that waits for a disk or a file server is
in uninterruptible sleep (D), or its process has read something since. Libraries that wait for other ranks wake up now
and then, so more than half of the last polls must show activity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from aiperf.system import processes
from aiperf.train.stages import Stage

_BRIEF_SECONDS = 2.0
"""Shorter stages are not polled."""
STORAGE_SECONDS = 1800.0
"""Longest time of one request to a disk or a file server, in seconds. After it the storage is considered dead."""
_LOOKS = 10
_ENOUGH = 6
"""Horovod's thread wakes up about every millisecond and is observed awake in one poll of twenty."""


class ProcessProgress:
    """Progress of one process and its children (compilers)."""

    def __init__(self, pid: int, now: float) -> None:
        self._pid = pid
        self._looks: deque[bool] = deque([True] * _LOOKS, maxlen=_LOOKS)
        self._read: tuple[tuple[str, ...], ...] = ()
        self._last = self._moved = now

    def look(self, now: float) -> None:
        """Poll the process. Call several times a second."""
        family = list(processes.family(self._pid))
        read = tuple(processes.storage_reads(pid) for pid in family)
        states = "".join(processes.thread_states(pid) for pid in family)
        if read != self._read or "R" in states:
            self._moved = now
        waits = "D" in states and now - self._moved < STORAGE_SECONDS
        self._looks.append(self._moved == now or waits)
        self._read = read
        if sum(self._looks) >= _ENOUGH:
            self._last = now

    def forget(self, now: float) -> None:
        """Discard earlier polls, because the process has begun another stage."""
        self._looks.extend([True] * _LOOKS)
        self._last = self._moved = now

    def quiet_for(self, now: float) -> float:
        """Return the seconds since the last activity."""
        return now - self._last


class AnyProgress(Protocol):
    """Progress of a rank's process, on any host."""

    def quiet_for(self, now: float) -> float:
        """Return the seconds since the last activity."""
        ...


def look_at(progress: Sequence[ProcessProgress], stages: Sequence[tuple[Stage, float]], now: float) -> None:
    """Poll each process once. `stages`: stage of each rank, and since when."""
    for each, (stage, since) in zip(progress, stages, strict=True):
        if stage is Stage.IDLE or now - since < _BRIEF_SECONDS:
            each.forget(now)
        else:
            each.look(now)
