"""Processors, processor time and memory of a host from /proc, and its energy from RAPL if it is readable. No torch."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Collection
from pathlib import Path

import psutil

from aiperf.system.sampler import Device, DeviceSample


def cpu_model(proc: Path = Path("/proc")) -> str | None:
    """Return the model name of the processors. None without /proc/cpuinfo, and on Arm, since its kernel gives none."""
    return _of_the_first(proc, "model name")


def processor_name() -> str:
    return cpu_model() or platform.processor() or platform.machine()


def cpu_features(proc: Path = Path("/proc")) -> frozenset[str]:
    """Return the instruction-set features as the kernel names them, such as 'avx512_bf16' ('bf16' on Arm)."""
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
    """Return the `allowed` processors on the NUMA node of a PCI device, or all if fewer than `least` are near."""
    path = sys / f"bus/pci/devices/{pci}/local_cpulist"
    near: set[int] = set()
    if path.exists():
        for part in filter(None, path.read_text().strip().split(",")):
            first, _, last = part.partition("-")
            near.update(range(int(first), int(last or first) + 1))
    near &= set(allowed)
    return frozenset(near if len(near) >= least else allowed)


HOST = "host"


def _busy_and_idle() -> tuple[float, float]:
    """Return processor seconds since the boot. I/O wait counts as idle, and user time already contains guest time (proc(5))."""
    times = psutil.cpu_times()
    busy = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
    return busy, times.idle + times.iowait


def meminfo(text: str) -> dict[str, int]:
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}


class RaplCounter:
    """Energy of all processor packages in joules since the object was created, corrected for counter overflow.

    Since 2020 only root can read these counters (CVE-2020-8694). If a single package cannot be read, there is no value: a
    partial sum would look like a total. Zones below a package (core, dram) and 'psys' overlap it and are left out.
    """

    def __init__(self, powercap: Path) -> None:
        zones = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if zone.name.count(":") == 1]
        self._zones = [zone for zone in zones if (zone / "name").read_text().startswith("package")]
        self._ranges = [int((zone / "max_energy_range_uj").read_text()) for zone in self._zones]
        self._last = self._counters()
        self._microjoules = 0

    def _counters(self) -> list[int] | None:
        try:
            return [int((zone / "energy_uj").read_text()) for zone in self._zones] or None
        except OSError:  # not root, or the zone has no counter
            return None

    def joules(self) -> float | None:
        """None if a counter cannot be read. Call it more often than the counters overflow (minutes under load)."""
        now = self._counters()
        if now is None or self._last is None:
            return None
        steps = zip(now, self._last, self._ranges, strict=True)
        self._microjoules += sum((to - since) % wrap for to, since, wrap in steps)
        self._last = now
        return self._microjoules / 1e6


class HostSampler:
    def __init__(
        self, powercap: Path = Path("/sys/class/powercap"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._last = _busy_and_idle()
        self._rapl = RaplCounter(powercap)
        self._last_energy = (clock(), self._rapl.joules())

    def devices(self) -> list[Device]:
        return [Device(id=HOST, kind="host", memory_bytes=psutil.virtual_memory().total)]

    def sample(self, wanted: Collection[str] | None = None) -> list[DeviceSample]:
        if wanted is not None and HOST not in wanted:
            return []
        before, self._last = self._last, _busy_and_idle()
        # The kernel may count I/O wait backwards (proc(5)).
        busy, idle = (max(0.0, to - since) for since, to in zip(before, self._last, strict=True))
        memory = psutil.virtual_memory()
        (then, energy_before), self._last_energy = self._last_energy, (self._clock(), self._rapl.joules())
        now, energy = self._last_energy
        measured = energy is not None and energy_before is not None and now > then
        return [
            DeviceSample(
                device=HOST,
                # The kernel's tick is up to 10 ms. Two samples within one tick have no utilization.
                utilisation=busy / (busy + idle) if busy + idle > 0 else None,
                memory_used_bytes=memory.total - memory.available,
                power_watts=(energy - energy_before) / (now - then) if measured else None,  # type: ignore[operator]
                energy_joules=energy,
            )
        ]

    def close(self) -> None:
        """Do nothing, because no file stays open."""
