"""The two actors of a worker: its host, which holds the ranks for the whole run, and its generator, which makes proposals."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.actor import ActorHandle

from aiperf.drive.mailbox import Sender
from aiperf.messages import Drop, Propose, Train, WorkerUp
from aiperf.propose import Proposer, make
from aiperf.system import telemetry
from aiperf.system.describe import describe
from aiperf.system.recorder import Recorder
from aiperf.train.conf import TrainerConf
from aiperf.train.data.conf import DataSetConf
from searchers.history import History, News, Space


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What a worker's host needs to know before the first order."""

    worker: int
    trainer: TrainerConf
    dataset: DataSetConf
    start_graph: str
    """JSON."""
    folder: Path
    """The run's; the same for all workers."""
    accelerators: int
    cores: int
    started_unix: float


@ray.remote
class WorkerHost:
    """Lives as long as its worker. Speaks to the driver through the mailbox alone."""

    def __init__(self, plan: WorkerPlan, mailbox: ActorHandle[Any]) -> None:
        from aiperf.train.group import RankGroup

        self._plan = plan
        self._sender = Sender(mailbox)
        self._recorder = Recorder(
            telemetry.path(plan.folder, plan.worker),
            host=socket.gethostname(),
            worker=plan.worker,
            epoch_unix=plan.started_unix,
            accelerators=plan.accelerators,
        )
        self._recorder.start()
        self._group = RankGroup(
            plan.trainer,
            plan.dataset,
            plan.start_graph,
            plan.folder,
            accelerators=plan.accelerators,
            cores=plan.cores,
            worker=plan.worker,
        )
        self._ended = threading.Event()

    def live(self) -> None:
        """Brings the ranks up and passes their words on; returns when the worker was ended, raises when it cannot go on."""
        ready = self._group.start()
        machine = msgspec.to_builtins(describe())
        if ready.matmul_flops is not None:
            machine["measured_matmul_flops"] = {ready.precision: ready.matmul_flops}
        self._sender.put(
            [
                WorkerUp(
                    worker=self._plan.worker,
                    host=socket.gethostname(),
                    ranks=ready.ranks,
                    device=ready.device,
                    device_memory_bytes=ready.device_memory_bytes,
                    collective=ready.collective,
                    machine=machine,
                )
            ],
        )
        while not self._ended.is_set():
            words = self._group.words(0.5)
            if words:
                self._sender.put(words)
        self._group.close()
        self._recorder.stop()

    def order(self, order: Train | Drop) -> None:
        """Hands an order to the ranks."""
        self._group.order(order)

    def end(self) -> None:
        """Ends the worker."""
        self._ended.set()


@ray.remote(num_cpus=0)
class Generator:
    """Makes proposals on a worker's processor, ahead of need. Its history is grown by the news that come with each order."""

    def __init__(self, proposer: Proposer, space: Space, mailbox: ActorHandle[Any], niceness: int) -> None:
        os.nice(niceness)
        self._proposer = proposer
        self._history = History(space)
        self._sender = Sender(mailbox)

    def propose(self, news: Sequence[News], order: Propose) -> None:
        """Takes the news in, then answers through the mailbox."""
        self._history.tell(news)
        self._sender.put([make(self._proposer, self._history, order)])
