"""Worker as the driver sees it: its place, its actor, and the reason of its end."""

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
class WorkerParameters:
    """Common parameters of all workers."""

    plan: WorkerPlan
    """Place and number are set for each worker."""
    proposer: Proposer
    space: Space
    open_group: OpenGroup


@dataclass(slots=True)
class RayWorker:
    """Actor of a worker, and its state."""

    number: int
    slot: Slot
    host: Any
    """Actor handle. Typed Any, since Ray's stubs (2.60) declare every method of an actor as never returning."""
    stands: ray.ObjectRef[Any]
    """Finished when the host's actor has its place."""
    life: ray.ObjectRef[Any]
    """Finished when the worker has ended."""
    began: float
    """Time of the request, on the executor's clock."""
    up: float | None = None
    """Time at which the driver received WorkerJoined. None before."""
    has_place: bool = False


def bring_up(making: WorkerParameters, number: int, slot: Slot, mailbox: ActorHandle[Any], now: float) -> RayWorker:
    """Request a worker at a place, by node affinity.

    A placement group is not needed, since the actor fits on one node. Return at once.
    """
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
    """End their processes and release their places."""
    for worker in workers:
        ray.kill(worker.host)


def end_of(worker: RayWorker) -> tuple[str, AiperfError | None]:
    """Return the reason of a worker's end, and the error if the user can fix it."""
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
    """Return the message of an error as the actor raised it."""
    return str(error).strip().splitlines()[-1]
