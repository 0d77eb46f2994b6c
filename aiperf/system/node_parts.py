"""Parts of the full description of a node. An unreadable value is replaced by the reason. NVML's part was tried on no GPU."""

from __future__ import annotations

import platform
import re
import resource
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from aiperf.system.host import cpu_features, cpu_model, meminfo
from aiperf.system.samplers import sampled_accelerators
from aiperf.system.samplers.nvml import opened_nvml

UNREAD = "not readable: "
"""Prefix of a value that could not be read. The reason follows."""
Part = dict[str, Any]


def unread(why: object) -> str:
    return f"{UNREAD}{' '.join(str(why).split())}"


def text(file: Path) -> str:
    """Return the stripped text of a file. If it is empty or unreadable: 'not readable: ' and the reason."""
    try:
        return file.read_text(errors="replace").strip() or unread(f"{file} is empty")
    except OSError as error:
        return unread(f"{file}: {error.strerror}")


def number(file: Path) -> int | str:
    content = text(file)
    if content.lstrip("-").isdecimal():
        return int(content)
    return content if content.startswith(UNREAD) else unread(f"{file}: {content}")


def chosen(file: Path) -> str:
    """Return the choice in brackets from a file such as 'always [madvise] never', or the whole text without brackets."""
    content = text(file)
    _, bracket, rest = content.partition("[")
    return rest.partition("]")[0] if bracket and not content.startswith(UNREAD) else content


def memory(proc: Path, sys: Path) -> Part:
    """Return memory and swap in whole gibibytes (the kernel's share differs between equal nodes), and its settings."""
    sizes = meminfo((proc / "meminfo").read_text())
    return {
        "gibibytes": round(sizes["MemTotal"] / 2**30),
        "swap_gibibytes": round(sizes["SwapTotal"] / 2**30) if "SwapTotal" in sizes else unread("no SwapTotal"),
        "transparent_huge_pages": chosen(sys / "kernel/mm/transparent_hugepage/enabled"),
        "huge_page_defragmentation": chosen(sys / "kernel/mm/transparent_hugepage/defrag"),
        "numa_balancing": number(proc / "sys/kernel/numa_balancing"),
        "swappiness": number(proc / "sys/vm/swappiness"),
        "overcommit": number(proc / "sys/vm/overcommit_memory"),
    }


_FEATURES = frozenset(
    ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "amx_int8", "amx_tile",
     "bf16", "sve", "sve2", "asimd", "hypervisor")
)  # fmt: skip
"""Instruction sets that determine the speed of training, and the mark of a virtual machine."""


def processors(proc: Path, sys: Path) -> Part:
    cpus = sys / "devices/system/cpu"
    topologies = sorted(cpus.glob("cpu[0-9]*/topology"))
    packages = {text(each / "physical_package_id") for each in topologies}
    cores = {text(each / "thread_siblings_list") for each in topologies}
    logical = len(topologies)
    governors = cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")
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
        "governor": ", ".join(sorted({text(each) for each in governors})) or unread("the kernel shows no governor"),
        "turbo": _turbo(cpus),
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


_IDENTITY = ("sys_vendor", "product_name", "product_version", "board_name")
_FIRMWARE = ("bios_vendor", "bios_version", "bios_date", "bios_release")
_BOOT = frozenset({
    "mitigations", "nosmt", "isolcpus", "nohz_full", "rcu_nocbs", "skew_tick", "idle", "numa_balancing",
    "transparent_hugepage", "hugepages", "hugepagesz", "default_hugepagesz", "iommu", "intel_iommu", "amd_iommu", "pcie_aspm",
    "processor.max_cstate", "intel_idle.max_cstate", "intel_pstate", "amd_pstate", "tsc", "clocksource",
})  # fmt: skip
_LIMITS = ("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_MEMLOCK", "RLIMIT_STACK", "RLIMIT_AS")

