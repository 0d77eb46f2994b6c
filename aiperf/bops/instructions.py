"""Instruction count of a program, by hardware counters or by callgrind. Equation (3) subtracts branches, loads and stores."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiperf.bops.execute import Failed, execute
from aiperf.bops.peak import NATIVE, cache_folders, kernel_figure
from aiperf.bops.roofline import LINE_BYTES
from aiperf.errors import BadConfiguration
from aiperf.native import program
from aiperf.units import change

PASSES = 5_000_000
TRUSTED = 0.01
"""Largest relative error of a counter on the shipped loop."""
TRUSTED_TRAFFIC = 0.1
"""Largest relative error of the memory controllers on a copy of known size."""
COPIES, COPY_BYTES = 10, 2 * (64 << 20)
"""Passes of copy.c, and the bytes that a pass reads and writes."""
_COUNTED = ("instructions", "branches", "loads", "stores", "cycles")
_SIGILL = (-4, 132)
_ALWAYS = 99.5
"""Percent of the time. Above it a counter was not multiplexed."""
_PMU = re.compile(r"^cpu\w*/([^/]+)/(\w*)$")
"""Event of one kind of core, as perf names it on hybrid processors: cpu_core/instructions/u."""


class NotMeasured(Exception):
    """Hardware counters that are missing, forbidden for this user, or wrong. The message is the reason for the user."""


class InstructionCount(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of instructions that one run of a program executed at user level, by kind, and its memory traffic."""

    instructions: int
    branches: int
    loads: int
    stores: int
    origin: str
    """measured, or simulated by callgrind."""
    traffic_bytes: int | None
    """Bytes between the last cache and the memory. None if not counted."""
    traffic_origin: str | None
    """Counters that the traffic was read from."""
    cycles: int | None
    """None if simulated."""
    by_object: dict[str, int]
    """Instructions by program and library. Empty for hardware counters."""
    own_difference: int | None
    """Equation (3) of the program's own instructions, without libraries. None for hardware counters."""
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> int:
        """Instructions − branches − loads − stores, equation (3). Negative if one instruction does several of these things."""
        return self.instructions - self.branches - self.loads - self.stores

    @property
    def bops(self) -> int | None:
        """Basic operations (BOPs) by equation (3): instructions − branches − loads − stores. None if this is negative."""
        return self.difference if self.difference >= 0 else None


def events() -> dict[str, Any]:
    """Return the names of the hardware events for the vendor of this processor, by kind: 'instructions', 'loads', …."""
    rows = json.loads(importlib.resources.files("aiperf.bops").joinpath("events.json").read_text("utf-8"))
    cpuinfo = Path("/proc/cpuinfo").read_text()
    return next(row for row in rows if row["vendor"] in cpuinfo)


def counted_by_perf(command: Sequence[str], source: Path | None = None) -> InstructionCount:
    row = events()
    names = {kind: row[kind] for kind in _COUNTED}
    _perf(["true"], {"instructions": names["instructions"]}, None)
    loop = program(NATIVE / "loop.c", compiler="cc", flags=("-O1",))
    empty = _perf([str(loop), "0"], names, None)[0]
    full = _perf([str(loop), str(PASSES)], names, None)[0]
    # per pass: load, store, decrement, branch
    for name, per_pass in (("instructions", 4), ("branches", 1), ("loads", 1), ("stores", 1)):
        error = (full[name] - empty[name]) / (per_pass * PASSES) - 1
        if abs(error) > TRUSTED:
            raise NotMeasured(
                f"the counter of {name} is wrong by {change(error)} on a loop of known length, so that none is trusted"
            )
    counts, notes = _perf(command, names, source)
    traffic, origin = None, None
    try:
        traffic, origin = controller_bytes(command, row["controllers"], source), "memory controllers, all programs"
    except NotMeasured as error:
        notes = (*notes, f"no counters of memory controllers: {error}")
        if row["misses"]:
            misses, _ = _perf(command, {event: event for event in row["misses"]}, source)
            traffic, origin = (
                sum(misses.values()) * LINE_BYTES,
                f"misses of the last cache, without {row['misses_lack']}",
            )
        else:
            notes = (*notes, f"no counters of the program's misses: {row['misses_lack']}")
    return InstructionCount(
        **{name: counts[name] for name in _COUNTED},
        origin="measured",
        traffic_bytes=traffic,
        traffic_origin=origin,
        by_object={},
        own_difference=None,
        notes=notes,
    )


