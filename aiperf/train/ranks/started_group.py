"""One start of a worker's ranks: their processes, what they share, and how all of it ends. No torch here."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from aiperf.train.ranks.hang_watch import Watch
from aiperf.train.ranks.heartbeat import HeartbeatFile
from aiperf.train.ranks.process import RankProcess
from aiperf.train.ranks.protocol import Failed, Ready
from aiperf.train.ranks.rendezvous import HorovodRendezvous

DEATH_SECONDS = 30.0
"""What is killed has ended by then, or cannot be ended."""


class NotStarted(Exception):
    """A start failed."""

    def __init__(self, failure: Failed, rank: int) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.rank = rank


@dataclass(slots=True)
class Ranks:
    """One start's processes and what they share."""

    processes: list[RankProcess]
    heartbeats: HeartbeatFile
    folder: Path
    rendezvous: HorovodRendezvous | None
    watch: Watch | None = None
    """Once all processes are there."""
    ready: Ready | None = None

    def hung(self, seconds: float) -> tuple[int, str] | None:
        """The rank that hangs, and how."""
        assert self.watch is not None
        return self.watch.hung(self.processes, seconds, time.monotonic())

    def slowest(self) -> tuple[int, str]:
        """The rank that is furthest behind, and what it is at."""
        assert self.watch is not None
        return self.watch.slowest(time.monotonic())

    def kill(self) -> None:
        """What still runs, a stopped process too; does not wait for its end."""
        for process in self.processes:
            process.kill()

    def end(self) -> list[RankProcess]:
        """Kills, waits within limits, and removes what the ranks shared. Gives those that cannot be ended."""
        self.kill()
        deadline = time.monotonic() + DEATH_SECONDS
        left = [process for process in self.processes if not process.has_gone(deadline - time.monotonic())]
        if self.rendezvous is not None:
            self.rendezvous.close()
        self.heartbeats.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return left
