"""Number of executions of each place in a source, from the regions that clang's source-based coverage counts.

A place belongs to the innermost record of its function or template instantiation, and in it to the innermost region.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

Place = tuple[int, int]
"""Line and column of a file, both from 1."""
_CODE, _EXPANSION = 0, 1


class BranchesInMacro(Exception):
    """A macro with parts that were executed a different number of times. The executions of its operators are unknown."""


@dataclass(frozen=True, slots=True)
class Region:
    """Part of a source file with one number of executions, from `start` to before `end`."""

    start: Place
    end: Place
    count: int
    file: int
    expanded_file: int
    kind: int


@dataclass(frozen=True, slots=True)
class Record:
    """Counts of one function, or of one instantiation of a template."""

    name: str
    file: str
    regions: tuple[Region, ...]
    branches: tuple[tuple[Place, int, int], ...]
    """Place, executions that were true, and executions that were false."""

    @property
    def extent(self) -> tuple[Place, Place]:
        """Start and end of the function in its file, each as (line, column) from 1. The end is exclusive."""
        own = [region for region in self.regions if region.file == 0 and region.kind == _CODE]
        return min(region.start for region in own), max(region.end for region in own)

    def executions(self, place: Place, guard: Place | None) -> int | None:
        """Return how often a place of the function was executed in the measured run. None if no region contains the place."""
        if guard is not None and not any(
            each.file == 0 and each.start == guard and place < each.end for each in self.regions
        ):
            return 0
        inside = [each for each in self.regions if each.file == 0 and each.start <= place < each.end]
        expansions = [each for each in inside if each.kind == _EXPANSION]
        if expansions:
            counts = {expansions[0].count, *self._expanded(expansions[0].expanded_file)}
            if len(counts) > 1:
                raise BranchesInMacro
            return counts.pop()
        code = [each for each in inside if each.kind == _CODE]
        return max(code, key=lambda each: (each.start, [-part for part in each.end])).count if code else None

    def _expanded(self, file: int) -> Iterator[int]:
        for region in self.regions:
            if region.file == file:
                yield region.count
                if region.kind == _EXPANSION:
                    yield from self._expanded(region.expanded_file)


class Coverage:
    """Numbers of executions of all functions of a program in one run, by source file."""

    def __init__(self, records: Iterable[Record]) -> None:
        by_file: defaultdict[str, dict[tuple[Place, Place], list[Record]]] = defaultdict(dict)
        counted: dict[str, Record] = {}
        unique: list[Record] = []
        for record in sorted(records, key=lambda each: -each.regions[0].count):
            if record.name in counted:  # an inline function of several files has one set of counters
                record = replace(record, regions=tuple(replace(each, count=0) for each in record.regions), branches=())
            counted.setdefault(record.name, record)
            unique.append(record)
        for record in unique:
            by_file[record.file].setdefault(record.extent, []).append(record)
        self._by_file: Mapping[str, list[tuple[tuple[Place, Place], list[Record]]]] = {
            file: sorted(extents.items()) for file, extents in by_file.items()
        }
        self._starts = {file: [start for (start, _), _ in extents] for file, extents in self._by_file.items()}
        self.names = frozenset(name.rpartition(":")[2] for name in counted)

    def executed_files(self) -> set[str]:
        return {
            file
            for file, extents in self._by_file.items()
            if any(record.regions[0].count for _, records in extents for record in records)
        }

    def records(self, file: str, place: Place) -> list[Record]:
        """Return the counts of the innermost function that contains a place: one record, or one per template instantiation."""
        extents = self._by_file.get(file, [])
        for index in range(bisect_right(self._starts.get(file, []), place) - 1, -1, -1):
            (_, end), records = extents[index]
            if place < end:
                return records
        return []

    def executions(self, file: str, place: Place, guard: Place | None = None) -> int | None:
        """Return how often a place was executed, added over all instantiations of a template. None if no region contains it."""
        counts = [record.executions(place, guard) for record in self.records(file, place)]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def false_branches(self, file: str, start: Place, end: Place) -> int:
        """How often conditions from `start` to `end` (line, column, exclusive) were false, over all template instantiations."""
        return sum(
            false for record in self.records(file, start) for place, _, false in record.branches if start <= place < end
        )


def records_of(exported: Mapping[str, Any]) -> Iterator[Record]:
    """Yield the numbers of executions of each function. `exported`: JSON object that `llvm-cov export` printed."""
    for function in exported["data"][0]["functions"]:
        yield Record(
            function["name"],
            function["filenames"][0],
            tuple(Region((r[0], r[1]), (r[2], r[3]), r[4], r[5], r[6], r[7]) for r in function["regions"]),
            tuple(((b[0], b[1]), b[4], b[5]) for b in function["branches"] if b[6] == 0),
        )