VARIABLES = re.compile(
    r"(NCCL|GLOO|UCX|OMP|KMP|GOMP|MKL|OPENBLAS|NUMEXPR|CUDA|CUDNN|CUBLAS|NVIDIA|HIP|HSA|ROCR|RCCL|MIOPEN|TORCH|PYTORCH|TRITON|HOROVOD|RAY|"
    r"MALLOC|GLIBC|LD_PRELOAD|OMPI|PMIX|FI|MPICH)(_|$)"
)
_OF_ONE_PROCESS = re.compile(
    r"_(PID|ID|ADDRESS|IP|PORT|HOST|HOSTNAME|NODE|NAME|SESSION|DIR|TMPDIR|FD|RANK|JOB|SOCKET|URI|URL)$"
)
"""Suffixes of variables of Ray and launchers that differ between processes and do not describe the machine."""
_OF_KUBERAY = re.compile(
    r"RAY_(USAGE_STATS_\w+|DASHBOARD_ENABLE_K8S_DISK_USAGE|timeout_ms_task_wait_for_death_info|gcs_server_request_timeout_seconds|"
    r"enable_autoscaler_v2|SERVE_KV_TIMEOUT_S|TLS_\w+)$"
)
"""Variables that KubeRay sets in the pods of head or workers only (KubeRay 1.5, constant.go), and a node's certificates."""
SECRET = re.compile(
    r"TOKEN|KEY|SECRET|PASSW|PASSPH|PASSCODE|CREDENTIAL|AUTH|LICEN[SC]E|PRIVATE|COOKIE|SESSION|BEARER|SIGNATURE|CERT|SALT|"
    r"(^|_)(PASS|PWD|PW|PIN|CRED|CREDS|JWT|SAS)(_|$)",
    re.IGNORECASE,
)
_IMAGES = ("AIPERF_IMAGE", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "CONTAINER_IMAGE", "SLURM_CONTAINER")


def maker(sys: Path) -> Part:
    return {name: text(sys / "class/dmi/id" / name) for name in _IDENTITY}


def firmware(sys: Path) -> Part:
    return {name: text(sys / "class/dmi/id" / name) for name in _FIRMWARE}


def kernel(proc: Path, sys: Path) -> Part:
    """Return kernel, C library, clock source and boot parameters that affect speed. Others may hold secrets."""
    parameters = [each for each in text(proc / "cmdline").split() if each.partition("=")[0] in _BOOT]
    return {
        "release": text(proc / "sys/kernel/osrelease"),
        "version": text(proc / "sys/kernel/version"),
        "system": operating_system() or unread("there is no os-release file"),
        "architecture": platform.machine(),
        "c_library": " ".join(platform.libc_ver()).strip() or unread("it tells no name"),
        "boot_parameters": " ".join(parameters) or "none of those that are looked for",
        "clock_source": text(sys / "devices/system/clocksource/clocksource0/current_clocksource"),
    }


def limits() -> Part:
    """Return the resource limits of this process as 'SOFT of HARD'. -1: unlimited."""
    of = {name: resource.getrlimit(getattr(resource, name)) for name in _LIMITS}
    return {name.removeprefix("RLIMIT_").lower(): f"{soft} of {hard}" for name, (soft, hard) in of.items()}


def container(environment: Mapping[str, str], root: Path) -> str | None:
    """Return the name of the container runtime by its marker files and variables. None without a marker."""
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
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return None


def container_of(environment: Mapping[str, str], root: Path) -> Part:
    image = next((environment[name] for name in _IMAGES if environment.get(name)), None)
    return {
        "runtime": container(environment, root) or "no mark of one",
        "image": image or unread(f"none of {', '.join(_IMAGES)} is set"),
    }


