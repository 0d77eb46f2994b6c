"""Heartbeats: a small shared file in which each rank writes until when it may be silent. No torch here.

A rank writes (a few hundred nanoseconds, no system call), and its group's supervisor reads. Times are time.monotonic() in
seconds, which all processes of a host share. The file also carries requests for the current sums. If a worker has several
hosts, each host has such a file with a line for every rank, and the leading host copies the lines of the others.
"""

from __future__ import annotations

import mmap
import time
from dataclasses import dataclass
from pathlib import Path

from aiperf.train.stages import Stage

_PER_RANK = 8  # doubles: one cache line, so that ranks do not slow each other
_DEADLINE, _STEP, _MEETINGS, _STAGE, _SINCE = 0, 1, 2, 3, 4
_TRAINED, _VALIDATED = 6, 7
_SUMS = 0


@dataclass(frozen=True, slots=True)
class Sign:
    """State of a rank, with times relative to the observation."""

    deadline_in: float | None
    """Seconds until the deadline. None before the first heartbeat."""
    since: float
    stage: int
    counts: tuple[float, ...]


class HeartbeatFile:
    """The file as one process sees it. Line 0 is the group's, line 1 + rank a rank's."""

    def __init__(self, path: Path, ranks: int, *, create: bool = False) -> None:
        size = (1 + ranks) * _PER_RANK * 8
        if create:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._view = memoryview(self._map).cast("d")
        self.ranks = ranks

    def enter(self, rank: int, stage: Stage, silent_seconds: float) -> None:
        """Record a rank's stage from now on, and the maximum silence in seconds."""
        at, now = (1 + rank) * _PER_RANK, time.monotonic()
        self._view[at + _STAGE] = stage
        self._view[at + _SINCE] = now
        self._view[at + _DEADLINE] = now + silent_seconds

    def beat(self, rank: int, step: int, stage: Stage, silent_seconds: float) -> None:
        """Record a rank's step, its stage and the maximum silence."""
        self._view[(1 + rank) * _PER_RANK + _STEP] = step
        self.enter(rank, stage, silent_seconds)

    def overdue(self, now: float) -> tuple[int, ...]:
        """Return the ranks past their deadline, the longest overdue first. A rank without a heartbeat is not overdue."""
        deadlines = [(self._view[(1 + rank) * _PER_RANK + _DEADLINE], rank) for rank in range(self.ranks)]
        return tuple(rank for deadline, rank in sorted(deadlines) if 0 < deadline < now)

    def meet(self, rank: int) -> None:
        """Count an exchange that the rank has reached."""
        self._view[(1 + rank) * _PER_RANK + _MEETINGS] += 1

    def meetings(self) -> tuple[int, ...]:
        """Return the number of exchanges that each rank has reached. All ranks have the same sequence of exchanges."""
        return tuple(int(self._view[(1 + rank) * _PER_RANK + _MEETINGS]) for rank in range(self.ranks))

    def steps(self) -> tuple[int, ...]:
        """Return the step that each rank has reached."""
        return tuple(int(self._view[(1 + rank) * _PER_RANK + _STEP]) for rank in range(self.ranks))

    def processed(self, rank: int, training: int, validation: int) -> None:
        """Add images to a rank's counts."""
        at = (1 + rank) * _PER_RANK
        self._view[at + _TRAINED] += training
        self._view[at + _VALIDATED] += validation

    def images(self) -> tuple[int, int]:
        """Return the training and validation images of all ranks since their start."""
        of_each = [self.images_of(rank) for rank in range(self.ranks)]
        return sum(trained for trained, _ in of_each), sum(validated for _, validated in of_each)

    def images_of(self, rank: int) -> tuple[int, int]:
        """Return the training and validation images of one rank."""
        at = (1 + rank) * _PER_RANK
        return int(self._view[at + _TRAINED]), int(self._view[at + _VALIDATED])

    def stages(self) -> tuple[tuple[Stage, float], ...]:
        """Return the stage of each rank, and since when (time.monotonic())."""
        at = [(1 + rank) * _PER_RANK for rank in range(self.ranks)]
        return tuple((Stage(int(self._view[each + _STAGE])), self._view[each + _SINCE]) for each in at)

    def announced(self) -> tuple[float, ...]:
        """Return the maximum silence that each rank announced for its stage, in seconds."""
        at = [(1 + rank) * _PER_RANK for rank in range(self.ranks)]
        return tuple(self._view[each + _DEADLINE] - self._view[each + _SINCE] for each in at)

    def sign(self, rank: int, now: float) -> Sign:
        """Return a rank's line in a form that is valid on another host."""
        at = (1 + rank) * _PER_RANK
        values = self._view
        return Sign(
            deadline_in=values[at + _DEADLINE] - now if values[at + _DEADLINE] else None,
            since=now - values[at + _SINCE],
            stage=int(values[at + _STAGE]),
            counts=tuple(values[at + slot] for slot in (_STEP, _MEETINGS, _TRAINED, _VALIDATED)),
        )

    def copy(self, rank: int, sign: Sign, now: float) -> None:
        """Copy a rank's line from its own host. `now`: time of the observation, by this host's clock."""
        at = (1 + rank) * _PER_RANK
        for slot, value in zip((_STEP, _MEETINGS, _TRAINED, _VALIDATED), sign.counts, strict=True):
            self._view[at + slot] = value
        self._view[at + _STAGE] = sign.stage
        self._view[at + _SINCE] = now - sign.since
        self._view[at + _DEADLINE] = 0.0 if sign.deadline_in is None else now + sign.deadline_in

    def ask_for_sums(self) -> None:
        """Request the sums of the current order."""
        self._view[_SUMS] += 1

    def asked_for_sums(self) -> int:
        """Return the number of requests."""
        return int(self._view[_SUMS])

    def close(self) -> None:
        self._view.release()
        self._map.close()
