"""Shape of workers (accelerators, ranks, cores, memory), and the requirements of a run's plan for new workers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from aiperf.config import RunConf
from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted, WorkerJoined, WorkerShape
from aiperf.planning.buildable import require_packages
from aiperf.rules.limits import STEPS
from aiperf.system.describe import HostDescription, describe_usable
from aiperf.system.samplers import VISIBILITY
from aiperf.train.trainer_config import TrainerConf, ranks_of_worker


def shape_of(
    system: HostDescription,
    accelerators: int,
    cores: int,
    trainer: TrainerConf,
    declared_bytes: int | None,
    source: str,
) -> WorkerShape:
    """Return the shape of a worker on one host: its accelerators, ranks (data-parallel processes), cores, and memory per rank.

    Args:
        system: description of the host.
        accelerators: number of accelerators of the worker, 0 without.
        cores: number of processor cores of the worker.
        trainer: options of the training, with the number of ranks and the memory limit.
        declared_bytes: option budget.memory_bytes, the memory of a rank in bytes. None: the limit in `trainer`, or without
            one the memory of the host.
        source: origin of the shape as text, for the plan.

    Raises:
        BadConfiguration: there are more ranks than accelerators, or the memory of the accelerators cannot be read.
    """
    ranks = ranks_of_worker(trainer, accelerators, cores)
    if accelerators and ranks > accelerators:
        raise BadConfiguration(
            f"each rank needs its own accelerator, but found trainer.ranks={ranks} for {accelerators}: use at most that many"
        )
    limit = trainer.memory_limit_bytes
    is_shared = any(device.is_memory_shared for device in system.accelerators)
    known = [device.memory_bytes for device in system.accelerators if device.memory_bytes is not None]
    if declared_bytes is not None:
        memory = declared_bytes
    elif limit is not None:
        memory = limit
    elif not accelerators or is_shared:
        memory = system.usable_memory_bytes // ranks
    elif known:
        memory = min(known)
    else:
        answers = {
            each.model or f"accelerator {each.index}": each.memory_why_not
            for each in system.accelerators
            if each.memory_why_not
        }
        reasons = ", ".join(f"{name}: {why}" for name, why in (answers or system.not_sampled).items())
        raise BadConfiguration(
            f"the budget needs the memory of the smallest accelerator, which cannot be read on {system.host} "
            f"({reasons or 'no sampler shows any'}). "
            "Set it: budget.memory_bytes=…"
        )
    device = system.accelerators[0].model if accelerators and system.accelerators else system.cpu_model
    return WorkerShape(
        source="; ".join([source, *["memory shared with the host"] * is_shared, *system.driver_faults]),
        device=device or "unknown",
        accelerators=accelerators,
        ranks=ranks,
        cores=cores,
        memory_bytes=memory,
    )


def this_machine(conf: RunConf) -> WorkerShape:
    """Return the shape of a worker on this machine: its accelerators, ranks, cores, and memory per rank."""
    system = describe_usable()
    if conf.executor != "inline":
        require_owned(system)
    declared = conf.accelerators_per_worker if isinstance(conf.accelerators_per_worker, int) else 0
    if declared > len(system.accelerators):
        raise BadConfiguration(
            f"a worker on one machine can have at most the accelerators that this process may use, but found "
            f"accelerators_per_worker={declared}, and {len(system.accelerators)} are usable: leave it out to use all"
        )
    trainer = replace(conf.trainer, ranks=1) if conf.executor == "inline" else conf.trainer
    accelerators = declared or len(system.accelerators)
    for option, count in (("ranks", trainer.ranks), ("threads", trainer.threads)):
        if count is not None and count > system.usable_processors and not accelerators:
            raise BadConfiguration(
                f"without accelerators each rank and thread needs a processor, but found trainer.{option}={count}, and this "
                f"machine has {system.usable_processors} usable: use at most that number, or leave it out"
            )
    require_packages(conf)
    source = f"this machine, {system.host}"
    return shape_of(system, accelerators, system.usable_processors, trainer, conf.budget.memory_bytes, source)


def owned_accelerators(environment: Mapping[str, str]) -> tuple[int, str]:
    """Return the number of accelerators that a scheduler's job owns on this host, and the variable that tells it. 0: unknown.

    AIPERF_GPUS is set by the scripts and manifests of +cluster: a number, or Slurm's gpu:h100:8. The others are Slurm's.

    >>> owned_accelerators({"AIPERF_GPUS": "gpu:a100:2,gpu:h100:2"}), owned_accelerators({"SLURM_JOB_GPUS": "4,5"})
    ((4, 'AIPERF_GPUS=gpu:a100:2,gpu:h100:2'), (2, 'SLURM_JOB_GPUS=4,5'))
    """
    for name in ("AIPERF_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        entries = [entry for entry in environment.get(name, "").split(",") if entry]
        ends = [entry.rpartition(":")[2] for entry in entries]
        numbers = [int(end) if end.isdecimal() and len(end) < 7 else 1 for end in ends]
        if count := sum(numbers) if name in ("AIPERF_GPUS", "SLURM_GPUS_ON_NODE") else len(entries):
            return count, f"{name}={environment[name]}"
    return 0, ""


def require_owned(system: HostDescription, environment: Mapping[str, str] = os.environ) -> None:
    """Check that a run within a scheduler's job can use the accelerators that the job owns on this host."""
    owned, source = owned_accelerators(environment)
    selections = [environment[name] for names in VISIBILITY.values() for name in names if name in environment]
    if "" in selections or not owned:
        return
    # CUDA shows a process one of several slices
    wanted = min([owned, *(1 if "MIG-" in selected else selected.count(",") + 1 for selected in selections)])
    usable, torch = len(system.accelerators), system.versions.get("torch", "")
    if usable >= wanted and not torch.endswith("+cpu"):
        return
    reasons = [f"{name}: {why}" for name, why in system.not_sampled.items()] if usable < wanted else []
    reasons += [f"torch {torch} is built for processors"] if torch.endswith("+cpu") else []
    raise BadConfiguration(
        f"a run uses the accelerators that its job owns, {wanted} on {system.host} ({source}), but found {usable} usable "
        f"({', '.join(reasons) or 'no sampler shows more'}). Correct the driver, the options of the container (--nv) or the "
        "build of torch (docs/setup.md, GPUs), or set CUDA_VISIBLE_DEVICES= to train on processors"
    )