def variables(environment: Mapping[str, str]) -> Part:
    """Return the variables of libraries such as NCCL, CUDA, OMP and Ray. Secrets have no value, URLs no password."""
    chosen_variables: Part = {}
    for name, value in sorted(environment.items()):
        if VARIABLES.match(name) and not _OF_ONE_PROCESS.search(name) and not _OF_KUBERAY.match(name):
            chosen_variables[name] = (
                "set; a secret by its name, never recorded" if SECRET.search(name) else _without_password(value)
            )
    return chosen_variables


def _without_password(value: str) -> str:
    return re.sub(r"://[^/@\s]+@", "://(never recorded)@", value)


_NEAR = {
    0: "same board",
    10: "one switch",
    20: "several switches",
    30: "one host bridge",
    40: "one NUMA node",
    50: "across sockets",
}
_MOST_LINKS = 18


def accelerators() -> Part:
    """Return the accelerators as names and values, without serial numbers. `not_seen`: reason by missing vendor library."""
    devices, samplers = sampled_accelerators()
    properties = ("model", "memory_bytes", "driver", "power_cap_watts")
    part: Part = {
        "devices": [
            {"name": f"{device.vendor} {device.index}"}
            | {name: getattr(device, name) or unread("the vendor's library gives none") for name in properties}
            for device in devices
        ],
        "not_seen": samplers.absent,
    }
    return part if "nvml" in samplers.absent else part | {"nvidia": _nvidia()}


def _nvidia() -> Part:
    import pynvml

    try:
        with opened_nvml() as nvml:
            handles = []
            for index in range(nvml.nvmlDeviceGetCount()):
                with suppress(nvml.NVMLError):  # lost, or of another job
                    handles.append(nvml.nvmlDeviceGetHandleByIndex(index))
            return {
                "cuda": _value(lambda: _version(nvml.nvmlSystemGetCudaDriverVersion_v2())),
                "nvml": _value(nvml.nvmlSystemGetNVMLVersion),
                "devices": [
                    {"name": f"NVIDIA {index}"} | _device(nvml, handle) for index, handle in enumerate(handles)
                ],
                "topology": _topology(nvml, handles),
            }
    except pynvml.NVMLError as error:
        return {"why_not": unread(error)}


def _device(nvml: Any, handle: Any) -> Part:
    return {
        "vbios": _value(lambda: nvml.nvmlDeviceGetVbiosVersion(handle)),
        "pcie": _value(lambda: f"generation {nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)}"),
        "pcie_width": _value(lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "ecc": _value(lambda: "on" if nvml.nvmlDeviceGetEccMode(handle)[0] else "off"),
        "mig": _value(lambda: "on" if nvml.nvmlDeviceGetMigMode(handle)[0] else "off"),
        "persistence": _value(lambda: "on" if nvml.nvmlDeviceGetPersistenceMode(handle) else "off"),
        "compute_mode": _value(lambda: nvml.nvmlDeviceGetComputeMode(handle)),
        "default_power_cap_watts": _value(lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000),
        "largest_clock_mhz": _value(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "nvlinks": _value(lambda: _links(nvml, handle)),
    }


def _links(nvml: Any, handle: Any) -> str:
    up = 0
    for link in range(_MOST_LINKS):
        try:
            up += bool(nvml.nvmlDeviceGetNvLinkState(handle, link))
        except nvml.NVMLError:  # the device has no more links
            break
    return f"{up} up"


def _topology(nvml: Any, handles: list[Any]) -> Part:
    return {
        f"{one}-{other}": _value(partial(_near, nvml, handles[one], handles[other]))
        for one in range(len(handles))
        for other in range(one + 1, len(handles))
    }


def _near(nvml: Any, one: Any, other: Any) -> str:
    level = int(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other))
    return _NEAR.get(level, f"level {level}")


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _value(call: Callable[[], Any]) -> Any:
    import pynvml

    try:
        value = call()
    except (pynvml.NVMLError, AttributeError) as error:  # AttributeError: an nvidia-ml-py without this call
        return unread(error)
    return value.decode() if isinstance(value, bytes) else value
