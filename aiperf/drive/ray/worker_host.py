"""Ray actor that hosts a worker: it starts the worker's training processes (ranks), and forwards their messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec
import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.data.dataset_config import DataSetConf
from aiperf.drive.ray.mailbox import Sender
from aiperf.drive.ray.shared_folder import check_shared
from aiperf.drive.ray.slots import Share, Slot
from aiperf.errors import AiperfError
from aiperf.files import host_name
from aiperf.journal.events import HelperLost, WorkerJoined
from aiperf.journal.messages import Drop, Message, Sum, Train
from aiperf.system.describe import describe, folders_of
from aiperf.system.log import path as telemetry_path
from aiperf.system.recorder import Recorder, Recording
from aiperf.train.ranks.protocol import Ready, Recipe
from aiperf.train.ranks.remote_ranks import DistantHost, HostProperties, HostRankServer, StartChanges
from aiperf.train.trainer_config import TrainerConf

NOWHERE = Slot("", "", 0, 0, 1)
PLACE_SECONDS = 300.0
"""Maximum time for an actor on another host to get its place and to answer."""
LOOKS_PER_SECOND = 200.0
"""Maximum polls per second of all other hosts together."""


class HostNotThere(AiperfError):
    """An additional host of a worker that does not answer. The worker cannot start."""


@ray.remote
class RankHost:
    """Ray actor on an additional host of a worker. It starts training processes (ranks) there, and ends with the worker."""

    def __init__(self, recipe: Recipe, recording: Recording) -> None:
        self._recipe = recipe
        self._recording = recording

    def hello(self, marker: str | None) -> HostProperties:
        if marker is not None:
            check_shared(self._recipe.run_folder, marker)
        self._outpost = HostRankServer(self._recipe)
        hello = self._outpost.hello()
        self._name = hello.name
        self._recorder = Recorder(msgspec.structs.replace(self._recording, host=hello.name))
        self._recorder.start()
        return hello

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of `HostRankServer`, which controls the training processes on this host."""
        answer = getattr(self._outpost, method)(*arguments)
        return replace(answer, host_messages=self._messages()) if isinstance(answer, StartChanges) else answer

    def close(self) -> None:
        self._outpost.close()
        self._recorder.stop()

    def _messages(self) -> tuple[Message, ...]:
        if (how := self._recorder.replaced()) is None:
            return ()
        return (HelperLost(worker=self._recipe.worker, helper="recorder", reason=f"on {self._name}: {how}"),)


class RankHosts:
    """Additional hosts of one worker that spans several nodes, each with its Ray actor."""

    def __init__(self, recipe: Recipe, hosts: Mapping[Share, Recording], marker: str | None) -> None:
        """Start an actor on each additional host, and return when all have answered."""
        self._actors: list[Any] = []
        try:
            for share, recording in hosts.items():
                self._actors.append(_actor(replace(recipe, cores=share.cores), share, recording))
            hellos = [actor.hello.remote(marker) for actor in self._actors]
            deadline = time.monotonic() + PLACE_SECONDS
            look = max(0.2, len(self._actors) / LOOKS_PER_SECOND)
            self.hosts = [
                _distant(share, actor, _answer(share, hello, deadline), look)
                for share, actor, hello in zip(hosts, self._actors, hellos, strict=True)
            ]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the training processes on all additional hosts, wait up to 5 s, and kill the actors. May be called again."""
        endings = [actor.close.remote() for actor in self._actors]
        if endings:
            ray.wait(endings, num_returns=len(endings), timeout=5.0)
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []


def _actor(recipe: Recipe, share: Share, recording: Recording) -> Any:
    options = RankHost.options(  # type: ignore[attr-defined]
        num_cpus=share.cores,
        num_gpus=share.accelerators,
        max_concurrency=8,  # poll() blocks until there is a message
        scheduling_strategy=NodeAffinitySchedulingStrategy(share.node, soft=False),
    )
    return options.remote(recipe, recording)


def _answer(share: Share, hello: ray.ObjectRef[Any], deadline: float) -> HostProperties:
    try:
        answer: HostProperties = ray.get(hello, timeout=max(0.0, deadline - time.monotonic()))
    except RayTaskError as error:
        if isinstance(error.cause, AiperfError):
            raise error.cause from error
        raise
    except RayError as error:
        why = " ".join(str(error).split()) or f"it has not answered within {PLACE_SECONDS:.0f} s"
        raise HostNotThere(
            f"a worker starts only with all of its hosts, but {share.address} does not answer: {why}. "
            "Check that this host is up and can be reached from the other hosts"
        ) from error
    return answer


def _distant(share: Share, actor: Any, hello: HostProperties, look_seconds: float) -> DistantHost:
    def call(method: str, *arguments: Any) -> Future[Any]:
        future: Future[Any] = actor.call.remote(method, *arguments).future()
        return future

    return DistantHost(hello.name, share.address, share.accelerators, hello.cores, call, look_seconds)


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    trainer: TrainerConf
    dataset: DataSetConf
    start_graph: str
    folder: Path
    started_unix: float
    worker: int = 0
    slot: Slot = NOWHERE
    """Place of the worker. It is set for each worker."""
    marker: str | None = None
    """Content of the driver's marker file in the run folder (`shared_folder.py`). None if it is not yet written."""
    driver: str | None = None
    """Identity of the driver's process. Recorders count its time as time of the run."""

    def recording(self, number: int = 0) -> Recording:
        """Return the options of the recorder on host `number` of the worker, 0 for this one."""
        return Recording(
            out=str(telemetry_path(self.folder, self.worker, number)),
            host=host_name(),
            worker=self.worker,
            epoch_unix=self.started_unix,
            accelerators=self.slot.shares[number].accelerators,
            driver=self.driver,
        )


