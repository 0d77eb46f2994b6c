"""Description of one machine, without torch and Ray: short for runs (`describe`), full to compare nodes (`describe_node`)."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import psutil

from aiperf.files import host_name
from aiperf.system import node_parts
from aiperf.system.control_groups import ControlGroupLimits, limits_here, usable_processors
from aiperf.system.host import cpu_model
from aiperf.system.network import network, pci
from aiperf.system.node_parts import Part, unread
from aiperf.system.sampler import Device
from aiperf.system.samplers import require_known, sampled_accelerators, usable
from aiperf.system.samplers.nvml import slice_bytes

PACKAGES = (
    "aiperf-cluster", "torch", "torchvision", "ray", "optuna", "horovod", "numpy", "scipy", "msgspec", "hydra-core",
    "nvidia-ml-py", "amdsmi", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime",
    "nvidia-cudnn-cu12", "nvidia-cudnn-cu13",
)  # fmt: skip

# Variables that identify a scheduler. Names and sizes only, no secrets.
SCHEDULER_VARIABLES = (
    "SLURM_JOB_ID", "SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_NUM_NODES", "SLURM_NODEID",
    "SLURM_CPUS_ON_NODE", "SLURM_JOB_GPUS", "KUBERNETES_SERVICE_HOST", "RAY_CLUSTER_NAME",
)  # fmt: skip


class HostDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One host as seen by the describing process. None if a value cannot be determined."""

    host: str
    cpu_model: str | None
    cores: int | None
    processors: int
    """Logical processors of the host."""
    usable_processors: int
    """Whole logical processors that this process may use: CPU affinity and control-group quota (rounded down), at least 1."""
    memory_bytes: int
    usable_memory_bytes: int
    limits: ControlGroupLimits
    os: str
    kernel: str
    architecture: str
    python: str
    accelerators: tuple[Device, ...]
    """All accelerators that samplers report on this host, including those that this process may not use."""
    not_sampled: dict[str, str]
    """Samplers that could not be opened, with the reason. Without them, "no accelerators" means "none visible"."""
    driver_faults: tuple[str, ...] = ()
    """Reason and fix for each kind of accelerator that the host has but cannot use."""
    versions: dict[str, str]
    container: str | None
    scheduler: dict[str, str]
    boot_id: str | None = None
    storage: tuple[Storage, ...] = ()


def describe(folders: Mapping[str, Path] | None = None) -> HostDescription:
    """Return the description of this host. Takes under 50 ms if no driver must be started first."""
    proc = Path("/proc")
    limits = limits_here(proc)
    usable = usable_processors(limits)
    memory = psutil.virtual_memory().total
    accelerators, samplers = sampled_accelerators()
    return HostDescription(
        host=host_name(),
        cpu_model=cpu_model(proc),
        cores=psutil.cpu_count(logical=False),
        processors=os.cpu_count() or usable,
        usable_processors=usable,
        memory_bytes=memory,
        usable_memory_bytes=memory if limits.memory_bytes is None else min(memory, limits.memory_bytes),
        limits=limits,
        os=node_parts.operating_system() or platform.system(),
        kernel=platform.release(),
        architecture=platform.machine(),
        python=platform.python_version(),
        accelerators=accelerators,
        not_sampled=samplers.absent,
        driver_faults=samplers.faults,
        versions=versions(),
        container=node_parts.container(os.environ, Path("/")),
        scheduler={name: os.environ[name] for name in SCHEDULER_VARIABLES if name in os.environ},
        boot_id=boot_id(proc),
        storage=storage(folders or {}),
    )


def describe_usable() -> HostDescription:
    """Return the description with the accelerators that this process may use alone. A MIG slice counts as one."""
    system = describe()
    require_known(system.accelerators, os.environ)
    return msgspec.structs.replace(system, accelerators=usable(system.accelerators, os.environ, slice_bytes))


def boot_id(proc: Path = Path("/proc")) -> str | None:
    """Return the identifier of the kernel's boot, equal in all containers of a host. None if the kernel reports none."""
    path = proc / "sys/kernel/random/boot_id"
    return path.read_text().strip() if path.exists() else None


def folders_of(run: Path, root: str | None) -> dict[str, Path]:
    return {RUN: run} | ({} if root is None else {"data set": Path(root)})


def versions() -> dict[str, str]:
    installed: dict[str, str] = {}
    for name in PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def describe_node(folders: Mapping[str, Path], environment: Mapping[str, str] = os.environ) -> Part:
    """Return the full description of this node: names and values by part ('processors', 'network', …).

    It contains nothing that differs between equal nodes: no name, address, serial number, boot, clock or free space. An
    unreadable value is the text 'not readable: ' and the reason.
    """
    proc, sys = Path("/proc"), Path("/sys")
    return {
        "maker": node_parts.maker(sys),
        "firmware": node_parts.firmware(sys),
        "processors": node_parts.processors(proc, sys),
        "memory": node_parts.memory(proc, sys),
        "accelerators": node_parts.accelerators(),
        "pci": pci(sys),
        "network": network(sys),
        "storage": [_storage_part(each) for each in storage(folders)],
        "kernel": node_parts.kernel(proc, sys),
        "libraries": {"python": platform.python_version(), **versions()},
        "container": node_parts.container_of(environment, Path("/")),
        "limits": node_parts.limits(),
        "environment": node_parts.variables(environment),
    }


def _storage_part(storage: object) -> Part:
    part: Part = msgspec.to_builtins(storage)
    size = part.pop("size_bytes", None)
    part["gibibytes"] = unread(part.get("why_not", "not reported")) if size is None else round(size / 2**30)
    return {name: unread("the kernel does not say") if value is None else value for name, value in part.items()}


def hash_of(description: Part) -> str:
    return hashlib.sha256(msgspec.json.encode(description, order="deterministic")).hexdigest()


RUN = "run"


class Storage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """File system of one folder. None if a value cannot be determined."""

    name: str
    file_system: str | None
    source: str | None
    size_bytes: int | None
    why_not: str | None = None


def storage(folders: Mapping[str, Path]) -> tuple[Storage, ...]:
    """Return the file system of each folder. A run folder that does not exist yet has that of its nearest existing parent."""
    mounts = {Path(each.mountpoint): each for each in psutil.disk_partitions(all=True)}  # of two at one point the later
    return tuple(_of(name, folder, mounts) for name, folder in folders.items())


def _of(name: str, folder: Path, mounts: Mapping[Path, Any]) -> Storage:
    existing = folder.resolve()
    while name == RUN and not existing.exists():
        existing = existing.parent
    try:
        size = os.statvfs(existing)
    except OSError as error:
        return Storage(name=name, file_system=None, source=None, size_bytes=None, why_not=error.strerror)
    mount = next((mounts[place] for place in (existing, *existing.parents) if place in mounts), None)
    return Storage(
        name=name,
        file_system=None if mount is None else mount.fstype,
        source=None if mount is None else mount.device,
        size_bytes=size.f_blocks * size.f_frsize,
        why_not="the kernel lists no mount that it lies on" if mount is None else None,
    )


def kind_in_words(system: HostDescription, processors: int, accelerators: int) -> str:
    """Return the hardware that a run may use of a node. Nodes of one kind are compared with each other."""
    models = ", ".join(sorted({device.model or "?" for device in system.accelerators}))
    devices = f"; {accelerators} × {models or 'accelerator'}" if accelerators else ""
    return f"{processors} × {system.cpu_model or 'processor'}{devices}"
