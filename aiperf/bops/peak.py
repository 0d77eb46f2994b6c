"""Peaks of this machine (integer adds, multiply-adds, clock, memory bandwidth), measured by C programs that AIPerf ships."""

from __future__ import annotations

import importlib.resources
import json
import os
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from aiperf.bops import roofline
from aiperf.errors import BadConfiguration
from aiperf.native import program
from aiperf.programs import ask
from aiperf.system.control_groups import available_bytes
from aiperf.units import share

NATIVE = Path(__file__).parent / "native"
DOUBTFUL = 0.95
"""Smallest share of the nominal peak that a measured one reaches. Below it the table is in doubt."""
ARCHITECTURES = ("x86_64", "aarch64")
CACHES_PER_ARRAY = 4
_LONGEST_SECONDS = 3600.0
"""Time limit of a measuring program. STREAM on a node with 10 TB takes minutes."""
LARGEST_ARRAY_SHARE = 1 / 12
"""Largest share of the available memory for one of STREAM's three arrays."""


@dataclass(frozen=True, slots=True)
class Processor:
    processor: str
    name: str
    """Regular expression for the model name."""
    ids: tuple[str, ...]
    """Family and model of x86, or the part number of Arm."""
    vector_ports: int
    bits: int
    peak_ipc: float
    """Instructions that the core can issue per cycle."""
    source: str
    fma_ports: int | None = None
    """Ports that execute fused multiply-adds of `bits` bits. None if the processor has none."""
    flag: str = ""
    """Feature by which a virtual machine that hides the model is recognized."""
    cores: int | None = None
    """Cores of a published machine. None for the present machine."""
    clock_hertz: float | None = None
    memory_bytes_per_second: float | None = None

    @property
    def adds_per_cycle(self) -> float:
        """Largest number of 64-bit integer adds per clock cycle of one core, in vectors."""
        return roofline.adds_per_cycle(self.vector_ports, self.bits)

    def fma_flops(self, cores: int, clock_hertz: float) -> float | None:
        """Return the FP32 FLOPS of fused multiply-adds, two operations each. None without such a port."""
        return None if self.fma_ports is None else 2 * self.fma_ports * self.bits / 32 * clock_hertz * cores


PositiveRate = Annotated[float, msgspec.Meta(ge=1e-9, le=1e24)]
"""A rate, a time or a ratio above 0."""


class MachinePeak(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="peak"):
    """Peaks of one machine: the output of `bops peak --json`."""

    model: str
    cores: Annotated[int, msgspec.Meta(ge=1, le=10**6)]
    clock_hertz: PositiveRate
    adds_per_cycle: PositiveRate
    """Largest measured 64-bit integer adds per cycle of one core, in vectors."""
    nominal: PositiveRate | None
    """Adds per second by equation (4) with the measured clock. None if the processor is not in processors.json."""
    measured: PositiveRate
    per_core: dict[str, PositiveRate]
    """Operations per second of one core by kind of burst."""
    memory_bytes_per_second: PositiveRate | None
    """Memory bandwidth by STREAM triad on all cores. None if it was not measured."""
    array_bytes: int | None
    peak_ipc: PositiveRate | None
    source: str
    load: float
    """Load average of the last minute when the measurement began: processes that ran or waited for a processor."""
    notes: tuple[str, ...]
    fma_nominal: PositiveRate | None = None
    """FP32 FLOPS of fused multiply-adds on all cores by the processor's family, with the measured clock. None if unknown."""

    def __post_init__(self) -> None:
        if "add_64" not in self.per_core:
            raise ValueError("per_core has no rate of add_64")

    @property
    def roofs(self) -> tuple[roofline.Roof, ...]:
        """Adds per second of all cores in vectors, measured and nominal, those of scalar instructions, and the bandwidth."""
        roofs = [roofline.Roof("integer adds", self.measured, "measured")]
        if self.nominal is not None:
            roofs.append(roofline.Roof("integer adds, nominal", self.nominal, "data sheet"))
        roofs.append(roofline.Roof("scalar adds", self.per_core["add_64"] * self.cores, "measured"))
        if self.memory_bytes_per_second is not None:
            roofs.append(roofline.Roof("STREAM triad", self.memory_bytes_per_second, "measured", is_memory=True))
        return tuple(roofs)


@cache
def processors() -> tuple[Processor, ...]:
    """Return the figures of all known processors, in the order of processors.json. The file is read once."""
    rows = json.loads(importlib.resources.files("aiperf.bops").joinpath("processors.json").read_text("utf-8"))
    return tuple(Processor(**{**row, "ids": tuple(row["ids"])}) for row in rows)


