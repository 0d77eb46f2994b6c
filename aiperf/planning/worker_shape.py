"""What a worker has, and what a plan asks of it. The value itself stands in a journal's first line: `events.WorkerShape`.

A plan is made of the workers' shape, never of the machine where the command was typed: ranks bound the batch, the memory of
the smallest accelerator bounds what may be proposed. A worker that comes later is held to the plan as it was made. One that
breaks a law of docs/benchmark.md is refused, with the reason; one that is merely unlike it is taken, and a warning names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted, WorkerShape
from aiperf.journal.messages import WorkerUp
from aiperf.rules.search_space import STEPS
from aiperf.system.describe import System
from aiperf.train.trainer_config import TrainerConf, ranks_of_worker


def accelerators_declared(declared: int | str | None) -> int | None:
    """How many accelerators a worker is said to have (accelerators_per_worker); None: all of a node, or of all nodes."""
    return declared if isinstance(declared, int) else None


def shape_of(
    system: System, accelerators: int, cores: int, trainer: TrainerConf, declared_bytes: int | None, source: str
) -> WorkerShape:
    """A worker of so many accelerators and cores on a host. `declared_bytes`: budget.memory_bytes, which need not be read.

    Raises:
        BadConfiguration: more ranks than accelerators, or accelerators whose memory cannot be read.
    """
    ranks = ranks_of_worker(trainer, accelerators, cores)
    if accelerators and ranks > accelerators:
        raise BadConfiguration(
            f"a rank needs an accelerator of its own; found trainer.ranks={ranks} for {accelerators}: use at most that many"
        )
    limit = trainer.memory_limit_bytes
    known = [device.memory_bytes for device in system.accelerators if device.memory_bytes is not None]
    if declared_bytes is not None:
        memory = declared_bytes
    elif limit is not None:
        memory = limit
    elif not accelerators:
        memory = system.usable_memory_bytes // ranks
    elif known:
        memory = min(known)
    else:
        raise BadConfiguration(
            f"the budget is made of the smallest accelerator's memory; on {system.host} it cannot be read "
            f"({', '.join(f'{name}: {why}' for name, why in system.not_sampled.items()) or 'no sampler shows any'}). "
            "Say it: budget.memory_bytes=…"
        )
    device = system.accelerators[0].model if accelerators and system.accelerators else system.cpu_model
    return WorkerShape(
        source=source,
        device=device or "unknown",
        accelerators=accelerators,
        ranks=ranks,
        cores=cores,
        memory_bytes=memory,
    )


def together(hosts: Sequence[WorkerShape], source: str) -> WorkerShape:
    """That of a worker which has these on its hosts."""
    return WorkerShape(
        source=source,
        device=", ".join(sorted({shape.device for shape in hosts})),
        accelerators=sum(shape.accelerators for shape in hosts),
        ranks=sum(shape.ranks for shape in hosts),
        cores=sum(shape.cores for shape in hosts),
        memory_bytes=min(shape.memory_bytes for shape in hosts),
    )


def common(shapes: Sequence[WorkerShape], source: str) -> WorkerShape:
    """What a plan for all of these is made of: the least memory and cores, the most ranks."""
    widest = max(shapes, key=lambda shape: shape.ranks)
    return WorkerShape(
        source=source,
        device=", ".join(sorted({shape.device for shape in shapes})),
        accelerators=widest.accelerators,
        ranks=widest.ranks,
        cores=min(shape.cores for shape in shapes),
        memory_bytes=min(shape.memory_bytes for shape in shapes),
    )


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run's plan asks of each worker."""

    memory_bytes: int | None
    """Of one rank at least: the budget's, up to which networks are proposed. None: the user has said how much."""
    most_ranks: int | None
    """With more, the largest batch that may be proposed would leave fewer than STEPS steps an epoch. None: the user has said
    the largest batch, or the journal does not hold the plan's ranks."""


def terms_of(started: RunStarted) -> Terms:
    """Those of a run, from its first line."""
    space: dict[str, Any] = started.config["space"]
    config, most = started.config, None
    if started.shape is not None and config["batch"]["largest"] is None:
        most = max(
            started.shape.ranks, started.dataset["training_images"] // (STEPS * int(space["largest_batch_size"]))
        )
    memory = space["budget"]["memory_bytes"] if config["budget"]["memory_bytes"] is None else None
    return Terms(memory, most)


def breach(terms: Terms, up: WorkerUp, accelerators: int) -> str | None:
    """Why a worker that is ready may not train in a run of these terms; None: it may."""
    if terms.most_ranks is not None and up.ranks > terms.most_ranks:
        return (
            f"the plan allows {terms.most_ranks} ranks a worker, or an epoch would have fewer than {STEPS} steps; it has "
            f"{up.ranks}: begin a run with such workers from its start, or give batch.largest"
        )
    if terms.memory_bytes is None:
        return None
    # A processor's worker says what memory is free just now; the plan, like a container's limit, is of what it may use.
    on_host = -(-up.ranks // max(1, len(up.hosts)))
    memory = up.device_memory_bytes if accelerators else int(up.machine["usable_memory_bytes"]) // on_host
    if memory < terms.memory_bytes:
        return (
            f"networks are proposed up to {terms.memory_bytes} bytes of training memory; a rank here has {memory}: begin a run "
            "with such workers from its start, or give budget.memory_bytes"
        )
    return None
