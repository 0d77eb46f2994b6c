"""Measurement of a program: its basic operations (BOPs), the times of separate runs, and its memory traffic."""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aiperf.bops.count import count_sources
from aiperf.bops.execute import execute
from aiperf.bops.instructions import InstructionCount, NotMeasured, counted_by_callgrind, counted_by_perf
from aiperf.bops.peak import NATIVE, MachinePeak, own_cores
from aiperf.bops.result import Against, ProgramResult, SourceCount, Times
from aiperf.errors import BadConfiguration
from aiperf.native import program
from aiperf.programs import ask
from aiperf.progress import steps
from aiperf.statistics.estimate import of_repeats
from aiperf.system.control_groups import available_bytes
from aiperf.units import count

LEAST_REPEATS = 10
_HOTTEST_LINES = 40
LEAST_SECONDS = 2.0
"""Least seconds of the measured part of a tool's run. It repeats its work in passes."""
SIZES = {"sort": 4_000_000, "grep": 64_000_000, "wordcount": 64_000_000}
"""Records, or bytes of text, per rank."""
_RECORD_BYTES = 8
_SORT_BYTES = 24
"""Memory per record: the numbers, a copy while the array grows, and the merged array."""


def times(measure: Callable[[], float], repeats: int) -> tuple[Times, float]:
    """Measure separate runs of a program. Return their times, and the load average of the last minute before them."""
    if repeats < LEAST_REPEATS:
        raise BadConfiguration(
            f"a rate is measured in at least {LEAST_REPEATS} runs, but found --repeat {repeats}: raise it"
        )
    load = os.getloadavg()[0]
    seconds = tuple(measure() for _ in steps("runs of the program", range(repeats)))
    estimate = of_repeats(seconds)
    assert estimate is not None
    return Times(seconds, statistics.median(seconds), estimate.interval), load


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
        counted = counted_by_perf([*launch, *command], source)
    except NotMeasured as error:
        return (counted_by_callgrind(command, launch, source) if simulate else None), f"not measured: {error}"
    if counted.traffic_bytes is None and simulate:
        simulated = counted_by_callgrind(command, launch, source)
        counted = msgspec.structs.replace(
            counted, traffic_bytes=simulated.traffic_bytes, traffic_origin=simulated.traffic_origin
        )
    return counted, ""


def result(
    name: str,
    command: Sequence[str],
    timed: tuple[Times, float],
    counted: InstructionCount | None,
    reason: str,
    source: SourceCount | None,
    peak: MachinePeak | str,
) -> ProgramResult:
    """`timed`: times, and the load before them. `reason`: why hardware counters did not count, '' if they did.

    `peak`: of this machine, or the reason why it is not known.
    """
    seconds, load = timed
    by_instructions = None if counted is None else counted.bops
    operations = source.bops if source is not None else by_instructions
    traffic = None if counted is None else counted.traffic_bytes
    per_second = operations / seconds.median if operations else None
    slowest, fastest = seconds.interval[1], max(seconds.interval[0], min(seconds.runs) / 2)
    deviation = None
    if source is not None and counted is not None and source.bops:
        own = counted.difference if counted.own_difference is None else counted.own_difference
        deviation = own / source.bops - 1
    unknown = dict.fromkeys(InstructionCount.__struct_fields__) | {"origin": reason, "by_object": {}, "notes": ()}
    counts: dict[str, Any] = unknown if counted is None else msgspec.structs.asdict(counted)
    if isinstance(peak, str):
        counts["notes"] = (*counts["notes"], peak)
    return ProgramResult(
        **counts,
        difference=None if counted is None else counted.difference,
        bops=by_instructions,
        name=name,
        command=tuple(command),
        not_measured=reason,
        source_bops=None if source is None else source.bops,
        source=None if source is None else msgspec.structs.replace(source, by_line=source.by_line[:_HOTTEST_LINES]),
        deviation=deviation,
        seconds=seconds,
        load=load,
        bops_per_second=per_second,
        bops_per_second_interval=(operations / slowest, operations / fastest) if operations else None,
        efficiency=None if per_second is None or isinstance(peak, str) else per_second / peak.measured,
        intensity=operations / traffic if operations and traffic else None,
        peak=None if isinstance(peak, str) else peak,
    )


@dataclass(frozen=True, slots=True)
class Tool:
    """A measuring program of AIPerf (sort, grep or wordcount) with its generated data and number of processes."""

    name: str
    words: tuple[str, ...]
    """Arguments of the program. The last ones are its output and the number of passes, 1."""
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

    def timed(self, path: Path, passes: int) -> tuple[float, float]:
        """Run the program. Return the seconds of a pass between barriers, and those of the start and end of its processes."""
        times = Path(self.words[-2]).with_suffix(".seconds")
        wall = execute([*self.launch, str(path), *self.words[:-1], str(passes)], output=times)
        begin, end, written = map(float, times.read_text().split())
        return (end - begin) / passes, wall - (written - begin)


def tool(name: str, folder: Path, size: int | None, ranks: int | None, expression: str, seed: int = 0) -> Tool:
    """Generate the input data of a measuring program in `folder`, and return the program with its data and arguments."""
    has_mpi = shutil.which("mpicxx") is not None
    if ranks is not None and ranks > 1 and not has_mpi:
        raise BadConfiguration(
            f"mpicxx is not installed. --ranks {ranks} needs it (Debian: apt-get install libopenmpi-dev)"
        )
    chosen = ranks if ranks is not None else own_cores() if has_mpi else 1
    size = SIZES[name] * chosen if size is None else size
    needed = 2 * size * _RECORD_BYTES if name == "sort" else size
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BadConfiguration(
            f"the data need {count(needed)} bytes of disk, but {folder} has {count(free)} free. Lower --size"
        )
    memory = available_bytes()
    if name == "sort" and 0 < memory < size * _SORT_BYTES:
        raise BadConfiguration(
            f"Sort needs {count(size * _SORT_BYTES)} bytes of memory, but {count(memory)} are free. Lower --size, or use "
            "more machines"
        )
    path = folder / f"{name}.input"
    generator = program(NATIVE / "generate.c", compiler="cc", flags=("-O2", "-lm"))
    execute([str(generator), "records" if name == "sort" else "text", str(size), str(seed)], output=path)
    words = (str(path), str(folder / "output"), "1")
    return Tool(name, (expression, *words) if name == "grep" else words, chosen)


def measure_tool(chosen: Tool, repeats: int, flags: str, against: str | None, peak: MachinePeak | str) -> ProgramResult:
    path = chosen.built(*shlex.split(flags))
    other = None if against is None else chosen.built(*shlex.split(against))
    passes = math.ceil(LEAST_SECONDS / chosen.timed(path, 1)[0])
    pairs: list[float] = []
    starts: list[float] = []

    def measure() -> float:
        seconds, start = chosen.timed(path, passes)
        starts.append(start)
        if other is not None:
            pairs.append(chosen.timed(other, passes)[0])
        return seconds

    timed = times(measure, repeats)
    command = [str(path), *chosen.words]
    counted, reason = instruction_count(command, chosen.launch, simulate=True)
    measured = result(chosen.name, command, timed, counted, reason, chosen.source_count(*shlex.split(flags)), peak)
    compared = None if against is None else Against(against, tuple(pairs), *ratio(pairs, timed[0].runs))
    return msgspec.structs.replace(
        measured, ranks=chosen.ranks, passes=passes, start_seconds=statistics.median(starts), against=compared
    )


def _mpi_flags() -> list[str]:
    return shlex.split(ask(["mpicxx", "-show"], seconds=60.0).output)[1:]
