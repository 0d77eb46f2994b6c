"""What preflight said of the nodes: as facts, from the lines of the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiperf.journal.events import NodeChecked
from aiperf.report.facts import NodeFacts
from aiperf.run_warning import RunWarning

MOST_NAMED = 4
"""Nodes with a fault that a warning names."""


def nodes(checks: Sequence[NodeChecked]) -> tuple[NodeFacts, ...]:
    """One for each line: a node that was checked in several sessions of a run has several."""
    return tuple(
        NodeFacts(
            address=check.address,
            host=check.host,
            at=check.at,
            excluded=check.excluded,
            faults=tuple(check.faults),
            notes=tuple(check.notes),
            clock_offset_seconds=check.clock_offset_seconds,
            clock_error_seconds=check.clock_error_seconds,
            disk_write_bytes_per_second=_best(check, "disk write", "run"),
            disk_read_bytes_per_second=_best(check, "disk read", "run"),
            matmul_flops=_best(check, "matrix product"),
            memory_bytes_per_second=_best(check, "memory"),
            pair_bytes_per_second=_best(check, "pairs", is_any=True),
            bus_bytes_per_second=_best(check, "all nodes", is_any=True),
        )
        for check in checks
    )


def _best(check: NodeChecked, probe: str, series: str | None = None, *, is_any: bool = False) -> float | None:
    """The best repetition: of the weakest part, or of any, or of one."""
    reading: dict[str, Any] = check.readings.get(probe, {})
    if reading.get("failed") is not None:
        return None
    told = reading.get("series", {})
    tops = [max(values) for name, values in told.items() if values and series in (None, name)]
    return (max(tops) if is_any else min(tops)) if tops else None


def clock_offsets(checks: Sequence[NodeChecked | NodeFacts]) -> dict[str, float]:
    """By host, what its clock is ahead of the driver's, as far as that is certain: the last word on each host."""
    return {
        check.host: check.clock_offset_seconds
        for check in checks
        if check.clock_offset_seconds is not None
        and abs(check.clock_offset_seconds) > (check.clock_error_seconds or 0.0)
    }


def preflight_warnings(
    checks: Sequence[NodeChecked], config: dict[str, Any], *, is_simulated: bool
) -> list[RunWarning]:
    """What preflight warns of."""
    if (config.get("preflight") or {}).get("probes") == "none" and not is_simulated:
        text = "the nodes were not checked before the run (preflight.probes=none)"
        return [RunWarning(text, "note", "leave preflight.probes out of the next run, which then checks them")]
    found: list[RunWarning] = []
    for those, what in (
        ([check for check in checks if check.excluded], "excluded by preflight"),
        (
            [check for check in checks if check.faults and not check.excluded],
            "used in spite of a fault that preflight found",
        ),
    ):
        if those:
            named = "; ".join(f"{check.host}: {', '.join(check.faults)}" for check in those[:MOST_NAMED])
            more = f"; and {len(those) - MOST_NAMED} more" if len(those) > MOST_NAMED else ""
            text = f"{len(those)} of {len(checks)} nodes {what}: {named}{more}"
            found.append(
                RunWarning(text, "warning", "fix what is named, and see that they pass: python -m aiperf preflight")
            )
    notes = sorted({note for check in checks for note in check.notes})
    remedy = "docs/preflight.md says what each probe looks at, and what to do where it stands out"
    return found + [RunWarning(f"preflight, {note}", "note", remedy) for note in notes]
