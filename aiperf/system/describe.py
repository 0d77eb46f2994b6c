"""What the machine is: processor, memory, accelerators, versions, and the limits a container or scheduler sets.

Quick, and without torch or ray: versions are read from installed metadata, never by importing the package.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiperf.system.attach import accelerator_samplers, attach
from aiperf.system.host import meminfo
from aiperf.system.sampler import Device

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

_NO_LIMIT = 1 << 60  # cgroup 1 writes "no limit" as the largest page-aligned 63-bit number


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What control groups (v1 or v2) grant this process: the tightest of its own and those above; None = none."""

    processors: float | None = None
    """Processor time a second: 2.5 = two and a half processors."""
    memory_bytes: int | None = None


class System(msgspec.Struct, frozen=True, kw_only=True):
    """One host, as seen by the process that asked. None = cannot be told here."""

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


def describe() -> System:
    """This host, now. Under 50 ms where no driver must wake up first."""
    proc, sys = Path("/proc"), Path("/sys")
    limits = control_group_limits((proc / "self/cgroup").read_text(), (proc / "self/mountinfo").read_text())
    memory = meminfo((proc / "meminfo").read_text())["MemTotal"]
    usable = len(os.sched_getaffinity(0))
    attached = attach(accelerator_samplers())
    accelerators = tuple(device for sampler in attached.samplers.values() for device in sampler.devices())
    attached.close()
    return System(
        host=socket.gethostname(),
        cpu_model=cpu_model(proc),
        cores=physical_cores(sys),
        processors=os.cpu_count() or usable,
        usable_processors=max(1, usable if limits.processors is None else min(usable, math.floor(limits.processors))),
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
    )


def cpu_model(proc: Path) -> str | None:
    """The processor's name; kernels for Arm give none in /proc/cpuinfo."""
    with (proc / "cpuinfo").open() as lines:
        for line in lines:  # not read whole: the kernel computes each processor's lines anew, 0.1 ms apiece
            if not line.strip():
                break
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return None


def physical_cores(sys: Path) -> int | None:
    """Cores with their hardware threads taken together."""
    siblings = {path.read_text() for path in sys.glob("devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")}
    return len(siblings) or None


def control_group_limits(membership: str, mounts: str) -> Limits:
    """The limits in force, from the texts of /proc/self/cgroup and /proc/self/mountinfo.

    A limit holds for all groups below its own, so each group from this one up to the mount is asked.
    """
    groups: dict[str, str] = {}  # controller ('' = version 2) -> path of this process's group
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    quotas: list[float] = []
    memories: list[int] = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" and "" in groups:
            for folder in _upwards(Path(mount), root, groups[""]):
                quota, _, period = (_text(folder / "cpu.max") or "max 1").partition(" ")
                quotas += [] if quota == "max" else [int(quota) / int(period)]
                memory = _text(folder / "memory.max") or "max"
                memories += [] if memory == "max" else [int(memory)]
        elif kind == "cgroup":
            mounted = {*options.split(",")}
            if "cpu" in mounted and "cpu" in groups:
                for folder in _upwards(Path(mount), root, groups["cpu"]):
                    quota, period = (
                        _text(folder / "cpu.cfs_quota_us") or "-1",
                        _text(folder / "cpu.cfs_period_us") or "1",
                    )
                    quotas += [] if int(quota) < 0 else [int(quota) / int(period)]
            if "memory" in mounted and "memory" in groups:
                for folder in _upwards(Path(mount), root, groups["memory"]):
                    limit = int(_text(folder / "memory.limit_in_bytes") or _NO_LIMIT)
                    memories += [] if limit >= _NO_LIMIT else [limit]
    return Limits(processors=min(quotas, default=None), memory_bytes=min(memories, default=None))


def _upwards(mount: Path, root: str, group: str) -> list[Path]:
    """The folders of a group and those above it, as mounted here: in a container its own is the mount's root."""
    inside = group.removeprefix(root.rstrip("/")).strip("/") if group.startswith(root) else ""
    folder = mount / inside
    if not folder.is_dir():
        folder = mount
    return [folder, *(above for above in folder.parents if above.is_relative_to(mount))]


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:  # the root group has no limit files
        return None


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
