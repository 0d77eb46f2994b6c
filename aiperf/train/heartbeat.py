"""Heartbeats: a small shared file in which each rank writes until when it may be silent. No torch here.

A rank writes (a microsecond, no system call), and its group's supervisor reads. Times are time.monotonic() in seconds, which
all processes of a host share. The file also carries requests for the current sums. If a worker has several hosts, each host
has such a file with a line for every rank, and the leading host copies the lines of the others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aiperf.train.stages import Stage

_COUNTS = ["step", "meetings", "trained", "validated"]
_LINE = np.dtype([(name, "f8") for name in (*_COUNTS, "deadline", "since", "stage", "requests")])
"""One cache line, so that ranks do not slow each other."""


@dataclass(frozen=True, slots=True)
class Sign:
    """State of a rank, with times relative to the observation."""

    deadline_in: float | None
    """Seconds until the deadline. None before the first heartbeat."""
    since: float
    stage: int
    counts: tuple[float, ...]


class HeartbeatFile:
    """The file as one process sees it: a line for each rank, then the group's."""

    def __init__(self, path: Path | None, ranks: int, *, create: bool = False) -> None:
        """`path`: None for a group of one process, in its own memory."""
        shape = ranks + 1
        lines: Any = np.zeros(shape, _LINE)
        if path is not None:
            lines = np.memmap(path, _LINE, "w+" if create else "r+", shape=shape)
        self._lines = lines.view(np.ndarray)
        self.ranks = ranks

    def enter(self, rank: int, stage: Stage, silent_seconds: float) -> None:
        """Record a rank's stage from now on, and the maximum silence in seconds."""
        line, now = self._lines[rank], time.monotonic()
        line["stage"], line["since"], line["deadline"] = stage, now, now + silent_seconds

    def beat(self, rank: int, step: int, stage: Stage, silent_seconds: float) -> None:
        self._lines[rank]["step"] = step
        self.enter(rank, stage, silent_seconds)

    def overdue(self, now: float) -> tuple[int, ...]:
        """Return the ranks past their deadline, the longest overdue first. A rank without a heartbeat is not overdue."""
        deadlines = sorted(zip(self._of_ranks("deadline"), range(self.ranks), strict=True))
        return tuple(rank for deadline, rank in deadlines if 0 < deadline < now)

    def meet(self, rank: int) -> None:
        """Count an exchange that the rank has reached."""
        self._lines[rank]["meetings"] += 1

    def meetings(self) -> tuple[int, ...]:
        """Return the number of exchanges that each rank has reached. All ranks have the same sequence of exchanges."""
        return tuple(map(int, self._of_ranks("meetings")))

    def steps(self) -> tuple[int, ...]:
        return tuple(map(int, self._of_ranks("step")))

    def processed(self, rank: int, training: int, validation: int) -> None:
        line = self._lines[rank]
        line["trained"] += training
        line["validated"] += validation

    def images(self) -> tuple[int, int]:
        """Return (training images, validation images) of all ranks since their start."""
        return int(sum(self._of_ranks("trained"))), int(sum(self._of_ranks("validated")))

    def images_of(self, rank: int) -> tuple[int, int]:
        line = self._lines[rank]
        return int(line["trained"]), int(line["validated"])

    def stages(self) -> tuple[tuple[Stage, float], ...]:
        """Return the stage of each rank, and since when (time.monotonic())."""
        pairs = zip(self._of_ranks("stage"), self._of_ranks("since"), strict=True)
        return tuple((Stage(int(stage)), since) for stage, since in pairs)

    def announced(self) -> tuple[float, ...]:
        """Return the maximum silence that each rank announced for its stage, in seconds."""
        pairs = zip(self._of_ranks("deadline"), self._of_ranks("since"), strict=True)
        return tuple(deadline - since for deadline, since in pairs)

    def sign(self, rank: int, now: float) -> Sign:
        """Return a rank's line with times relative to `now` (time.monotonic()), which are valid on another host."""
        line = self._lines[rank]
        deadline = float(line["deadline"])
        counts = tuple(float(line[name]) for name in _COUNTS)
        return Sign(deadline - now if deadline else None, now - float(line["since"]), int(line["stage"]), counts)

    def copy(self, rank: int, sign: Sign, now: float) -> None:
        """Write a rank's line as observed on its own host. `now`: time of the observation, by this host's clock."""
        line = self._lines[rank]
        for name, value in zip(_COUNTS, sign.counts, strict=True):
            line[name] = value
        line["stage"], line["since"] = sign.stage, now - sign.since
        line["deadline"] = 0.0 if sign.deadline_in is None else now + sign.deadline_in

    def ask_for_sums(self) -> None:
        self._lines[-1]["requests"] += 1

    def asked_for_sums(self) -> int:
        return int(self._lines[-1]["requests"])

    def _of_ranks(self, name: str) -> list[float]:
        values: list[float] = self._lines[name][:-1].tolist()
        return values


class RankHeartbeat:
    """Line of one rank, as the rank writes it. Default: of a single rank without a supervisor."""

    def __init__(self, file: HeartbeatFile | None = None, rank: int = 0) -> None:
        self._file = file or HeartbeatFile(None, 1)
        self._rank = rank
        self._requests = 0

    def enter(self, stage: Stage, silent_seconds: float) -> None:
        """Report the current stage and the maximum silence in it, in seconds."""
        self._file.enter(self._rank, stage, silent_seconds)

    def beat(self, step: int, stage: Stage, silent_seconds: float) -> None:
        self._file.beat(self._rank, step, stage, silent_seconds)

    def meet(self) -> None:
        """Count an exchange that this rank has reached."""
        self._file.meet(self._rank)

    def processed(self, training: int, validation: int) -> None:
        self._file.processed(self._rank, training, validation)

    def images(self) -> tuple[int, int]:
        """Return (training images, validation images) of all ranks since their start.

        Counts of other hosts arrive with a short delay.
        """
        return self._file.images()

    def own_images(self) -> tuple[int, int]:
        return self._file.images_of(self._rank)

    def is_asked_for_sums(self) -> bool:
        """Return True if a report of the sums was requested since the last call."""
        before, self._requests = self._requests, self._file.asked_for_sums()
        return self._requests > before
