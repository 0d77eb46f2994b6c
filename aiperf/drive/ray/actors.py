"""The actors on a node: a worker's host, which holds its ranks for the whole run, and the generator, which makes proposals."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import ray
from ray.actor import ActorHandle

from aiperf.data.dataset_config import DataSetConf
from aiperf.drive.ray.mailbox import Sender
from aiperf.drive.ray.news import Heard, Parcel
from aiperf.drive.ray.shared_folder import check_shared
from aiperf.drive.ray.slots import Share
from aiperf.journal.messages import (
    Crashed,
    Done,
    Drop,
    HelperDown,
    Propose,
    Proposed,
    Sum,
    Train,
    Unproposed,
    Word,
    WorkerUp,
)
from aiperf.rules.proposals import Proposer, make
from aiperf.scratch import MARK
from aiperf.system import telemetry
from aiperf.system.describe import describe, folders_of
from aiperf.system.recorder import Recorder
from aiperf.system.shipping import Shipment
from aiperf.train.peak_again import measured_again
from aiperf.train.ranks.protocol import Ready
from aiperf.train.trainer_config import TrainerConf
from searchers.history import History, Space

RECORDER_SECONDS = 10.0
"""Between two recorders at least: one that dies at once, as beside a broken driver of an accelerator, fills no journal."""


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
    records_locally: bool = False
    """Telemetry is recorded on the own disk of the host, and shipped at the end of each trial and of the worker."""
    word: str | None = None
    """What stands in the run's folder for all workers to see; None: it has not been written yet."""
    address: str = ""
    """Of the worker's node, as the cluster reaches it."""
    driver: str | None = None
    """The identity of the driver's process, so that recorders know its time for the run's own."""
    others: tuple[Share, ...] = ()
    """What the worker has of other nodes; those that stand above are of the one that leads."""


class Group(Protocol):
    """What a host needs of those that train: `aiperf.train.ranks.group.RankGroup` says what each method does."""

    def start(self) -> Ready:
        """Blocks until orders can be taken."""
        ...

    def order(self, order: Train | Drop | Sum) -> None:
        """Takes an order."""
        ...

    def words(self, timeout: float) -> list[Word]:
        """What was said since; raises when it cannot go on and all is said."""
        ...

    def close(self) -> None:
        """Ends them."""
        ...


OpenGroup = Callable[[WorkerPlan], Group]
"""Makes a worker's group in the host's own process; a function of a module, since it travels there by name."""


def open_ranks(plan: WorkerPlan) -> Group:
    """The ranks that train in a real run, on all of the worker's hosts."""
    from aiperf.drive.ray.rank_hosts import RankHosts
    from aiperf.train.ranks.group import RankGroup
    from aiperf.train.ranks.host_ranks import Recipe

    recipe = Recipe(plan.trainer, plan.dataset, plan.start_graph, plan.folder, plan.cores, plan.worker)
    rank_hosts = RankHosts(recipe, plan.others, plan.started_unix, plan.word, plan.driver)
    return RankGroup(
        plan.trainer,
        plan.dataset,
        plan.start_graph,
        plan.folder,
        accelerators=plan.accelerators,
        cores=plan.cores,
        worker=plan.worker,
        address=plan.address,
        others=rank_hosts.hosts,
        on_close=rank_hosts.close,
    )


