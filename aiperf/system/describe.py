"""Description of one host: processor, memory, accelerators, versions, and limits of a container or scheduler.

Fast, and without torch or ray. Versions come from installed metadata, never from an import of the package.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec
import psutil

from aiperf.system.control_groups import ControlGroupLimits, limits_here, usable_processors
from aiperf.system.host import meminfo
from aiperf.system.network import Link, links
from aiperf.system.processor import cpu_model
from aiperf.system.sampler import Device
from aiperf.system.samplers.attach import accelerator_samplers, attach, usable
from aiperf.system.samplers.nvml import slice_bytes
from aiperf.system.storage import RUN, Storage, storage

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
    """Physical cores."""
    processors: int
    """Logical processors of the host."""
    usable_processors: int
    """Whole logical processors that this process may use: CPU affinity and control-group quota (rounded down), at least 1."""
    memory_bytes: int
    """Memory of the host."""
    usable_memory_bytes: int
    """Memory of the host or limit of the control group, whichever is less."""
    limits: ControlGroupLimits
    os: str
    kernel: str
    architecture: str
    python: str
    accelerators: tuple[Device, ...]
    """All accelerators that samplers report on this host, including those that this process may not use."""
    not_sampled: dict[str, str]
    """Samplers that could not be opened, with the reason. Without them, "no accelerators" means "none visible"."""
    versions: dict[str, str]
    """Versions of the installed packages of PACKAGES."""
    container: str | None
    scheduler: dict[str, str]
    boot_id: str | None = None
    """Identifier of the kernel's boot. Containers with one boot_id share a host."""
    storage: tuple[Storage, ...] = ()
    """File systems of the run's folders, if folders were given."""
    network: tuple[Link, ...] = ()


def describe(folders: Mapping[str, Path] | None = None) -> HostDescription:
    """Describe this host and the file systems of `folders`. Takes under 50 ms if no driver must be started first."""
    proc, sys = Path("/proc"), Path("/sys")
    limits = limits_here(proc)
    usable = usable_processors(limits)
    memory = meminfo((proc / "meminfo").read_text())["MemTotal"]
    attached = attach(accelerator_samplers())
    accelerators = tuple(device for sampler in attached.samplers.values() for device in sampler.devices())
    attached.close()
    return HostDescription(
        host=socket.gethostname(),
        cpu_model=cpu_model(proc),
        cores=psutil.cpu_count(logical=False),
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


def describe_usable() -> HostDescription:
    """Describe this host with the accelerators that this process may use. A MIG slice counts as one with its own memory."""
    system = describe()
    return msgspec.structs.replace(system, accelerators=usable(system.accelerators, os.environ, slice_bytes))


def boot_id(proc: Path = Path("/proc")) -> str | None:
    """Return the boot identifier of the kernel. None if the kernel reports none."""
    path = proc / "sys/kernel/random/boot_id"
    return path.read_text().strip() if path.exists() else None


def folders_of(run: Path, root: str | None) -> dict[str, Path]:
    """Return the folders whose storage is described: the run folder and, if the data set is stored in files, its root."""
    return {RUN: run} | ({} if root is None else {"data set": Path(root)})


def versions() -> dict[str, str]:
    """Return the versions of the installed packages of PACKAGES."""
    installed: dict[str, str] = {}
    for name in PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def container(environment: Mapping[str, str], root: Path) -> str | None:
    """Return the container runtime, detected by its marker files and variables. None if there is no marker."""
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
