"""Ranks of one start on one host: their settings, processes and shared files. No torch here."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from aiperf.data.dataset_config import DataSetConf
from aiperf.data.hostcache import SHARING
from aiperf.journal.messages import Message
from aiperf.own_files import make_own_folder, remove_own_folder
from aiperf.scratch import MARK, Scratch, compiler_caches
from aiperf.system.network import interface_of
from aiperf.train.heartbeat import HeartbeatFile, Stage
from aiperf.train.ranks.process import RankProcess
from aiperf.train.ranks.protocol import ExecuteOrder, FailureReport, RankPlace, RankStatus, Ready, Setup
from aiperf.train.ranks.rendezvous import Directions, horovod_environment
from aiperf.train.trainer_config import TrainerConf

DEATH_SECONDS = 30.0
"""Time within which a killed process must end. Otherwise it cannot be ended."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a worker's ranks on a host, for every start and any number of ranks."""

    conf: TrainerConf
    dataset: DataSetConf
    start_graph: str
    run_folder: Path
    cores: int
    worker: int


@dataclass(frozen=True, slots=True)
class RankStart:
    """One start of a worker's ranks, as sent to one of its hosts: places of all ranks, and addresses to connect to."""

    seats: tuple[RankPlace, ...]
    host: int
    directions: Directions
    address: str | None
    """This host's address, as the others reach it. None if there are no other hosts."""

    @property
    def own(self) -> tuple[RankPlace, ...]:
        return tuple(seat for seat in self.seats if seat.host == self.host)


class HostRanks:
    """Ranks of one start on this host. They are killed when the thread that called `start` ends."""

    def __init__(self, recipe: Recipe, start: RankStart) -> None:
        """Raise OSError if no interface has this host's address."""
        self._interface = "lo" if start.address is None else interface_of(start.address)
        make_own_folder(recipe.run_folder / "logs")
        self.processes: list[RankProcess] = []
        # the run's scratch folder is removed with the run. A Ray of others has none, and this host may be killed
        self._scratch = None if (run := os.environ.get(MARK)) else Scratch()
        self.folder = Path(tempfile.mkdtemp(prefix="ranks-", dir=run)) if self._scratch is None else self._scratch.path
        self.heartbeats = HeartbeatFile(self.folder / "heartbeats", len(start.seats), create=True)
        self._recipe = recipe
        self._start = start

    def start(self) -> None:
        """Call it once. Raise OSError if a process cannot be started."""
        for seat in self._start.own:
            self.heartbeats.enter(seat.rank, Stage.IMPORT, self._recipe.conf.start_seconds)
            log = self._recipe.run_folder / "logs" / f"worker-{self._recipe.worker}-rank-{seat.rank}.log"
            self.processes.append(RankProcess(self._setup(seat), self._environment(seat), log))

    def _setup(self, seat: RankPlace) -> Setup:
        recipe = self._recipe
        cores = max(1, recipe.cores // seat.local_size)
        return Setup(
            conf=recipe.conf,
            dataset=recipe.dataset,
            start_graph=recipe.start_graph,
            checkpoints=recipe.run_folder / "checkpoints",
            ceilings=recipe.run_folder / "ceilings",
            rank=seat.rank,
            ranks=len(self._start.seats),
            local_ranks=seat.local_size,
            accelerator=seat.accelerator,
            threads=recipe.conf.threads or cores,
            cores=cores,
            heartbeats=self.folder / "heartbeats",
            meeting=self._start.directions.store or self.folder / "meeting",
        )

    def _environment(self, seat: RankPlace) -> dict[str, str]:
        at, address, interface = self._start.directions.horovod, self._start.address, self._interface
        # ranks of all workers of the run on this host share images; without a run, the ranks of this worker
        shared = os.environ.get(MARK, str(self.folder))
        chosen = {SHARING: shared, **compiler_caches(os.environ, Path(shared))}
        if address is not None:
            # NCCL interprets a name as a prefix unless it begins with '='. A value of the user is kept
            chosen["NCCL_SOCKET_IFNAME"] = os.environ.get("NCCL_SOCKET_IFNAME", f"={interface}")
            chosen["GLOO_SOCKET_IFNAME"] = interface
        if at is None:
            return chosen
        name, ranks = address or "localhost", len(self._start.seats)
        return chosen | horovod_environment(seat, ranks, at.address, at.port, interface, name)

    def look(self, now: float) -> tuple[RankStatus, ...]:
        """Call it several times a second."""
        return tuple(process.look(self.heartbeats, now) for process in self.processes)

    def receive(self, timeout: float, wakes: Sequence[Connection]) -> list[tuple[int, Ready | Message | FailureReport]]:
        """Return at most one new message per rank as (rank, message), waiting up to `timeout` seconds for the first.

        `wakes`: pipes that end the waiting when they become readable. They are emptied.
        """
        by_pipe: dict[object, RankProcess] = {
            process.pipe: process for process in self.processes if not process.pipe.closed
        }
        received: list[tuple[int, Ready | Message | FailureReport]] = []
        for pipe in wait([*(process.pipe for process in by_pipe.values()), *wakes], timeout):
            if isinstance(pipe, Connection) and pipe in wakes:
                while pipe.poll():
                    pipe.recv_bytes()
                continue
            process = by_pipe[pipe]
            message = process.receive()
            if message is not None:
                received.append((process.rank, message))
        return received

    def send(self, do: ExecuteOrder) -> None:
        for process in self.processes:
            self.heartbeats.beat(process.rank, 0, Stage.BUILD, self._recipe.conf.start_seconds)
            process.send(do)

    def hang_up(self) -> None:
        """Request the ranks to finish the checkpoint that is being written, and to end."""
        for process in self.processes:
            process.hang_up()

    def kill(self) -> None:
        for process in self.processes:
            process.kill()

    def end(self) -> list[tuple[int, str]]:
        """Kill the ranks. Return (rank, text on its process) of each that has not ended after 30 s."""
        self.kill()
        deadline = time.monotonic() + DEATH_SECONDS
        left = [process for process in self.processes if not process.has_gone(deadline - time.monotonic())]
        remove_own_folder(self.folder)
        if self._scratch is not None:
            self._scratch.close()
        return [
            (
                process.rank,
                f"process {process.pid}, state {process.state() or 'unknown'} after {DEATH_SECONDS:.0f} s",
            )
            for process in left
        ]
