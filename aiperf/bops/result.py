"""Results of measured programs: the structs that `bops --json` writes and that `roofline` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from aiperf.bops.peak import MachinePeak, PositiveRate
from aiperf.bops.roofline import RooflinePoint
from aiperf.errors import BadConfiguration
from aiperf.given_file import fault_of, read_json

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class LineCount(msgspec.Struct, frozen=True):
    """Executed basic operations (BOPs) of one source line."""

    file: str
    line: int
    executions: int
    """Largest number of executions of an operator of the line."""
    bops: int


class SourceCount(msgspec.Struct, frozen=True, kw_only=True):
    """Basic operations (BOPs) that one run of a program executed, counted at its source, by operation, function and line."""

    bops: _Count
    last_comparisons: _Count
    """Comparisons at the end of loops. The paper counts a loop's comparison once per pass only."""
    bops_paper: _Count
    at_least: bool
    """Library functions without a counted body were called: the program executed more."""
    upper_bounds: dict[str, str]
    """Constructs that leave a region early, with their places."""
    by_operation: dict[str, _Count]
    by_function: dict[str, _Count]
    by_line: tuple[LineCount, ...]
    library_calls: dict[str, _Count | None]
    """Calls by name. None if the address of the function was passed, since its calls are then unknown."""
    compiler: str
    flops: _Count | None = None
    """Additions, subtractions, multiplications, divisions and negations of floating-point operands among the BOPs.
    None if a template leaves the type of executed operands open."""


class Times(msgspec.Struct, frozen=True):
    """Wall times in seconds of separate runs of a program, or of a pass of them."""

    runs: Annotated[tuple[PositiveRate, ...], msgspec.Meta(min_length=1)]
    median: float
    interval: tuple[float, float]
    """95 % interval of the mean."""


class Against(msgspec.Struct, frozen=True):
    """Interleaved runs of a build with other flags."""

    flags: str
    seconds: tuple[float, ...]
    ratio: PositiveRate
    """Time with these flags ÷ time."""
    interval: tuple[PositiveRate, PositiveRate]


class ProgramResult(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="program"):
    """Counts, times, rate, memory traffic and peak of a measured program. A figure that is not known is None.

    The operations of the rate are those of the source count, or without one those of equation (3).
    """

    name: str
    command: tuple[str, ...]
    instructions: _Count | None
    branches: _Count | None
    loads: _Count | None
    stores: _Count | None
    difference: int | None
    own_difference: int | None
    bops: int | None
    """Basic operations by equation (3). None also if the difference is negative."""
    origin: str | None
    not_measured: str | None
    """Reason for missing hardware counters."""
    by_object: dict[str, _Count]
    notes: tuple[str, ...]
    source_bops: _Count | None = None
    source: SourceCount | None
    deviation: float | None
    """Relative difference of equation (3) from the source count."""
    seconds: Times
    load: float
    bops_per_second: PositiveRate | None
    bops_per_second_interval: tuple[PositiveRate, PositiveRate] | None
    efficiency: PositiveRate | None
    traffic_bytes: Annotated[float, msgspec.Meta(ge=0, le=1e24)] | None
    traffic_origin: str | None
    intensity: PositiveRate | None
    peak: MachinePeak | None
    ranks: int = 1
    cycles: _Count | None = None
    passes: int = 1
    """Repetitions of the work in a run. `seconds` are those of one."""
    start_seconds: float | None = None
    """Median time of the start and end of the processes, which `seconds` leave out. None for programs of others."""
    against: Against | None = None

    def __post_init__(self) -> None:
        counts = (self.branches, self.loads, self.stores, self.difference)
        if self.instructions is not None and None in counts:
            raise ValueError("instructions without branches, loads, stores and difference")
        if self.bops_per_second is not None and self.bops_per_second_interval is None:
            raise ValueError("bops_per_second without its interval")

    @property
    def instructions_per_cycle(self) -> float | None:
        return self.instructions / self.cycles if self.instructions and self.cycles else None

    @property
    def point(self) -> RooflinePoint | None:
        """Rate over intensity. None without operations or memory traffic."""
        if self.bops_per_second is None or self.intensity is None:
            return None
        return RooflinePoint(self.name, self.intensity, self.bops_per_second, self.bops_per_second_interval)


def read_result(path: Path) -> ProgramResult | None:
    """Return the result in the output of `bops --json`. None for another file."""
    rule = "a result of `bops` is its output with --json"
    try:
        content = read_json(path, rule, dict[str, Any])
    except BadConfiguration:
        return None
    if content.get("kind") != "program":
        return None
    try:
        return msgspec.convert(content, ProgramResult)
    except msgspec.ValidationError as error:
        raise fault_of(path, rule, "write it again with `bops`")(f"has other content ({error})") from error