def together(hosts: Sequence[WorkerShape], source: str) -> WorkerShape:
    """Return the shape of one worker that uses several hosts: sums of accelerators, ranks and cores, least memory of a rank."""
    return WorkerShape(
        source=source,
        device=", ".join(sorted({shape.device for shape in hosts})),
        accelerators=sum(shape.accelerators for shape in hosts),
        ranks=sum(shape.ranks for shape in hosts),
        cores=sum(shape.cores for shape in hosts),
        memory_bytes=min(shape.memory_bytes for shape in hosts),
    )


def common(shapes: Sequence[WorkerShape], source: str) -> WorkerShape:
    """Return one shape: least memory and cores, ranks and accelerators of the widest worker. `source`: text for the plan."""
    widest = max(shapes, key=lambda shape: shape.ranks)
    return msgspec.structs.replace(
        together(shapes, source),
        accelerators=widest.accelerators,
        ranks=widest.ranks,
        cores=min(shape.cores for shape in shapes),
    )


@dataclass(frozen=True, slots=True)
class WorkerRequirements:
    """Limits that a run's plan sets for each worker: least memory of a rank, and largest number of ranks."""

    memory_bytes: int | None
    """Least memory of one rank, from the budget that limits proposed networks. None if the user has set it."""
    most_ranks: int | None
    """With more ranks, the largest batch would leave fewer than STEPS steps per epoch. None if the user has set the largest
    batch, or the journal does not record the plan's ranks."""


def terms_of(started: RunStarted) -> WorkerRequirements:
    """Return the limits for workers of a run: least memory of a rank and most ranks."""
    space: dict[str, Any] = started.config["space"]
    config, most = started.config, None
    if started.shape is not None and config["batch"]["largest"] is None:
        most = max(
            started.shape.ranks, started.dataset["training_images"] // (STEPS * int(space["largest_batch_size"]))
        )
    memory = space["budget"]["memory_bytes"] if config["budget"]["memory_bytes"] is None else None
    return WorkerRequirements(memory, most)


def breach(terms: WorkerRequirements, up: WorkerJoined, accelerators: int) -> str | None:
    """Return the reason why a worker may not train in a run, as text with the fix. None if it may."""
    if terms.most_ranks is not None and up.ranks > terms.most_ranks:
        return (
            f"the plan allows {terms.most_ranks} ranks per worker, or an epoch would have fewer than {STEPS} steps. It has "
            f"{up.ranks}: begin a run with such workers from its start, or set batch.largest"
        )
    if terms.memory_bytes is None:
        return None
    # A processor worker reports its free memory. The plan, like a container's limit, uses the memory that it may use.
    on_host = -(-up.ranks // max(1, len(up.hosts)))
    memory = up.device_memory_bytes if accelerators else int(up.machine["usable_memory_bytes"]) // on_host
    if memory < terms.memory_bytes:
        return (
            f"networks are proposed up to {terms.memory_bytes} bytes of training memory. A rank here has {memory}: begin a run "
            "with such workers from its start, or set budget.memory_bytes"
        )
    return None
