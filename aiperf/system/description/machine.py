"""Description of maker, firmware, processors, memory, kernel, process limits, container and variables of a node."""

from __future__ import annotations

import platform
import re
import resource
from collections.abc import Mapping
from pathlib import Path

from aiperf.system.control_groups import membership
from aiperf.system.description.values import Part, chosen, common, number, text, unread
from aiperf.system.host import cpu_features, cpu_model, meminfo


def memory(proc: Path, sys: Path) -> Part:
    """Return sizes in whole gibibytes. The kernel's own share differs slightly between equal nodes."""
    sizes = meminfo((proc / "meminfo").read_text())
    return {
        "gibibytes": round(sizes["MemTotal"] / 2**30),
        "swap_gibibytes": round(sizes["SwapTotal"] / 2**30)
        if "SwapTotal" in sizes
        else unread("/proc/meminfo tells none"),
        "transparent_huge_pages": chosen(sys / "kernel/mm/transparent_hugepage/enabled"),
        "huge_page_defragmentation": chosen(sys / "kernel/mm/transparent_hugepage/defrag"),
        "numa_balancing": number(proc / "sys/kernel/numa_balancing"),
        "swappiness": number(proc / "sys/vm/swappiness"),
        "overcommit": number(proc / "sys/vm/overcommit_memory"),
    }


def boot_parameters(proc: Path, wanted: frozenset[str]) -> str:
    """Return the `wanted` parameters of the kernel's command line. Others may name the host or contain secrets."""
    parameters = text(proc / "cmdline").split()
    return (
        " ".join(each for each in parameters if each.partition("=")[0] in wanted) or "none of those that are looked for"
    )


_FEATURES = frozenset(
    ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "amx_int8", "amx_tile",
     "bf16", "sve", "sve2", "asimd")
)  # fmt: skip
"""Instruction sets that determine the speed of training."""


def processors(proc: Path, sys: Path) -> Part:
    """Describe the processors, from /proc/cpuinfo and /sys/devices/system/cpu."""
    cpus = sys / "devices/system/cpu"
    topologies = sorted(cpus.glob("cpu[0-9]*/topology"))
    packages = {text(each / "physical_package_id") for each in topologies}
    cores = {text(each / "thread_siblings_list") for each in topologies}
    logical = len(topologies)
    return {
        "model": cpu_model(proc) or unread("/proc/cpuinfo gives no name"),
        "sockets": len(packages) or unread("the kernel shows no topology"),
        "cores": len(cores) or unread("the kernel shows no topology"),
        "hardware_threads": logical or unread("the kernel shows no topology"),
        "threads_of_a_core": logical // len(cores) if cores else unread("the kernel shows no topology"),
        "smt": text(cpus / "smt/control"),
        "numa": _numa(sys / "devices/system/node"),
        "features": " ".join(sorted(cpu_features(proc) & _FEATURES)) or "none of those that are looked for",
        "caches": _caches(cpus / "cpu0/cache"),
        "largest_frequency_khz": number(cpus / "cpu0/cpufreq/cpuinfo_max_freq"),
        "frequency_driver": text(cpus / "cpu0/cpufreq/scaling_driver"),
        "governor": common(sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")), "frequency governor"),
        "turbo": _turbo(cpus),
        "idle_driver": text(cpus / "cpuidle/current_driver"),
        "microcode": text(cpus / "cpu0/microcode/version"),
        "mitigations": _mitigations(cpus / "vulnerabilities"),
    }


def _numa(nodes: Path) -> list[Part] | str:
    nodes_found = sorted(nodes.glob("node[0-9]*"), key=lambda each: int(each.name[4:]))
    if not nodes_found:
        return unread("the kernel shows no NUMA nodes")
    return [
        {"name": each.name, "processors": text(each / "cpulist"), "gibibytes": _gibibytes(each)} for each in nodes_found
    ]


def _gibibytes(node: Path) -> int | str:
    lines = text(node / "meminfo")
    total = re.search(r"MemTotal:\s+(\d+) kB", lines)
    return round(int(total[1]) / 2**20) if total else unread("it tells no MemTotal")


def _caches(folder: Path) -> str:
    levels = [
        f"L{text(each / 'level')} {text(each / 'type').lower()} {text(each / 'size')}"
        for each in sorted(folder.glob("index[0-9]*"))
    ]
    return ", ".join(levels) or unread("the kernel shows no caches")


def _turbo(cpus: Path) -> str:
    if (cpus / "intel_pstate/no_turbo").exists():
        return {"0": "on", "1": "off"}.get(state := text(cpus / "intel_pstate/no_turbo"), state)
    return {"1": "on", "0": "off"}.get(state := text(cpus / "cpufreq/boost"), state)


def _mitigations(folder: Path) -> Part | str:
    states = {each.name: text(each) for each in sorted(folder.glob("*"))}
    affected = {name: state for name, state in states.items() if state != "Not affected"}
    return affected or (unread("the kernel shows none") if not states else "not affected by any that the kernel knows")


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
