"""Section of the report on the system: nodes with their check before the run, their description, and software versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiperf import units
from aiperf.page.section import (
    Cell,
    CollapsedTables,
    Column,
    Paragraph,
    Section,
    SideBySide,
    Table,
    measured,
    pairs,
    row_of,
)
from aiperf.report import phrases
from aiperf.report.facts import NodeFacts, Report
from aiperf.system.of_run import MOST_NAMED, NodeKind, SystemDescription

MOST_SYSTEMS = 8
MOST_NODES = 128
MOST_KINDS = 4
MOST_ROWS = 200
"""Maximum number of rows of differences on the page."""


def system(report: Report) -> Section:
    """Return the section on the nodes, their description and the versions of the software."""
    missing = Paragraph("No node was checked by preflight.", "empty")
    described = tuple(described_nodes(report))
    parts = (
        nodes(report) or missing,
        CollapsedTables("Descriptions of the nodes, and the site's form", described) if described else None,
        SideBySide((*systems(report), versions(report))),
    )
    return Section("system", "System", parts)


def systems(report: Report) -> tuple[Table, ...]:
    """Return one table for each kind of host (hosts with equal descriptions), at most 8."""
    shown = report.systems[:MOST_SYSTEMS]
    return tuple(
        pairs(
            f"system-{index}",
            f"{units.count(system.hosts)} host{'s' if system.hosts > 1 else ''} like {system.example!r}",
            [
                ("workers", units.count(system.workers)),
                ("data-parallel processes", units.count(system.accelerators)),
                ("device", system.device),
                ("memory per device", units.size(system.device_memory_bytes)),
                ("gradient exchange", system.collective),
                *(
                    (phrases.part(name), value)
                    for name, value in phrases.flattened(
                        {name: value for name, value in system.machine.items() if name != "versions"}
                    )
                ),
            ],
            ("item", "value"),
        )
        for index, system in enumerate(shown, 1)
    )


def nodes(report: Report) -> Table | None:
    """Return the table of the nodes with their results of preflight (the check before a run). None without preflight."""
    if not report.nodes:
        return None
    columns = (
        Column("node"),
        Column("verdict"),
        Column("clock", True, "ahead of the driver's host; the node's telemetry is corrected"),
        Column("disk, writing", True, "to the run's folder, fsync included"),
        Column("disk, reading", True),
        Column("matrix product", True, "of the weakest accelerator, or of all processors"),
        Column("memory", True, "STREAM's triad"),
        Column("pair", True, "bus bandwidth of an all-reduce with the best partner"),
        Column("all nodes", True, "bus bandwidth of the all-reduce of all nodes"),
        Column("faults and notes"),
    )
    ordered = sorted(
        report.nodes, key=lambda node: (not node.excluded, not node.faults, node.host, node.address, node.at)
    )
    footnote = "A dash was not measured. The journal has every repetition (NodeChecked). Methods: docs/preflight.md."
    if len(ordered) > MOST_NODES:
        footnote += f" {units.count(len(ordered) - MOST_NODES)} more nodes are in report.json."
    excluded = sum(node.excluded for node in ordered)
    caption = f"Nodes as checked by preflight: {units.count(len(ordered))}, {units.count(excluded)} excluded"
    return Table("nodes", caption, columns, tuple(_node(node) for node in ordered[:MOST_NODES]), True, footnote)


def _node(node: NodeFacts) -> tuple[Cell, ...]:
    def rate(value: float | None) -> Cell:
        return measured(value, lambda each: units.si(each, "B/s"))

    offset = node.clock_offset_seconds
    clock = (
        Cell("—", 0.0) if offset is None else Cell(f"{offset:+.4f} s ± {node.clock_error_seconds or 0.0:.4f} s", offset)
    )
    return row_of(
        node.host if node.host == node.address else f"{node.host} ({node.address})",
        "excluded" if node.excluded else "kept" if node.faults else "good",
        clock,
        rate(node.disk_write_bytes_per_second),
        rate(node.disk_read_bytes_per_second),
        measured(node.matmul_flops, units.flops_per_second),
        rate(node.memory_bytes_per_second),
        rate(node.pair_bytes_per_second),
        rate(node.bus_bytes_per_second),
        "; ".join((*node.faults, *node.notes)) or "—",
    )


def described_nodes(report: Report) -> Iterator[Table]:
    """Yield tables of differences between nodes, of the `system.*` options (if one is set), and of at most 4 kinds of node."""
    system = report.system
    if system.differences:
        yield _differences(system)
    if any(value is not None for value in system.form.values()):
        yield _form(system)
    for index, kind in enumerate(system.kinds[:MOST_KINDS], 1):
        yield _kind(kind, index, system)


def _differences(system: SystemDescription) -> Table:
    rows = tuple(
        (
            Cell(phrases.part(each.part)),
            Cell(each.usual),
            Cell(value),
            Cell(units.count(len(nodes)), len(nodes)),
            Cell(_named(nodes)),
        )
        for each in system.differences
        for value, nodes in each.others
    )
    columns = (Column("part"), Column("most nodes"), Column("others"), Column("nodes", True), Column("names"))
    footnote = f"{units.count(len(rows) - MOST_ROWS)} more are in report.json." if len(rows) > MOST_ROWS else ""
    return Table("differences", "Differences between nodes", columns, rows[:MOST_ROWS], True, footnote)


def _form(system: SystemDescription) -> Table:
    rows = tuple(
        (Cell(phrases.part(name)), Cell("not filled in" if value is None else str(value)))
        for name, value in system.form.items()
        if name != "file"
    )
    return Table("form", "System, as described by the site", (Column("field"), Column("value")), rows)


def _kind(kind: NodeKind, index: int, system: SystemDescription) -> Table:
    rows = tuple((Cell(phrases.part(part)), Cell(value)) for part, value in phrases.flattened(kind.description))
    caption = f"{units.count(len(kind.nodes))} of {units.count(system.nodes)} nodes: {_named(kind.nodes)}"
    left_out = len(system.kinds) - MOST_KINDS
    footnote = f"Read on the node; SHA-256 {kind.hash[:12]}…"
    if index == MOST_KINDS and left_out > 0:
        footnote += f" {left_out} more kinds of nodes are in report.json."
    return Table(f"kind-{index}", caption, (Column("item"), Column("value")), rows, footnote=footnote)


def _named(nodes: tuple[str, ...]) -> str:
    more = f" and {units.count(len(nodes) - MOST_NAMED)} more" if len(nodes) > MOST_NAMED else ""
    return ", ".join(nodes[:MOST_NAMED]) + more


def versions(report: Report) -> Table:
    """Return the table of software versions on the driver's host."""
    changed: Sequence[str] = report.run.versions_changed
    rows = [
        (name, f"{version} (changed at a resume)" if name in changed else version)
        for name, version in sorted(report.run.versions.items())
    ]
    return pairs("versions", "Versions on the driver's host", rows, ("package", "version"))