def processor_of(cpuinfo: str) -> Processor | None:
    """Return the figures of the processor that /proc/cpuinfo describes. None if processors.json does not contain it."""
    values = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in cpuinfo.splitlines()) if value
    }
    identity = (
        f"{values.get('cpu family')}/{values.get('model')}" if "model" in values else f"arm/{values.get('CPU part')}"
    )
    model, flags = values.get("model name", ""), values.get("flags", "").split()
    by_name = (row for row in processors() if row.name and re.search(row.name, model))
    by_id = (row for row in processors() if not row.name and identity in row.ids)
    by_flag = (row for row in processors() if row.flag and row.flag in flags)
    return next(by_name, None) or next(by_id, None) or next(by_flag, None)


def own_cores() -> int:
    """Return the number of physical cores that this process may use. Two hardware threads of one core count once."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            cores.add(tuple((topology / name).read_text().strip() for name in ("physical_package_id", "core_id")))
        except OSError:
            cores.add((str(cpu),))
    return len(cores)


def last_cache_bytes() -> int:
    """Return the size of the largest cache of the first processor in bytes. 32 MiB if the system does not show it."""
    return max(filter(None, (kernel_figure(path / "size") for path in cache_folders())), default=32 << 20)


def cache_folders() -> list[Path]:
    """Return the kernel's folders of the first processor's caches, from the first level on."""
    return sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))


def kernel_figure(path: Path) -> int | None:
    """Return the number in a file of the kernel, with K, M or G as units of 1024. None if it is absent or below 1."""
    try:
        match = re.fullmatch(r"(\d+)([KMG]?)", path.read_text().strip())
    except (OSError, UnicodeDecodeError):
        return None
    return None if match is None else (int(match[1]) << 10 * "KMG".find(match[2]) + 10 * bool(match[2])) or None


def own_peak() -> MachinePeak | str:
    """Measure the peak of this machine. Return the reason if our programs do not have its instructions."""
    machine = platform.machine()
    if machine in ARCHITECTURES:
        return measure_peak()
    return f"no peak: it is measured on {' and '.join(ARCHITECTURES)} only, and this machine is {machine}"


def measure_peak(*, with_memory: bool = True) -> MachinePeak:
    load = os.getloadavg()[0]
    cpuinfo = Path("/proc/cpuinfo").read_text()
    row = processor_of(cpuinfo)
    rates: dict[str, float] = {}
    for line in _lines(program(NATIVE / "peak.c", compiler="cc", flags=("-O2",))):
        name, operations, seconds = line.split()
        rates[name] = float(operations) / float(seconds)
    clock = rates.pop("clock")
    vector = {name: each for name, each in rates.items() if name.startswith("add_") and name != "add_64"}
    best = max(vector.values(), default=rates["add_64"])
    cores = own_cores()
    nominal = None if row is None else roofline.nominal_peak(cores, clock, row.adds_per_cycle)
    is_doubtful = nominal is not None and best * cores < DOUBTFUL * nominal
    bandwidth, array = _bandwidth() if with_memory else (None, None)
    model = re.search(r"^model name\s*:\s*(.*)$", cpuinfo, re.M)
    return MachinePeak(
        model=model[1] if model else "unknown model" if row is None else row.processor,
        cores=cores,
        clock_hertz=clock,
        adds_per_cycle=best / clock,
        nominal=nominal,
        measured=best * cores,
        per_core=rates,
        memory_bytes_per_second=bandwidth,
        array_bytes=array,
        peak_ipc=None if row is None else row.peak_ipc,
        source="not in processors.json: add a row with its source" if row is None else f"{row.processor}: {row.source}",
        load=load,
        notes=()
        if not is_doubtful
        else (f"measured adds are below {share(DOUBTFUL, 0)} of nominal: the row is in doubt",),
        fma_nominal=None if row is None else row.fma_flops(cores, clock),
    )


def _bandwidth() -> tuple[float, int]:
    largest = int(available_bytes() * LARGEST_ARRAY_SHARE) or 1 << 27
    array = min(CACHES_PER_ARRAY * last_cache_bytes(), largest)
    stream = program(NATIVE / "stream.c", compiler="cc", flags=("-O3", "-march=native", "-fopenmp"))
    (line,) = _lines(stream, str(array // 8))
    moved, seconds, _ = line.split()
    return float(moved) / float(seconds), array


def _lines(path: Path, *words: str) -> list[str]:
    ended = ask([str(path), *words], seconds=_LONGEST_SECONDS)
    if ended.status:
        raise BadConfiguration(
            f"{path.name} failed with status {ended.status}: {ended.words}. Free memory, or leave it out: --no-memory"
        )
    return ended.output.splitlines()
