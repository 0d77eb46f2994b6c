"""Measurement of a program: its basic operations (BOPs), the times of separate runs, and its memory traffic."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shlex
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aiperf.bops.count import SourceCount, count_sources
from aiperf.bops.execute import execute
from aiperf.bops.instructions import InstructionCount, NotMeasured, counted_by_callgrind, counted_by_perf
from aiperf.bops.peak import NATIVE, MachinePeak, own_cores
from aiperf.errors import BadConfiguration
from aiperf.native import program
from aiperf.programs import ask
from aiperf.statistics.estimate import of_repeats
from aiperf.system.control_groups import available_bytes

LEAST_REPEATS = 10
_LONGEST_SECONDS = 3600.0
GREP_EXPRESSION = "a+b|^q.*x$"
_SIZES = {"sort": 1_000_000, "grep": 16_000_000, "wordcount": 16_000_000}
_BYTES_PER_RECORD = 14
_SORT_BYTES = 24
"""Memory per record: the numbers, a copy while the array grows, and the merged array."""


@dataclass(frozen=True, slots=True)
class Times:
    """Wall times in seconds of separate runs of a program, with median and interval."""

    seconds: tuple[float, ...]
    median: float
    interval: tuple[float, float]
    """95 % interval of the mean in seconds."""
    load: float
    """Load average of the last minute before the first run: processes that ran or waited for a processor."""


def times(measure: Callable[[], float], repeats: int) -> Times:
    """Measure the wall times of separate runs of a program, in seconds, with median and 95 % interval of the mean."""
    if repeats < LEAST_REPEATS:
        raise BadConfiguration(
            f"a rate is measured in at least {LEAST_REPEATS} runs, but found --repeat {repeats}: raise it"
        )
    load = os.getloadavg()[0]
    seconds = tuple(measure() for _ in range(repeats))
    estimate = of_repeats(seconds)
    assert estimate is not None
    return Times(seconds, statistics.median(seconds), estimate.interval, load)


def ratio(first: Sequence[float], second: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """Return the mean ratio first ÷ second of paired measurements, and its 95 % interval as (low, high)."""
    estimate = of_repeats([math.log(one / other) for one, other in zip(first, second, strict=True)])
    assert estimate is not None
    low, high = estimate.interval
    return math.exp(estimate.value), (math.exp(low), math.exp(high))


def instruction_count(
    command: Sequence[str], launch: Sequence[str], *, simulate: bool, source: Path | None = None
) -> tuple[InstructionCount | None, str]:
    """Run a command and return its numbers of instructions, and the reason as text if hardware counters did not count them."""
    try:
        return counted_by_perf([*launch, *command], source), ""
    except NotMeasured as error:
        reason = f"not measured: {error}"
    return (counted_by_callgrind(command, launch, source) if simulate else None), reason


def result(
    name: str,
    command: Sequence[str],
    timed: Times,
    counted: InstructionCount | None,
    reason: str,
    source: SourceCount | None,
    peak: MachinePeak | None,
) -> dict[str, Any]:
    """Return the result of a measured program as the JSON object that --json prints: counts, times, rate, intensity and peak.

    The operations are those of the source count, or without one those of equation (3). A figure that is not known is None.

    Args:
        name: name of the program.
        command: program and its arguments.
        timed: times of its runs.
        counted: numbers of instructions. None if they were not counted.
        reason: reason as text if hardware counters did not count. '' if they did.
        source: operations counted at the source. None without a source count.
        peak: measured peak of this machine. None if it was not measured.
    """
    by_instructions = None if counted is None else counted.bops
    operations = source.bops if source is not None else by_instructions
    traffic = None if counted is None else counted.traffic_bytes
    per_second = None if operations is None else operations / timed.median
    slowest, fastest = timed.interval[1], max(timed.interval[0], min(timed.seconds) / 2)
    deviation = None
    if source is not None and counted is not None and source.bops:
        deviation = (counted.difference if counted.own is None else counted.own) / source.bops - 1
    return {
        "kind": "program",
        "name": name,
        "command": list(command),
        **{
            each: getattr(counted, each, None) for each in ("instructions", "branches", "loads", "stores", "difference")
        },
        "own_difference": getattr(counted, "own", None),
        "bops": by_instructions,
        "origin": reason if counted is None else counted.origin,
        "not_measured": reason,
        "by_object": {} if counted is None else counted.by_object,
        "notes": [] if counted is None else list(counted.notes),
        "source_bops": None if source is None else source.bops,
        "source": None
        if source is None
        else {**asdict(source), "by_line": [asdict(each) for each in source.by_line[:40]]},
        "deviation": deviation,
        "seconds": {"runs": timed.seconds, "median": timed.median, "interval": timed.interval},
        "load": timed.load,
        "bops_per_second": per_second,
        "bops_per_second_interval": None if operations is None else [operations / slowest, operations / fastest],
        "efficiency": None if per_second is None or peak is None else per_second / peak.measured,
        "traffic_bytes": traffic,
        "traffic_origin": getattr(counted, "traffic_origin", None),
        "intensity": operations / traffic if operations is not None and traffic else None,
        "peak": None if peak is None else asdict(peak),
    }


@dataclass(frozen=True, slots=True)
class Tool:
    """A measuring program of AIPerf (sort, grep or wordcount) with its generated data and number of processes."""

    name: str
    words: tuple[str, ...]
    """Arguments of the program."""
    ranks: int

    @property
    def launch(self) -> tuple[str, ...]:
        """Words before the program in its command line: mpirun with the number of ranks (processes). Empty for one rank."""
        return ("mpirun", "--oversubscribe", "-np", str(self.ranks)) if self.ranks > 1 else ()

    def built(self, *flags: str) -> Path:
        """Compile the program with these flags, and with MPI if it has several ranks."""
        header = hashlib.sha256((NATIVE / "tool.h").read_bytes()).hexdigest()[:16]
        mpi = ("-DWITH_MPI",) if self.ranks > 1 else ()
        words = ("-std=c++17", *flags, *mpi, f"-DHEADER=0x{header}", f"-I{NATIVE}")
        return program(NATIVE / f"{self.name}.cpp", compiler="mpicxx" if self.ranks > 1 else "g++", flags=words)

    def source_count(self, *flags: str) -> SourceCount:
        """Run the program once on its data, and return its executed basic operations (BOPs), counted at the source."""
        mpi = ("-DWITH_MPI", *_mpi_flags()) if self.ranks > 1 else ()
        words = ("-std=c++17", *flags, f"-I{NATIVE}", *mpi)
        return count_sources([NATIVE / f"{self.name}.cpp"], flags=words, arguments=self.words, launch=self.launch)

    def read_seconds(self, path: Path) -> float:
        """Run the program once and return the longest time in seconds that one of its processes took to read the input."""
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        ended = ask(
            [*self.launch, str(path), *self.words], seconds=_LONGEST_SECONDS, environment=environment, largest=1 << 32
        )
        return max(map(float, re.findall(r"read_seconds ([\d.]+)", ended.errors)), default=0.0)


def tool(name: str, folder: Path, size: int | None, ranks: int | None, expression: str, seed: int = 0) -> Tool:
    """Generate the input data of a measuring program in `folder`, and return the program with its data and arguments."""
    size = _SIZES[name] if size is None else size
    has_mpi = shutil.which("mpicxx") is not None
    if ranks is not None and ranks > 1 and not has_mpi:
        raise BadConfiguration(
            f"several ranks need MPI, but found no mpicxx for --ranks {ranks}: install it (Debian: "
            "apt-get install libopenmpi-dev)"
        )
    chosen = ranks if ranks is not None else own_cores() if has_mpi else 1
    needed = size * _BYTES_PER_RECORD if name == "sort" else size
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BadConfiguration(
            f"the data fit on the disk, but found {free:,} bytes free at {folder} for {needed:,}: lower --size"
        )
    memory = available_bytes()
    if name == "sort" and 0 < memory < size * _SORT_BYTES:
        raise BadConfiguration(
            f"Sort keeps its records in memory, but found {memory:,} bytes free for {size * _SORT_BYTES:,}: lower --size, "
            "or use more machines"
        )
    path = folder / f"{name}.txt"
    generator = program(NATIVE / "generate.c", compiler="cc", flags=("-O2", "-lm"))
    execute([str(generator), "records" if name == "sort" else "text", str(size), str(seed)], output=path)
    return Tool(name, (expression, str(path)) if name == "grep" else (str(path),), chosen)


def measure_tool(chosen: Tool, repeats: int, flags: str, against: str | None, peak: MachinePeak) -> dict[str, Any]:
    """Build and measure a measuring program, and return the JSON object of its result: BOPs, times, rate, memory traffic."""
    path = chosen.built(*shlex.split(flags))
    command = [str(path), *chosen.words]
    pairs: list[float] = []
    other = None if against is None else [*chosen.launch, str(chosen.built(*shlex.split(against))), *chosen.words]

    def measure() -> float:
        seconds = execute([*chosen.launch, *command])
        if other is not None:
            pairs.append(execute(other))
        return seconds

    timed = times(measure, repeats)
    counted, reason = instruction_count(command, chosen.launch, simulate=True)
    found = result(chosen.name, command, timed, counted, reason, chosen.source_count(*shlex.split(flags)), peak)
    found["ranks"] = chosen.ranks
    found["read_seconds"] = chosen.read_seconds(path)
    if pairs:
        value, interval = ratio(pairs, timed.seconds)
        found["against"] = {"flags": against, "seconds": pairs, "ratio": value, "interval": interval}
    return found


def _mpi_flags() -> list[str]:
    return shlex.split(ask(["mpicxx", "-show"], seconds=60.0).output)[1:]
