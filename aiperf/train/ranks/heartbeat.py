"""Signs of life: a small shared file in which each rank says until when it may be silent. No torch here.

A rank writes (a few hundred nanoseconds, no system call); its group's supervisor reads. Seconds are time.monotonic's, which all
processes of a host share. The file also carries the wish to hear the sums of what is trained. Where a worker has several hosts
each has such a file with a line for every rank; the leading host's is kept up to date with the lines of the others.
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
    """What a rank says of itself, with times as they lie before and after the moment in which it was looked at."""

    deadline_in: float | None
    """None: it has said nothing yet."""
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
        """A rank lives, is at this from now on, and will say so again within so many seconds."""
        at, now = (1 + rank) * _PER_RANK, time.monotonic()
        self._view[at + _STAGE] = stage
        self._view[at + _SINCE] = now
        self._view[at + _DEADLINE] = now + silent_seconds

    def beat(self, rank: int, step: int, stage: Stage, silent_seconds: float) -> None:
        """A rank has come to this step; else as `enter`."""
        self._view[(1 + rank) * _PER_RANK + _STEP] = step
        self.enter(rank, stage, silent_seconds)

    def overdue(self, now: float) -> tuple[int, ...]:
        """The ranks whose time is over, the longest overdue first. A rank that never beat is not overdue."""
        deadlines = [(self._view[(1 + rank) * _PER_RANK + _DEADLINE], rank) for rank in range(self.ranks)]
        return tuple(rank for deadline, rank in sorted(deadlines) if 0 < deadline < now)

    def meet(self, rank: int) -> None:
        """The rank has come to where it exchanges something with the others."""
        self._view[(1 + rank) * _PER_RANK + _MEETINGS] += 1

    def meetings(self) -> tuple[int, ...]:
        """How many exchanges each rank has come to: all come to the same ones, one after the other."""
        return tuple(int(self._view[(1 + rank) * _PER_RANK + _MEETINGS]) for rank in range(self.ranks))

    def steps(self) -> tuple[int, ...]:
        """The step each rank has come to."""
        return tuple(int(self._view[(1 + rank) * _PER_RANK + _STEP]) for rank in range(self.ranks))

    def processed(self, rank: int, training: int, validation: int) -> None:
        """The rank has processed so many images more."""
        at = (1 + rank) * _PER_RANK
        self._view[at + _TRAINED] += training
        self._view[at + _VALIDATED] += validation

    def images(self) -> tuple[int, int]:
        """Training and validation images that all ranks have processed since they were started."""
        of_each = [self.images_of(rank) for rank in range(self.ranks)]
        return sum(trained for trained, _ in of_each), sum(validated for _, validated in of_each)

    def images_of(self, rank: int) -> tuple[int, int]:
        """Those of one rank."""
        at = (1 + rank) * _PER_RANK
        return int(self._view[at + _TRAINED]), int(self._view[at + _VALIDATED])

    def stages(self) -> tuple[tuple[Stage, float], ...]:
        """What each rank is at, and since when (time.monotonic())."""
        at = [(1 + rank) * _PER_RANK for rank in range(self.ranks)]
        return tuple((Stage(int(self._view[each + _STAGE])), self._view[each + _SINCE]) for each in at)

    def announced(self) -> tuple[float, ...]:
        """How long each rank said that it might be silent in what it is at."""
        at = [(1 + rank) * _PER_RANK for rank in range(self.ranks)]
        return tuple(self._view[each + _DEADLINE] - self._view[each + _SINCE] for each in at)

    def sign(self, rank: int, now: float) -> Sign:
        """All that a rank has written, in a form that means the same on another host."""
        at = (1 + rank) * _PER_RANK
        values = self._view
        return Sign(
            deadline_in=values[at + _DEADLINE] - now if values[at + _DEADLINE] else None,
            since=now - values[at + _SINCE],
            stage=int(values[at + _STAGE]),
            counts=tuple(values[at + slot] for slot in (_STEP, _MEETINGS, _TRAINED, _VALIDATED)),
        )

    def copy(self, rank: int, sign: Sign, now: float) -> None:
        """Has a rank's line say what it says on its own host; `now`: when that was so, by this host's clock."""
        at = (1 + rank) * _PER_RANK
        for slot, value in zip((_STEP, _MEETINGS, _TRAINED, _VALIDATED), sign.counts, strict=True):
            self._view[at + slot] = value
        self._view[at + _STAGE] = sign.stage
        self._view[at + _SINCE] = now - sign.since
        self._view[at + _DEADLINE] = 0.0 if sign.deadline_in is None else now + sign.deadline_in

    def ask_for_sums(self) -> None:
        """The group wishes to hear the sums of the order under way."""
        self._view[_SUMS] += 1

    def asked_for_sums(self) -> int:
        """How often the group has wished so."""
        return int(self._view[_SUMS])

    def close(self) -> None:
        self._view.release()
        self._map.close()
