"""One worker as the driver's side holds it: its place, its actors, and what they have been asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from aiperf.drive.ray.actors import Generator, OpenGroup, WorkerHost, WorkerPlan
from aiperf.drive.ray.slots import Slot
from aiperf.errors import AiperfError
from aiperf.rules.proposals import Proposer
from searchers.history import Space

GENERATOR_NICENESS = 10
"""Where ranks and generator share cores training goes first: the next proposal is asked for just when a trial is prepared."""


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
    """A worker's actors, and how many of the observations its generator has."""

    slot: Slot
    group: PlacementGroup
    host: Any
    """Actor handles; their stubs (Ray 2.60) take every method of an actor for one that never returns."""
    generator: Any
    stands: ray.ObjectRef[Any]
    """Done when the host's actor has its place."""
    life: ray.ObjectRef[Any]
    """Done when the worker has ended."""
    began: float
    """On the executor's clock."""
    up: float | None = None
    """When the driver learnt that it is up."""
    has_place: bool = False
    observations_sent: int = 0
    """How many observations its generator has been given."""
    proposing: tuple[tuple[int, ray.ObjectRef[Any]], ...] = ()
    """Numbers it was asked for, and the calls."""


def bring_up(making: Making, number: int, slot: Slot, mailbox: ActorHandle[Any], now: float) -> RayWorker:
    """Asks for a worker at a place; returns at once."""
    group = placement_group([slot.bundle()], strategy="STRICT_PACK")
    plan = replace(making.plan, worker=number, accelerators=slot.accelerators, cores=slot.cores)
    host = WorkerHost.options(  # type: ignore[attr-defined]
        num_cpus=slot.cores,
        num_gpus=slot.accelerators,
        max_concurrency=4,  # live() never returns while orders come
        scheduling_strategy=PlacementGroupSchedulingStrategy(group),
    ).remote(plan, mailbox, making.open_group)
    stands, life = host.stands.remote(), host.live.remote()
    return RayWorker(slot, group, host, new_generator(making, group, mailbox), stands, life, now)


def new_generator(making: Making, group: PlacementGroup, mailbox: ActorHandle[Any]) -> ActorHandle[Any]:
    """A generator that knows nothing yet, on the worker's node."""
    actor: ActorHandle[Any] = Generator.options(  # type: ignore[attr-defined]
        scheduling_strategy=PlacementGroupSchedulingStrategy(group)
    ).remote(making.proposer, making.space, mailbox, GENERATOR_NICENESS)
    return actor


def remove(worker: RayWorker) -> None:
    """Ends its processes and gives its place back."""
    ray.kill(worker.host)
    ray.kill(worker.generator)
    remove_placement_group(worker.group)


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
