"""Workers from the driver's point of view: Ray actor, place, state, and reason of the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.drive.ray.slots import Slot
from aiperf.drive.ray.worker_host import OpenGroup, WorkerHost, WorkerPlan
from aiperf.errors import AiperfError
from aiperf.rules.proposals import Proposer
from searchers.history import Space

LEAVE_SECONDS = 10.0
"""Maximum time for a released worker to end by itself."""

Call = ray.ObjectRef[Any]


@dataclass(frozen=True, slots=True)
class WorkerParameters:
    plan: WorkerPlan
    """Place and number are set for each worker."""
    proposer: Proposer
    space: Space
    open_group: OpenGroup


@dataclass(slots=True)
class RayWorker:
    """A worker (process group that trains networks): the Ray actor that hosts it, its place and its state."""

    number: int
    slot: Slot
    host: Any
    """Actor handle. Typed Any, since Ray's stubs (2.60) declare every method of an actor as never returning."""
    ping: Call
    """Ray call that ends when the worker's actor is placed on its node."""
    life: Call
    began: float
    """Time of the request, on the executor's clock."""
    up: float | None = None
    """Time at which the driver received WorkerJoined. None before."""
    has_place: bool = False


class ExecutorWorkers(dict[int, RayWorker]):
    """Workers of one executor by number: those that are starting or up."""

    def __init__(self) -> None:
        super().__init__()
        self._leaving: dict[Call, tuple[RayWorker, float]] = {}
        """Released workers with the time of the release, by life call."""
        self._placed: dict[str, float] = {}
        """Time at which an actor last got its place, by node."""

    @property
    def up(self) -> list[RayWorker]:
        return [worker for worker in self.values() if worker.up is not None]

    def calls(self) -> list[Call]:
        """Return the open Ray calls of all workers. Released workers that have not ended are included."""
        waiting = (worker.ping for worker in self.values() if not worker.has_place)
        return [*(worker.life for worker in self.values()), *waiting, *self._leaving]

    def answered(self, done: Collection[Call], now: float) -> None:
        """Record at time `now` that actors were placed on their nodes: those with their call `ping` in `done`."""
        for worker in self.values():
            if not worker.has_place and worker.ping in done:
                worker.has_place = True
                self._placed[worker.slot.node] = now

    def waited(self, worker: RayWorker, now: float) -> float:
        """Return the seconds for which a worker has waited for its actor to be placed on a node."""
        return now - max(worker.began, self._placed.get(worker.slot.node, worker.began))

    def remove(self, number: int, now: float) -> RayWorker:
        """Request the end of worker `number`, move it to the released workers, and return it. Does not wait for its end."""
        worker = self.pop(number)
        worker.host.end.remote()
        self._leaving[worker.life] = (worker, now)
        return worker

    def left(self, done: Collection[Call], now: float) -> list[RayWorker]:
        """Remove and return the released workers that have ended (their call `life` is in `done`) or exceeded 10 s."""
        over = [call for call, (_, since) in self._leaving.items() if call in done or now - since > LEAVE_SECONDS]
        return [self._leaving.pop(call)[0] for call in over]

    def await_those_that_leave(self, timeout: float) -> list[RayWorker]:
        """Wait up to `timeout` seconds for the end of the released workers. Remove and return all of them."""
        if self._leaving:
            ray.wait(list(self._leaving), num_returns=len(self._leaving), timeout=timeout)
        workers = [worker for worker, _ in self._leaving.values()]
        self._leaving = {}
        return workers


def bring_up(making: WorkerParameters, number: int, slot: Slot, mailbox: ActorHandle[Any], now: float) -> RayWorker:
    """Return the worker before its ranks are ready. The actor fits on one node, so that no placement group is needed."""
    plan = replace(making.plan, worker=number, slot=slot)
    host = WorkerHost.options(  # type: ignore[attr-defined]
        num_cpus=slot.cores,
        num_gpus=slot.accelerators,
        max_concurrency=4,  # run() never returns while orders come
        scheduling_strategy=NodeAffinitySchedulingStrategy(slot.node, soft=False),
    ).remote(plan, mailbox, making.open_group)
    return RayWorker(number, slot, host, host.ping.remote(), host.run.remote(), now)


def remove(workers: Sequence[RayWorker]) -> None:
    """Kill the actors of these workers, which ends their processes and releases their resources."""
    for worker in workers:
        ray.kill(worker.host)


def end_of(worker: RayWorker) -> tuple[str, AiperfError | None]:
    """Return the reason of a worker's end as text, and the error that the user can fix, or None."""
    where = f"on {worker.slot.address}"
    try:
        ray.get(worker.life)
    except RayTaskError as error:
        if isinstance(error.cause, AiperfError):
            return f"{where}: {error.cause}", error.cause
        return f"{where}: {last_line(error)}", None
    except RayActorError as error:
        return f"its host actor {where} died: {' '.join(str(error).split())}", None
    return f"its host actor {where} ended", None


def last_line(error: RayError) -> str:
    return str(error).strip().splitlines()[-1]