class Group(Protocol):
    """Interface of a worker's ranks. RankGroup of aiperf.train.ranks.group implements it."""

    def start(self) -> Ready:
        """Wait until the ranks accept commands. Raise AiperfError for an error that the user can fix."""

    def order(self, order: Train | Drop | Sum) -> None:
        """Send a command (train, remove a checkpoint, report) to the ranks. Training runs in the background."""

    def messages(self, timeout: float) -> list[Message]:
        """Wait up to `timeout` seconds for the first message. If the ranks have ended and no message is left, raise."""

    def close(self) -> None:
        """End all ranks."""


OpenGroup = Callable[[WorkerPlan], Group]
"""Function that makes a worker's group in the host's process."""


def open_ranks(plan: WorkerPlan) -> Group:
    """Return the ranks (training processes) of a worker on all its hosts, not yet started."""
    from aiperf.train.ranks.group import RankGroup

    recipe = Recipe(plan.trainer, plan.dataset, plan.start_graph, plan.folder, plan.slot.cores, plan.worker)
    others = {share: plan.recording(number) for number, share in enumerate(plan.slot.others, 1)}
    rank_hosts = RankHosts(recipe, others, plan.marker)
    return RankGroup(
        recipe,
        accelerators=plan.slot.accelerators,
        address=plan.slot.address,
        others=rank_hosts.hosts,
        on_close=rank_hosts.close,
    )


@ray.remote
class WorkerHost:
    """Ray actor that hosts one worker (process group that trains networks)."""

    def __init__(self, plan: WorkerPlan, mailbox: ActorHandle[Any], open_group: OpenGroup) -> None:
        # Nothing here can fail: an error of a constructor reaches the driver without its type.
        self._plan = plan
        self._sender = Sender(mailbox)
        self._open_group = open_group
        self._group: Group | None = None
        self._refused: BaseException | None = None
        self._ended = threading.Event()

    def ping(self) -> None:
        """Do nothing. The call ends as soon as the actor is placed on its node and its process runs."""

    def run(self) -> None:
        """Start the worker's training processes, and forward their messages to the mailbox until `end` is called."""
        assert self._plan.marker is not None, "the executor writes its marker file before it asks for a worker"
        check_shared(self._plan.folder, self._plan.marker)
        self._recorder = Recorder(self._plan.recording())
        self._recorder.start()
        try:
            self._group = self._open_group(self._plan)
            try:
                self._pass_on(self._group)
            finally:
                self._group.close()
        finally:
            self._recorder.stop()
            self._sender.flush()

    def _pass_on(self, group: Group) -> None:
        ready = group.start()
        folders = folders_of(self._plan.folder, getattr(self._plan.dataset, "root", None))
        machine = msgspec.to_builtins(describe(folders))
        if ready.matmul_flops is not None:
            machine["measured_matmul_flops"] = {ready.precision: ready.matmul_flops}
        for name in ("memory_bytes_per_second", "bus_bytes_per_second"):
            if (figure := getattr(ready, name)) is not None:
                machine[f"measured_{name}"] = figure
        if ready.transport is not None:
            machine["exchange_transport"] = ready.transport
        self._sender.put(
            [
                WorkerJoined(
                    worker=self._plan.worker,
                    host=host_name(),
                    ranks=ready.ranks,
                    device=ready.device,
                    device_memory_bytes=ready.device_memory_bytes,
                    collective=ready.collective,
                    machine=machine,
                    hosts=ready.hosts,
                )
            ]
        )
        while not self._ended.is_set():
            if self._refused is not None:
                raise self._refused
            messages = group.messages(0.5)
            if (how := self._recorder.replaced()) is not None:
                messages.append(HelperLost(worker=self._plan.worker, helper="recorder", reason=how))
            if messages or not self._sender.is_done:
                self._sender.put(messages)

    def order(self, order: Train | Drop | Sum) -> None:
        """Send a command (train, remove a checkpoint, report) to the worker's training processes."""
        assert self._group is not None, f"worker {self._plan.worker} received an order before it was up"
        try:
            self._group.order(order)
        except BaseException as error:
            if isinstance(order, Train):
                self._refused = error
            raise

    def end(self) -> None:
        """Request the end of the worker. A worker whose training processes still start ends after their start."""
        self._ended.set()