@ray.remote
class WorkerHost:
    """Exists as long as its worker. All that it tells the driver goes through the mailbox."""

    def __init__(self, plan: WorkerPlan, mailbox: ActorHandle[Any], open_group: OpenGroup) -> None:
        # Nothing here can fail: an error of a constructor reaches the driver without its type.
        self._plan = plan
        self._sender = Sender(mailbox)
        self._open_group = open_group
        self._group: Group | None = None
        self._refused: BaseException | None = None
        self._recorder_began = 0.0
        """When a dead one was replaced last."""
        self._shipment: Shipment | None = None
        self._ended = threading.Event()
        self._ready: Ready | None = None
        self._stopped = threading.Event()
        """Its ranks have ended, and its recorder."""

    def stands(self) -> None:
        """Returns as soon as this actor has got its place."""

    def live(self) -> None:
        """Brings the ranks up and passes their words on; returns when the worker was ended, raises when it cannot go on.

        All words have reached the mailbox then.
        """
        assert self._plan.word is not None, "the executor leaves its word before it asks for a worker"
        check_shared(self._plan.folder, self._plan.word)
        with self._own_disk():
            self._recorder = self._new_recorder()
            try:
                self._group = self._open_group(self._plan)
                try:
                    self._pass_on(self._group)
                finally:
                    self._group.close()
            finally:
                self._recorder.stop()
                self._stopped.set()
                self._ship()
                self._sender.flush()

    @contextmanager
    def _own_disk(self) -> Iterator[None]:
        """A folder for telemetry on this host, where it is recorded there: in that of its Ray, which goes with the run."""
        if not self._plan.records_locally:
            yield
            return
        of_ray = os.environ.get(MARK)
        with tempfile.TemporaryDirectory(prefix="telemetry-", dir=of_ray) as folder:
            shared = telemetry.path(self._plan.folder, self._plan.worker)
            self._shipment = Shipment(Path(folder) / shared.name, shared)
            yield

    def _ship(self) -> None:
        """What the shared file system does not take now is tried again with the next trial's: no worker ends of it."""
        if self._shipment is not None:
            try:
                self._shipment.ship()
            except OSError as error:
                print(f"telemetry of worker {self._plan.worker} was not shipped: {error}", file=sys.stderr, flush=True)

    def _new_recorder(self) -> Recorder:
        shared = telemetry.path(self._plan.folder, self._plan.worker)
        recorder = Recorder(
            shared if self._shipment is None else self._shipment.local,
            host=socket.gethostname(),
            worker=self._plan.worker,
            epoch_unix=self._plan.started_unix,
            accelerators=self._plan.accelerators,
            driver=self._plan.driver,
        )
        recorder.start()
        return recorder

    def _look_at_recorder(self, now: float) -> list[Word]:
        """Replaces a recorder that died, though not too often, and tells the driver of each that died."""
        if (how := self._recorder.end_in_words()) is None or now - self._recorder_began < RECORDER_SECONDS:
            return []
        self._recorder, self._recorder_began = self._new_recorder(), now
        return [HelperDown(worker=self._plan.worker, helper="recorder", reason=how)]

    def _pass_on(self, group: Group) -> None:
        self._ready = ready = group.start()
        folders = folders_of(self._plan.folder, getattr(self._plan.dataset, "root", None))
        machine = msgspec.to_builtins(describe(folders))
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
                    hosts=ready.hosts,
                )
            ],
        )
        while not self._ended.is_set():
            if self._refused is not None:
                raise self._refused
            words = [*group.words(0.5), *self._look_at_recorder(time.monotonic())]
            if words or not self._sender.is_read:
                self._sender.put(words)
            if any(isinstance(word, Done | Crashed) for word in words):
                self._ship()

    def order(self, order: Train | Drop | Sum) -> None:
        """Hands an order to the ranks. One that they cannot take ends the worker: the trial must not wait for ever."""
        assert self._group is not None, f"worker {self._plan.worker} was given an order before it said that it is up"
        try:
            self._group.order(order)
        except BaseException as error:
            if isinstance(order, Train):
                self._refused = error
            raise

    def end(self) -> None:
        """Ends the worker."""
        self._ended.set()

    def peak_again(self, seconds: float) -> float | None:
        """Where its processors were measured when it came up: ends the worker, then measures them once more, in FLOPS of one
        rank. None: they were not, or not within so many seconds."""
        ready, hosts = self._ready, 1 + len(self._plan.others)
        if ready is None or ready.matmul_flops is None:
            return None
        deadline = time.monotonic() + seconds
        self._ended.set()
        if not self._stopped.wait(seconds):
            return None
        ranks = max(1, ready.ranks // hosts)
        threads = self._plan.trainer.threads or max(1, self._plan.cores // ranks)
        return measured_again(ranks, threads, ready.precision, max(0.0, deadline - time.monotonic()))


@ray.remote(num_cpus=0)
class Generator:
    """Makes proposals on a processor of a node, ahead of need. Each order brings the news that its history lacks."""

    def __init__(self, proposer: Proposer, space: Space, mailbox: ActorHandle[Any], niceness: int) -> None:
        os.nice(niceness)
        self._proposer = proposer
        self._history = History(space)
        self._heard = Heard()
        self._sender = Sender(mailbox)

    def propose(self, parcel: Parcel, order: Propose) -> Proposed | Unproposed:
        """Takes the news in, then leaves its answer in the mailbox, where the driver waits for it.

        The answer is returned as well: if the mailbox dies before the driver has read it, this is the only copy.
        """
        self._history.tell(self._heard.take(parcel))
        answer = make(self._proposer, self._history, order)
        self._sender.put([answer])
        self._sender.flush()
        return answer
