"""Results of preflight (the check of the nodes before a run), and warnings about nodes and system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from aiperf.journal.events import NodeChecked, WorkerJoined
from aiperf.report.facts import NodeFacts, facts_of
from aiperf.run_warning import RunWarning
from aiperf.system.of_run import MOST_NAMED as MOST_NODES_NAMED
from aiperf.system.of_run import SystemDescription, in_words
from aiperf.units import si

MOST_NAMED = 4
"""Maximum number of nodes that a warning names."""


def nodes(checks: Sequence[NodeChecked]) -> tuple[NodeFacts, ...]:
    """Return one entry for each check of a node by preflight, in order of the journal."""
    return tuple(
        facts_of(
            NodeFacts,
            check,
            faults=tuple(check.faults),
            notes=tuple(check.notes),
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
    """Return the best repetition of the weakest series, or of the best series if `is_any`, or of `series`."""
    reading: dict[str, Any] = check.readings.get(probe, {})
    if reading.get("failed") is not None:
        return None
    all_series = reading.get("series", {})
    tops = [max(values) for name, values in all_series.items() if values and series in (None, name)]
    return (max(tops) if is_any else min(tops)) if tops else None


_SPEEDS = {
    "disk_write_bytes_per_second": ("disk write", "B/s"),
    "matmul_flops": ("matrix product", "FLOPS"),
    "memory_bytes_per_second": ("memory", "B/s"),
    "pair_bytes_per_second": ("pair", "B/s"),
}


def beside_kept(nodes: Sequence[NodeFacts]) -> Iterator[str]:
    """Yield for each excluded node its faults, and its speeds beside those of the kept nodes."""
    for node in nodes:
        if node.excluded:
            speeds = []
            for field, (title, unit) in _SPEEDS.items():
                own = getattr(node, field)
                kept = [speed for each in nodes if not each.excluded and (speed := getattr(each, field)) is not None]
                if own is not None and kept:
                    speeds.append(f"{title} {si(own, unit)}, kept {si(min(kept), unit)} to {si(max(kept), unit)}")
            yield f"{node.host} ({'; '.join(node.faults)}): {'; '.join(speeds) or 'no speed was measured on both sides'}"


def clock_offsets(checks: Sequence[NodeChecked | NodeFacts]) -> dict[str, float]:
    """Return the clock offset of each host from the driver's host in seconds, by host."""
    last = {check.host: check for check in checks if check.clock_offset_seconds is not None}
    offsets = {
        host: (check.clock_offset_seconds or 0.0, check.clock_error_seconds or 0.0) for host, check in last.items()
    }
    return {host: offset for host, (offset, error) in offsets.items() if abs(offset) > error}


def preflight_warnings(
    checks: Sequence[NodeChecked], config: dict[str, Any], *, is_simulated: bool
) -> list[RunWarning]:
    if (config.get("preflight") or {}).get("probes") == "none" and not is_simulated:
        text = "the nodes were not checked before the run (preflight.probes=none)"
        return [RunWarning(text, "note", "leave preflight.probes unset in the next run")]
    warnings: list[RunWarning] = []
    for group, description in (
        ([check for check in checks if check.excluded], "excluded by preflight"),
        (
            [check for check in checks if check.faults and not check.excluded],
            "used in spite of a fault found by preflight",
        ),
    ):
        if group:
            named = "; ".join(f"{check.host}: {', '.join(check.faults)}" for check in group[:MOST_NAMED])
            more = f"; and {len(group) - MOST_NAMED} more" if len(group) > MOST_NAMED else ""
            text = f"{len(group)} of {len(checks)} nodes {description}: {named}{more}"
            warnings.append(RunWarning(text, "warning", "fix these faults, then test with: python -m aiperf preflight"))
    notes = sorted({note for check in checks for note in check.notes})
    remedy = "see docs/preflight.md for this probe and its remedies"
    return warnings + [RunWarning(f"preflight, {note}", "note", remedy) for note in notes]


def system_warnings(system: SystemDescription) -> list[RunWarning]:
    alike = "set up all nodes alike, or exclude the differing ones (listed in the report under System)"
    warnings = [RunWarning(text, "note", alike) for text in in_words(system.differences, system.nodes)]
    if any(value is not None for value in system.form.values()) and system.unfinished:
        text = f"the system's form is incomplete (system.*): {', '.join(system.unfinished)}"
        warnings.append(
            RunWarning(text, "note", "fill in these fields, best in a file: system.file=FILE (docs/report.md)")
        )
    if system.not_described and system.kinds:
        names = ", ".join(node for node, _ in system.not_described[:MOST_NODES_NAMED])
        text = f"{len(system.not_described)} nodes were not described: {names}"
        warnings.append(RunWarning(text, "note", "find the reason on these nodes with: python -m aiperf preflight"))
    return warnings


def unusable_accelerators(workers: Iterable[WorkerJoined]) -> list[RunWarning]:
    """Return a warning for each fault by which workers ran without the accelerators of their hosts."""
    hosts = {fault: worker.host for worker in workers for fault in worker.machine.get("driver_faults", ())}
    remedy = "repair the driver, and run again"
    return [
        RunWarning(f"no accelerator of {host!r} was used: {fault}", "critical", remedy) for fault, host in hosts.items()
    ]
