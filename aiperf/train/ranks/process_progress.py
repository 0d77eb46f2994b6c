"""Whether anything goes on in a process, as the kernel sees it (proc(5)): for work that cannot say of itself how far it is.

A thread that computes is running or wants to (R), however loaded the host; one that waits for a disk or a file server is in
uninterruptible sleep (D), or its process has read something since. Libraries that wait for other ranks wake up now and then:
that is why more than half of the last looks must have shown something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from aiperf.system import processes
from aiperf.train.stages import Stage

_BRIEF_SECONDS = 2.0
"""Stages that are over sooner are not looked into."""
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
        self._read: tuple[tuple[str, ...], ...] = ()
        self._last = self._moved = now

    def look(self, now: float) -> None:
        """To be called several times a second while it matters."""
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
        """What was seen before says nothing of what the process is at now."""
        self._looks.extend([True] * _LOOKS)
        self._last = self._moved = now

    def quiet_for(self, now: float) -> float:
        """Seconds since something last went on."""
        return now - self._last


class AnyProgress(Protocol):
    """Whether anything goes on in a rank's process, on whichever host it is."""

    def quiet_for(self, now: float) -> float:
        """Seconds since something last went on."""
        ...


def look_at(progress: Sequence[Progress], stages: Sequence[tuple[Stage, float]], now: float) -> None:
    """One look at each; `stages`: what each rank is at, and since when."""
    for each, (stage, since) in zip(progress, stages, strict=True):
        if stage is Stage.IDLE or now - since < _BRIEF_SECONDS:
            each.forget(now)
        else:
            each.look(now)
