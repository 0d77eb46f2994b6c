"""Processors of a node: sockets, cores, hardware threads, NUMA nodes, caches, governors and mitigations."""

from __future__ import annotations

import re
from pathlib import Path

from aiperf.system.description.values import Part, common, number, text, unread
from aiperf.system.processor import cpu_features, cpu_model

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
