"""One start of a worker's ranks: what it is made of, their processes, what they share, and how it ends. No torch here."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from aiperf.data.dataset_config import DataSetConf
from aiperf.scratch import MARK
from aiperf.train.ranks.hang_watch import Watch
from aiperf.train.ranks.heartbeat import HeartbeatFile
from aiperf.train.ranks.process import RankProcess
from aiperf.train.ranks.protocol import Failed, Ready, Setup
from aiperf.train.ranks.rendezvous import HorovodRendezvous, open_rendezvous
from aiperf.train.stages import Stage
from aiperf.train.trainer_config import TrainerConf

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
    """None: they meet in a file, or there is one rank."""
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


@dataclass(frozen=True, slots=True)
class Recipe:
    """What each start of a worker's ranks is made of, with however many of them."""

    conf: TrainerConf
    dataset: DataSetConf
    start_graph: str
    """As `morphism.encode` gives it."""
    run_folder: Path
    cores: int
    """The worker's."""
    worker: int

    def open(self, ranks: int) -> Ranks:
        """What so many ranks share, before the first is started."""
        (self.run_folder / "logs").mkdir(parents=True, exist_ok=True)
        # in the run's own, which goes with the run however it ends; elsewhere where this group has no run around it
        folder = Path(tempfile.mkdtemp(prefix="aiperf-ranks-", dir=os.environ.get(MARK)))
        heartbeats = HeartbeatFile(folder / "heartbeats", ranks, create=True)
        return Ranks([], heartbeats, folder, open_rendezvous(self.conf.collective, ranks))

    def start(self, shared: Ranks, rank: int, ranks: int, accelerator: int | None) -> RankProcess:
        """One of them, on its share of the worker's cores."""
        cores = max(1, self.cores // ranks)
        setup = Setup(
            conf=self.conf,
            dataset=self.dataset,
            start_graph=self.start_graph,
            checkpoints=self.run_folder / "checkpoints",
            ceilings=self.run_folder / "ceilings",
            rank=rank,
            ranks=ranks,
            accelerator=accelerator,
            threads=self.conf.threads or cores,
            cores=cores,
            heartbeats=shared.folder / "heartbeats",
            meeting=shared.folder / "meeting",
        )
        environment = {} if shared.rendezvous is None else shared.rendezvous.environment(rank, ranks)
        log = self.run_folder / "logs" / f"worker-{self.worker}-rank-{rank}.log"
        shared.heartbeats.enter(rank, Stage.IMPORT, self.conf.start_seconds)
        return RankProcess(setup, environment, log)
