"""Preflight's result (checks of the nodes before a run) as text for a terminal: a table of the nodes, and their faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aiperf import units
from aiperf.journal.events import NodeChecked
from aiperf.measure.probe import ProbeReading
from aiperf.preflight.node_faults import ALL, PAIRS
from aiperf.system.description.of_run import in_words, system_description

_COLUMNS = ("disk write", "disk read", "matrix product", "memory", PAIRS, ALL)


def lines(checks: Sequence[NodeChecked]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("node", "verdict", "clock", *_COLUMNS)]
    rows += [
        (_name(check), _verdict(check), _clock(check), *(_best(check, name) for name in _COLUMNS)) for check in checks
    ]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for check in checks:
        yield from (f"{_name(check)}: {fault}" for fault in check.faults)
    system = system_description({}, checks)
    yield from (f"note: {line}" for line in in_words(system.differences, system.nodes))
    for note in sorted({note for check in checks for note in check.notes}):
        yield f"note: {note}"


def _name(check: NodeChecked) -> str:
    return check.host if check.host == check.address else f"{check.host} ({check.address})"


def _verdict(check: NodeChecked) -> str:
    return "excluded" if check.excluded else "kept" if check.faults else "well"


def _clock(check: NodeChecked) -> str:
    return "—" if check.clock_offset_seconds is None else f"{check.clock_offset_seconds:+.4f} s"


def _best(check: NodeChecked, name: str) -> str:
    stored: dict[str, Any] | None = check.readings.get(name)
    if stored is None:
        return "—"
    reading = ProbeReading(**stored)
    values = {part: each for part, each in reading.series.items() if part != "temporary"}
    if reading.failed is not None or not values:
        return "failed"
    tops = [max(each) for each in values.values()]
    return units.si(max(tops) if name in (PAIRS, ALL) else min(tops), reading.unit)
