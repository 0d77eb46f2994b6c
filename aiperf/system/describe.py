"""What the machine is: processor, memory, accelerators, versions, and the limits a container or scheduler sets.

Quick, and without torch or ray: versions are read from installed metadata, never by importing the package.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiperf.system.attach import accelerator_samplers, attach
from aiperf.system.control_groups import Limits, limits_here, usable_processors
from aiperf.system.host import meminfo
from aiperf.system.network import Link, links
from aiperf.system.processor import cpu_model
from aiperf.system.sampler import Device
from aiperf.system.storage import RUN, Storage, storage

PACKAGES = (
    "aiperf-cluster", "torch", "torchvision", "ray", "optuna", "horovod", "numpy", "scipy", "msgspec", "hydra-core",
    "nvidia-ml-py", "amdsmi", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime",
    "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-dali-cuda120", "nvidia-dali-cuda130",
)  # fmt: skip

# What tells of a scheduler, and no secrets: names and sizes only.
SCHEDULER_VARIABLES = (
    "SLURM_JOB_ID", "SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_NUM_NODES", "SLURM_NODEID",
    "SLURM_CPUS_ON_NODE", "SLURM_JOB_GPUS", "KUBERNETES_SERVICE_HOST", "RAY_CLUSTER_NAME",
)  # fmt: skip


class System(msgspec.Struct, frozen=True, kw_only=True):
    """One host, as seen by the process that asked. None = cannot be determined here."""

    host: str
    cpu_model: str | None
    cores: int | None
    """Physical cores."""
    processors: int
    """Logical processors of the host."""
    usable_processors: int
    """Whole logical processors this process may use: its affinity, and the control group's quota rounded down; at least 1."""
    memory_bytes: int
    """The host's."""
    usable_memory_bytes: int
    """The host's or the control group's, whichever is less."""
    limits: Limits
    os: str
    kernel: str
    architecture: str
    python: str
    accelerators: tuple[Device, ...]
    """Every accelerator a sampler shows on this host, whether or not this process may use it."""
    not_sampled: dict[str, str]
    """Samplers that could not be opened, each with the reason: without them "no accelerators" means "none seen"."""
    versions: dict[str, str]
    """Installed packages that matter."""
    container: str | None
    scheduler: dict[str, str]
    boot_id: str | None = None
    """Of the host's kernel since it booted: what is told to be on one boot is on one host, in whatever containers."""
    storage: tuple[Storage, ...] = ()
    """What the run's folders lie on, where they were named."""
    network: tuple[Link, ...] = ()


def describe(folders: Mapping[str, Path] | None = None) -> System:
    """This host, now, with what the folders lie on. Under 50 ms where no driver must wake up first."""
    proc, sys = Path("/proc"), Path("/sys")
    limits = limits_here(proc)
    usable = usable_processors(limits)
    memory = meminfo((proc / "meminfo").read_text())["MemTotal"]
    attached = attach(accelerator_samplers())
    accelerators = tuple(device for sampler in attached.samplers.values() for device in sampler.devices())
    attached.close()
    return System(
        host=socket.gethostname(),
        cpu_model=cpu_model(proc),
        cores=physical_cores(sys),
        processors=os.cpu_count() or usable,
        usable_processors=usable,
        memory_bytes=memory,
        usable_memory_bytes=memory if limits.memory_bytes is None else min(memory, limits.memory_bytes),
        limits=limits,
        os=_os_name(),
        kernel=platform.release(),
        architecture=platform.machine(),
        python=platform.python_version(),
        accelerators=accelerators,
        not_sampled=attached.absent,
        versions=versions(),
        container=container(os.environ, Path("/")),
        scheduler={name: os.environ[name] for name in SCHEDULER_VARIABLES if name in os.environ},
        boot_id=boot_id(proc),
        storage=storage(folders or {}),
        network=links(sys),
    )


def boot_id(proc: Path = Path("/proc")) -> str | None:
    """None: the kernel tells none."""
    told = proc / "sys/kernel/random/boot_id"
    return told.read_text().strip() if told.exists() else None


def folders_of(run: Path, root: str | None) -> dict[str, Path]:
    """The folders of a run whose storage is described: its own, and its data set's where that lies in files."""
    return {RUN: run} | ({} if root is None else {"data set": Path(root)})


def physical_cores(sys: Path) -> int | None:
    """Cores with their hardware threads taken together."""
    siblings = {path.read_text() for path in sys.glob("devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")}
    return len(siblings) or None


def versions() -> dict[str, str]:
    """Installed versions of PACKAGES, of those that are installed."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def container(environment: Mapping[str, str], root: Path) -> str | None:
    """What kind of container this is, by its own marks; None = no mark of one."""
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "kubernetes"
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    if "APPTAINER_CONTAINER" in environment or "SINGULARITY_CONTAINER" in environment:
        return "apptainer"
    return environment.get("container")  # set by systemd-nspawn, LXC, enroot and others


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()
