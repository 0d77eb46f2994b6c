"""Heartbeats of ranks: a small shared file in which each writes its stage and until when it may be silent. No torch here.

A write takes a microsecond and no system call. Times are time.monotonic() in seconds. Each host of a worker has such a file
with a line for every rank, and the leading host copies the lines of the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from pathlib import Path
from typing import Any

import numpy as np


class Stage(IntEnum):
    """Current activity of a rank, with its text for reports."""

    doing: str

    def __new__(cls, number: int, doing: str = "") -> Stage:
        stage = int.__new__(cls, number)
        stage._value_, stage.doing = number, doing
        return stage

    IDLE = 0, "waits for an order"
    STEPS = 1, "trains"
    IMPORT = 2, "imports its libraries"
    DATA = 3, "opens the data set"
    JOIN = 4, "joins the other ranks"
    WARM_UP = 5, "loads kernels"
    CEILING = 6, "finds the largest batch"
    PEAK = 7, "measures its fastest matrix product and its memory bandwidth"
    BUILD = 8, "builds the network"
    LAUNCH = 9, "rehearses or compiles the network"
    WEIGHTS = 10, "takes up weights"
    INPUT = 11, "waits for images"
    CHECKPOINT = 12, "waits for a checkpoint to be written"
    QUEUE = 13, "waits for another worker of this host to find the largest batch"


STORAGE = frozenset({Stage.IMPORT, Stage.DATA, Stage.WEIGHTS, Stage.INPUT, Stage.CHECKPOINT})
"""In these stages a rank that makes no progress is waiting for a file system."""
ON_DEVICE = frozenset({Stage.WARM_UP, Stage.CEILING, Stage.PEAK, Stage.BUILD, Stage.LAUNCH, Stage.WEIGHTS})
"""In these stages a rank waits for its device. CUDA waits by spinning, which looks like work to the kernel."""
OPEN_ENDED = frozenset(Stage) - {Stage.IDLE, Stage.STEPS, Stage.JOIN, Stage.QUEUE}
"""Stages without a known duration. A rank in such a stage is late only if its process does nothing."""


_COUNTS = ["step", "meetings", "trained", "validated", "longest_wait"]
_FIGURES = [*_COUNTS, "deadline", "since", "stage", "requests", "waits_since"]
_LINE = np.dtype([*((name, "f8") for name in _FIGURES), ("unused", f"V{128 - 8 * len(_FIGURES)}")])
"""Two cache lines, so that ranks do not slow each other."""


@dataclass(frozen=True, slots=True)
class Sign:
    """State of a rank as read from the heartbeat file. Times are seconds relative to the observation."""

    deadline_in: float | None
    """Seconds until the deadline. None before the first heartbeat."""
    since: float
    stage: int
    counts: tuple[float, ...]
    waited: float | None = None
    """Seconds for which the rank has been waiting for its device. None if it does not wait."""


class HeartbeatFile:
    """Shared file of heartbeats, opened in one process. It has one line for each rank, and one for requests to all ranks."""

    def __init__(self, path: Path | None, ranks: int, *, create: bool = False) -> None:
        """`path`: None for a group of one process, which keeps the lines in its own memory."""
        shape = ranks + 1
        lines: Any = np.zeros(shape, _LINE)
        if path is not None:
            lines = np.memmap(path, _LINE, "w+" if create else "r+", shape=shape)
        self.lines = lines.view(np.ndarray)
        self.ranks = ranks

    def enter(self, rank: int, stage: Stage, silent_seconds: float) -> None:
        line, now = self.lines[rank], time.monotonic()
        line["stage"], line["since"], line["deadline"] = stage, now, now + silent_seconds

    def beat(self, rank: int, step: int, stage: Stage, silent_seconds: float) -> None:
        self.lines[rank]["step"] = step
        self.enter(rank, stage, silent_seconds)

    def overdue(self, now: float) -> tuple[int, ...]:
        """Ranks that have been silent for longer than they announced, the longest overdue first."""
        deadlines = sorted(zip(self._of_ranks("deadline"), range(self.ranks), strict=True))
        return tuple(rank for deadline, rank in deadlines if 0 < deadline < now)

    def meet(self, rank: int) -> None:
        self.lines[rank]["meetings"] += 1

    def meetings(self) -> tuple[int, ...]:
        """Number of exchanges that each rank has reached. All ranks have the same sequence of exchanges."""
        return tuple(map(int, self._of_ranks("meetings")))

    def steps(self) -> tuple[int, ...]:
        return tuple(map(int, self._of_ranks("step")))

    def images(self) -> tuple[int, int]:
        """Return (training images, validation images) of all ranks since the start of the ranks."""
        return int(sum(self._of_ranks("trained"))), int(sum(self._of_ranks("validated")))

    def stages(self) -> tuple[tuple[Stage, float], ...]:
        """Return (stage, time at which it began) of each rank, by rank. Times are time.monotonic() in seconds."""
        pairs = zip(self._of_ranks("stage"), self._of_ranks("since"), strict=True)
        return tuple((Stage(int(stage)), since) for stage, since in pairs)

    def announced(self) -> tuple[float, ...]:
        pairs = zip(self._of_ranks("deadline"), self._of_ranks("since"), strict=True)
        return tuple(deadline - since for deadline, since in pairs)

    def wait(self, rank: int, since: float, longest: float) -> None:
        """Record that `rank` has waited for its device since then (0: it does not wait), and its longest wait in seconds."""
        self.lines[rank]["waits_since"], self.lines[rank]["longest_wait"] = since, longest

    def device_wait(self, rank: int) -> tuple[float, float]:
        """(time since which `rank` has been waiting for its device, or inf, longest of its earlier waits in seconds)."""
        return float(self.lines[rank]["waits_since"]) or inf, float(self.lines[rank]["longest_wait"])

    def sign(self, rank: int, now: float) -> Sign:
        """Return the line of `rank` with times relative to `now` (time.monotonic()). Such times are valid on another host."""
        line = self.lines[rank]
        deadline = float(line["deadline"])
        counts = tuple(float(line[name]) for name in _COUNTS)
        waits = float(line["waits_since"])
        own = deadline - now if deadline else None
        return Sign(own, now - float(line["since"]), int(line["stage"]), counts, now - waits if waits else None)

    def copy(self, rank: int, sign: Sign, now: float) -> None:
        line = self.lines[rank]
        for name, value in zip(_COUNTS, sign.counts, strict=True):
            line[name] = value
        line["stage"], line["since"] = sign.stage, now - sign.since
        line["deadline"] = 0.0 if sign.deadline_in is None else now + sign.deadline_in
        line["waits_since"] = 0.0 if sign.waited is None else now - sign.waited

    def ask_for_sums(self) -> None:
        self.lines[-1]["requests"] += 1

    def asked_for_sums(self) -> int:
        return int(self.lines[-1]["requests"])

    def _of_ranks(self, name: str) -> list[float]:
        values: list[float] = self.lines[name][:-1].tolist()
        return values


class RankHeartbeat:
    """Line of one rank in the heartbeat file, as the rank writes it. Default: a single rank without a supervisor."""

    def __init__(self, file: HeartbeatFile | None = None, rank: int = 0) -> None:
        self._file = file or HeartbeatFile(None, 1)
        self._rank = rank
        self._line = self._file.lines[rank]
        self._requests = 0
        self._lock = threading.Lock()
        self._waits: list[float] = []
        """Begins of the waits for the device. The thread that writes checkpoints also waits for it."""
        self._longest_wait = 0.0

    def enter(self, stage: Stage, silent_seconds: float) -> None:
        self._file.enter(self._rank, stage, silent_seconds)

    def beat(self, step: int, stage: Stage, silent_seconds: float) -> None:
        self._file.beat(self._rank, step, stage, silent_seconds)

    @contextmanager
    def device_wait(self) -> Iterator[None]:
        """Report that this thread waits for the device in a `with` block, and for nothing else."""
        began = time.monotonic()
        with self._lock:
            self._waits.append(began)
            self._file.wait(self._rank, self._waits[0], self._longest_wait)
        try:
            yield
        finally:
            with self._lock:
                self._waits.remove(began)
                self._longest_wait = max(self._longest_wait, time.monotonic() - began)
                self._file.wait(self._rank, min(self._waits, default=0.0), self._longest_wait)

    def meet(self) -> None:
        self._file.meet(self._rank)

    def processed(self, training: int, validation: int) -> None:
        self._line["trained"] += training
        self._line["validated"] += validation

    def images(self) -> tuple[int, int]:
        """Counts of other hosts arrive with a short delay."""
        return self._file.images()

    def own_images(self) -> tuple[int, int]:
        return int(self._line["trained"]), int(self._line["validated"])

    def is_asked_for_sums(self) -> bool:
        """True if requested since the last call of this method."""
        before, self._requests = self._requests, self._file.asked_for_sums()
        return self._requests > before
