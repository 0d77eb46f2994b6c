"""One worker as the driver's side holds it: its place, its actor, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.drive.ray.actors import OpenGroup, WorkerHost, WorkerPlan
from aiperf.drive.ray.slots import Slot
from aiperf.errors import AiperfError
from aiperf.rules.proposals import Proposer
from searchers.history import Space


@dataclass(frozen=True, slots=True)
class Making:
    """What all workers are made of."""

    plan: WorkerPlan
    """Place and number are filled in for each."""
    proposer: Proposer
    space: Space
    open_group: OpenGroup


@dataclass(slots=True)
class RayWorker:
    """A worker's actor, and what is known of it."""

    number: int
    slot: Slot
    host: Any
    """A handle; its stubs (Ray 2.60) take every method of an actor for one that never returns."""
    stands: ray.ObjectRef[Any]
    """Done when the host's actor has its place."""
    life: ray.ObjectRef[Any]
    """Done when the worker has ended."""
    began: float
    """On the executor's clock."""
    up: float | None = None
    """When the driver learnt that it is up."""
    has_place: bool = False


def bring_up(making: Making, number: int, slot: Slot, mailbox: ActorHandle[Any], now: float) -> RayWorker:
    """Asks for a worker at a place, by the node's name: no placement group is needed where all of it lies on one node. Returns
    at once."""
    plan = replace(making.plan, worker=number, accelerators=slot.accelerators, cores=slot.cores)
    plan = replace(plan, address=slot.address, others=slot.others)
    host = WorkerHost.options(  # type: ignore[attr-defined]
        num_cpus=slot.cores,
        num_gpus=slot.accelerators,
        max_concurrency=4,  # live() never returns while orders come
        scheduling_strategy=NodeAffinitySchedulingStrategy(slot.node, soft=False),
    ).remote(plan, mailbox, making.open_group)
    return RayWorker(number, slot, host, host.stands.remote(), host.live.remote(), now)


def remove(workers: Sequence[RayWorker]) -> None:
    """Ends their processes, and gives their places back."""
    for worker in workers:
        ray.kill(worker.host)


def end_of(worker: RayWorker) -> tuple[str, AiperfError | None]:
    """Why a worker ended; and the error, if it is one that the user can fix."""
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
    """What an error that went through Ray was in the actor."""
    return str(error).strip().splitlines()[-1]