def floating_point_operations(command: Sequence[str], source: Path | None = None) -> int:
    """Run a command and return its floating-point operations by hardware counters."""
    operations: dict[str, int] = events()["floating_point"]
    if not operations:
        raise NotMeasured("events.json lists no floating-point events for this processor")
    counts, _ = _perf(command, {event: event for event in operations}, source)
    return sum(count * operations[event] for event, count in counts.items())


def controller_bytes(command: Sequence[str], controllers: Sequence[str], source: Path | None = None) -> int:
    """Run a command and return the bytes that the memory controllers moved meanwhile, including those of other programs."""
    if not controllers:
        raise NotMeasured("events.json lists none for this processor")
    names = {event: event for event in controllers}
    copy = program(NATIVE / "copy.c", compiler="cc", flags=("-O1",))
    empty, full = (
        sum(_perf([str(copy), str(passes)], names, None, everywhere=True)[0].values()) for passes in (0, COPIES)
    )
    error = (full - empty) / (COPIES * COPY_BYTES) - 1
    if abs(error) > TRUSTED_TRAFFIC:
        raise NotMeasured(f"they are wrong by {change(error)} on a copy of known size, so that they are not trusted")
    return sum(_perf(command, names, source, everywhere=True)[0].values())


def _perf(
    command: Sequence[str], names: Mapping[str, str], source: Path | None, *, everywhere: bool = False
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the counts by kind, and notes. `everywhere`: count on all processors, in bytes."""
    if shutil.which("perf") is None:
        raise NotMeasured("the program 'perf' is not installed (Debian: apt-get install linux-perf)")
    group = ["-a", "-e", ",".join(names.values())] if everywhere else ["-e", "{" + ",".join(names.values()) + "}"]
    with tempfile.TemporaryDirectory(prefix="aiperf-bops-") as folder:
        output = Path(folder) / "perf"
        try:
            program_words, environment = _in_own_locale(command)
            words = ["perf", "stat", "-x", ";", *group, "-o", str(output), "--", *program_words]
            execute(words, environment=environment, source=source)
        except Failed as error:
            raise NotMeasured(f"perf failed: {_reason(str(error))}") from error
        lines = [line.replace(",", ".").split(";") for line in output.read_text().splitlines() if line.count(";") >= 4]
    counts = {}
    shares = []
    for index, (kind, name) in enumerate(names.items()):
        # perf prints one line for each kind of core, and names the events as they were requested
        rows = [line for line in lines if _PMU.sub(r"\1:\2", line[2]).rstrip(":") == name] or lines[index : index + 1]
        counted = [line for line in rows if re.fullmatch(r"[\d.]+", line[0])]
        if not counted:
            raise NotMeasured(
                f"{name}: {_reason(rows[0][0].strip('<>') or 'no value') if rows else 'perf printed no line'}"
            )
        share = [float(line[4] or 100) for line in counted]
        main = counted[share.index(max(share))]
        # perf gives controllers of Intel in MiB, others in lines of the cache
        unit = (1 << 20 if main[1] == "MiB" else LINE_BYTES) if everywhere else 1
        if len(counted) == 1 or max(share) >= _ALWAYS:
            counts[kind] = round(float(main[0]) * unit)
            shares.append(max(share))
        else:  # each is extrapolated from the time on its kind of core
            counts[kind] = round(sum(float(line[0]) * part for line, part in zip(counted, share, strict=True)) / 100)
            shares.append(min(100.0, sum(share)))
    if min(shares) >= _ALWAYS:
        return counts, ()
    return counts, (f"counters were multiplexed: counted in {min(shares):.0f} % of the time and extrapolated",)


def _in_own_locale(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command that runs in the user's locale under a perf in the C locale, and the environment to add for perf."""
    locale = next(filter(None, (os.environ.get(name) for name in ("LC_ALL", "LC_NUMERIC", "LANG"))), "C")
    if locale in ("C", "POSIX", "C.UTF-8", "C.utf8"):
        return [*command], {}
    own = os.environ.get("LC_ALL")
    return ["env", *(["-u", "LC_ALL"] if own is None else [f"LC_ALL={own}"]), *command], {"LC_ALL": "C"}


def _reason(words: str) -> str:
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    level = paranoid.read_text().strip() if paranoid.exists() else "unknown"
    if "not supported" in words:
        return f"{words} (a virtual machine without counters: use the host, or --simulate)"
    if "event syntax error" in words:
        return "this perf, or this processor, does not know the events (perf list)"
    if "paranoid" in words or "permission" in words.lower() or "access" in words.lower():
        return (
            f"{words[:200]} (kernel.perf_event_paranoid is {level}: sysctl kernel.perf_event_paranoid=2, in a container add "
            "--cap-add PERFMON)"
        )
    return words[:300]


def cache_options() -> tuple[list[str], list[str]]:
    """Callgrind's options for this machine's caches, and remarks on caches that it cannot simulate exactly."""
    options: dict[str, str] = {}
    notes: list[str] = []
    for folder in cache_folders():
        level = kernel_figure(folder / "level")
        kind = (folder / "type").read_text().strip() if (folder / "type").is_file() else ""
        name = {(1, "Data"): "D1", (1, "Instruction"): "I1"}.get((level or 0, kind), "LL")
        figures = {
            each: kernel_figure(folder / each) for each in ("size", "ways_of_associativity", "coherency_line_size")
        }
        size, ways, line = figures.values()
        options.pop(name, None)  # of a lower level
        if level is None or not size or not ways or not line:
            missing = ", ".join(each for each, value in {"level": level, **figures}.items() if not value)
            notes.append(
                f"{name} has callgrind's default size, since the kernel does not describe it ({folder}: {missing})"
            )
            continue
        sets = max(1, size // (ways * line))
        allowed = 1 << (sets.bit_length() - 1)
        if allowed * ways * line != size:
            notes.append(
                f"{name} of {size >> 10} KiB is simulated with {allowed * ways * line >> 10} KiB: a power of two of sets"
            )
        options[name] = f"--{name}={allowed * ways * line},{ways},{line}"
    return [*options.values()], notes


def counted_by_callgrind(
    command: Sequence[str], launch: Sequence[str] = (), source: Path | None = None
) -> InstructionCount:
    """Run a command in callgrind and return its simulated numbers of instructions and memory traffic, from its `main` on."""
    if shutil.which("valgrind") is None:
        raise BadConfiguration(
            "valgrind is not installed. A simulated count needs it (Debian: apt-get install valgrind)"
        )
    options, notes = cache_options()
    with tempfile.TemporaryDirectory(prefix="aiperf-bops-") as folder:
        words = [
            *("valgrind", "--tool=callgrind", "--toggle-collect=main", "--cache-sim=yes", "--branch-sim=yes", *options),
            f"--callgrind-out-file={folder}/%p.out",
        ]
        try:
            execute([*launch, *words, *command], source=source)
        except Failed as error:
            if error.status in _SIGILL or "unrecognised instruction" in str(error):
                raise BadConfiguration(
                    f"valgrind simulates no AVX-512, but {command[0]!r} was ended by SIGILL: build it without -march=native"
                ) from error
            raise
        objects: dict[str, Counter[str]] = {}
        for file in Path(folder).glob("*.out"):
            for name, costs in read_callgrind(file.read_text(errors="replace")).items():
                objects.setdefault(name, Counter()).update(costs)
    totals = sum(objects.values(), Counter[str]())
    own = objects.get(Path(command[0]).name, Counter[str]())
    if not totals["Ir"]:
        raise BadConfiguration(f"{command[0]!r} has no symbol main, where callgrind begins to count. Do not strip it")
    return InstructionCount(
        instructions=totals["Ir"],
        branches=totals["Bc"] + totals["Bi"],
        loads=totals["Dr"],
        stores=totals["Dw"],
        origin="simulated by callgrind",
        cycles=None,
        traffic_bytes=(totals["ILmr"] + totals["DLmr"] + totals["DLmw"]) * LINE_BYTES,
        traffic_origin="simulated misses of the last cache",
        by_object=dict(Counter({name: costs["Ir"] for name, costs in objects.items()}).most_common()),
        own_difference=own["Ir"] - own["Bc"] - own["Bi"] - own["Dr"] - own["Dw"],
        notes=tuple(notes),
    )


def read_callgrind(text: str) -> dict[str, Counter[str]]:
    """Numbers of events by object file and event name. The inclusive cost of a call is skipped."""
    names: list[str] = []
    objects: dict[str, str] = {}
    counts: dict[str, Counter[str]] = {}
    current, skips = "unknown", False
    for line in text.splitlines():
        if line.startswith("events:"):
            names = line.split()[1:]
        elif line.startswith(("ob=", "cob=")):
            number, _, name = line.partition("=")[2].partition(" ")
            if name:
                objects[number] = Path(name).name
            if line.startswith("ob="):
                current = objects.get(number, number)
        elif line.startswith("calls="):
            skips = True  # the next line has the inclusive cost of the callee
        elif re.match(r"[\d+\-*]", line) and names:
            if not skips:
                costs = dict(zip(names, map(int, line.split()[1:]), strict=False))
                counts.setdefault(current, Counter()).update(costs)
            skips = False
    return counts
