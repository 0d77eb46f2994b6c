"""Description of maker, firmware, kernel, process limits, container and environment variables of a node."""

from __future__ import annotations

import platform
import re
import resource
from collections.abc import Mapping
from pathlib import Path

from aiperf.system.control_groups import membership
from aiperf.system.description.memory import boot_parameters
from aiperf.system.description.values import Part, chosen, text, unread

_IDENTITY = ("sys_vendor", "product_name", "product_version", "board_vendor", "board_name", "chassis_type")
_FIRMWARE = ("bios_vendor", "bios_version", "bios_date", "bios_release", "ec_firmware_release")
_BOOT = frozenset({
    "mitigations", "nosmt", "isolcpus", "nohz_full", "rcu_nocbs", "skew_tick", "idle", "numa_balancing",
    "transparent_hugepage", "hugepages", "hugepagesz", "default_hugepagesz", "iommu", "intel_iommu", "amd_iommu", "pcie_aspm",
    "processor.max_cstate", "intel_idle.max_cstate", "intel_pstate", "amd_pstate", "tsc", "clocksource",
})  # fmt: skip
"""Kernel parameters that affect speed."""
_LIMITS = ("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_MEMLOCK", "RLIMIT_STACK", "RLIMIT_CORE", "RLIMIT_AS")

VARIABLES = re.compile(
    r"(NCCL|GLOO|UCX|OMP|KMP|GOMP|MKL|OPENBLAS|NUMEXPR|CUDA|CUDNN|CUBLAS|NVIDIA|HIP|HSA|ROCR|RCCL|MIOPEN|TORCH|PYTORCH|TRITON|HOROVOD|RAY|"
    r"MALLOC|GLIBC|LD_PRELOAD|OMPI|PMIX|FI|MPICH)(_|$)"
)
"""Prefixes of environment variables that affect speed or results of a run."""
_OF_ONE_PROCESS = re.compile(
    r"_(PID|ID|ADDRESS|IP|PORT|HOST|HOSTNAME|NODE|NAME|SESSION|DIR|TMPDIR|FD|RANK|JOB|SOCKET|URI|URL)$"
)
"""Suffixes of variables of Ray and launchers that differ between processes and do not describe the machine."""
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_IMAGES = ("AIPERF_IMAGE", "APPTAINER_NAME", "APPTAINER_CONTAINER", "SINGULARITY_NAME", "SINGULARITY_CONTAINER",
           "CONTAINER_IMAGE", "SLURM_CONTAINER", "ENROOT_ROOTFS")  # fmt: skip
_MARKS = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
)


def maker(sys: Path) -> Part:
    """Return the maker as the firmware reports it, without serial numbers."""
    return {name: text(sys / "class/dmi/id" / name) for name in _IDENTITY}


def firmware(sys: Path) -> Part:
    """Return the firmware of the board, and of its management controller if its driver is loaded."""
    controllers = sorted(sys.glob("devices/platform/ipmi_bmc.*/firmware_revision"))
    return {
        **{name: text(sys / "class/dmi/id" / name) for name in _FIRMWARE},
        "bmc": text(controllers[0]) if controllers else unread("the kernel shows no management controller (ipmi_si)"),
    }


def kernel(proc: Path, sys: Path) -> Part:
    """Return the kernel, the operating system and the boot parameters."""
    return {
        "release": text(proc / "sys/kernel/osrelease"),
        "version": text(proc / "sys/kernel/version"),
        "system": operating_system() or unread("there is no os-release file"),
        "architecture": platform.machine(),
        "c_library": " ".join(platform.libc_ver()).strip() or unread("it tells no name"),
        "boot_parameters": boot_parameters(proc, _BOOT),
        "clock_source": text(sys / "devices/system/clocksource/clocksource0/current_clocksource"),
        "lockdown": chosen(sys / "kernel/security/lockdown"),
        "hypervisor": text(sys / "hypervisor/type") if (sys / "hypervisor/type").exists() else _virtual(proc),
    }


def _virtual(proc: Path) -> str:
    flags = re.search(r"^flags\s*:.*$", text(proc / "cpuinfo"), re.MULTILINE)
    return "one, without a name" if flags and " hypervisor" in flags[0] else "none seen"


def limits() -> Part:
    """Return the soft and hard limits of a process."""
    return {name.removeprefix("RLIMIT_").lower(): _limit(getattr(resource, name)) for name in _LIMITS}


def _limit(which: int) -> str:
    values = ("unlimited" if each == resource.RLIM_INFINITY else str(each) for each in resource.getrlimit(which))
    return " of ".join(values)


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


def operating_system() -> str | None:
    """Return the name of the operating system. None if it has no os-release file."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return None


def container_of(environment: Mapping[str, str], root: Path, proc: Path) -> Part:
    """Return the container runtime by its markers, and the image if the environment or the container's file names it."""
    own = text(root / "run/.containerenv")
    image = re.search(r'^image="(.*)"$', own, re.MULTILINE)
    named = next((environment[name] for name in _IMAGES if environment.get(name)), None)
    groups = membership(proc)
    by_group = next((name for mark, name in _MARKS if mark in groups), None)
    runtime = container(environment, root) or by_group
    if runtime is None:
        return {"runtime": "no mark of one", "image": "none"}
    image_name = named or (image[1] if image else None)
    return {
        "runtime": runtime,
        "image": image_name or unread(f"neither {', '.join(_IMAGES)} nor /run/.containerenv says"),
    }


def variables(environment: Mapping[str, str]) -> Part:
    """Return the variables that match VARIABLES. For names that suggest a secret, record only that the variable is set."""
    chosen_variables: Part = {}
    for name, value in sorted(environment.items()):
        if VARIABLES.match(name) and not _OF_ONE_PROCESS.search(name):
            chosen_variables[name] = (
                "set; a secret by its name, never recorded" if SECRET.search(name) else _without_password(value)
            )
    return chosen_variables


def _without_password(value: str) -> str:
    return re.sub(r"://[^/@\s]+@", "://(never recorded)@", value)
