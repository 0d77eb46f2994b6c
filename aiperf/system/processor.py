"""Name and features of this host's processors, and the processors near a device. Linux only. No torch."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path


def cpu_model(proc: Path = Path("/proc")) -> str | None:
    """Return the processor's name. None on Arm, whose kernel gives none, and without /proc/cpuinfo."""
    return _of_the_first(proc, "model name")


def cpu_features(proc: Path = Path("/proc")) -> frozenset[str]:
    """Return the processor's features as the kernel names them ('avx512_bf16', 'bf16' on Arm). Empty without /proc/cpuinfo."""
    features = _of_the_first(proc, "flags", "Features")
    return frozenset() if features is None else frozenset(features.split())


def _of_the_first(proc: Path, *names: str) -> str | None:
    path = proc / "cpuinfo"
    if not path.exists():  # not Linux
        return None
    with path.open() as lines:
        for line in lines:  # the kernel generates the lines of each processor on demand, 0.1 ms each: stop early
            if not line.strip():
                break
            name, _, value = line.partition(":")
            if name.strip() in names:
                return value.strip()
    return None


def near_processors(pci: str, allowed: Collection[int], least: int, sys: Path = Path("/sys")) -> frozenset[int]:
    """Return the `allowed` processors on the NUMA node of a PCI device ('0000:3b:00.0').

    Return all allowed processors if fewer than `least` of them are near, or if the kernel names none.
    """
    path = sys / f"bus/pci/devices/{pci}/local_cpulist"
    near: set[int] = set()
    if path.exists():
        for part in filter(None, path.read_text().strip().split(",")):
            first, _, last = part.partition("-")
            near.update(range(int(first), int(last or first) + 1))
    near &= set(allowed)
    return frozenset(near if len(near) >= least else allowed)
