"""Section of the report on the system: nodes with their check before the run, their description, and software versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from aiperf import units
from aiperf.page.section import (
    Cell,
    Collapsed,
    Column,
    Group,
    Paragraph,
    Section,
    Table,
    numbers,
    row_of,
    rows,
    table,
    texts,
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
        Collapsed("Descriptions of the nodes, and the site's form", described, is_printed=False) if described else None,
        Collapsed("Hosts and versions", (Group((*systems(report), versions(report)), "beside"),), is_printed=False),
    )
    return Section("system", "System", parts)


def systems(report: Report) -> tuple[Table, ...]:
    """Return one table for each kind of host (hosts with equal descriptions), at most 8."""
    shown = report.systems[:MOST_SYSTEMS]
    return tuple(
        rows(
            f"system-{index}",
            f"{units.count(system.hosts)} host{'s' if system.hosts > 1 else ''} like {system.example!r}",
            ("item", "value"),
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
        )
        for index, system in enumerate(shown, 1)
    )


def nodes(report: Report) -> Table | None:
    """Return the table of the nodes with their results of preflight (the check before a run). None without preflight."""
    if not report.nodes:
        return None
    footnote = "A dash was not measured. The journal has every repetition (NodeChecked). Methods: docs/preflight.md."
    if len(report.nodes) > MOST_NODES:
        footnote += f" {units.count(len(report.nodes) - MOST_NODES)} more nodes are in report.json."
    return node_table(report.nodes, MOST_NODES, footnote)


def node_table(nodes: Sequence[NodeFacts], most: int | None = None, footnote: str = "") -> Table:
    """Return the results of preflight by node, excluded nodes first, of the first `most` nodes."""
    ordered = sorted(nodes, key=lambda node: (not node.excluded, not node.faults, node.host, node.address, node.at))
    excluded = sum(node.excluded for node in ordered)
    caption = f"Nodes as checked by preflight: {units.count(len(ordered))}, {units.count(excluded)} excluded"
    shown = ordered[:most]
    noted = ["; ".join((*each.faults, *each.notes)) or "—" for each in shown]
    rate = partial(units.si, unit="B/s")
    ahead = "ahead of the driver's host; the node's telemetry is corrected"
    disk, pair = "to the run's folder, fsync included", "bus bandwidth of an all-reduce with the best partner"
    weakest = "of the weakest accelerator, or of all processors"
    together = "bus bandwidth of the all-reduce of all nodes"
    columns = (
        texts("node", [node_name(each) for each in shown]),
        texts("verdict", ["excluded" if each.excluded else "kept" if each.faults else "good" for each in shown]),
        (Column("clock", True, ahead), tuple(map(_clock, shown))),
        numbers("disk, writing", [each.disk_write_bytes_per_second for each in shown], rate, disk),
        numbers("disk, reading", [each.disk_read_bytes_per_second for each in shown], rate),
        numbers("matrix product", [each.matmul_flops for each in shown], units.flops_per_second, weakest),
        numbers("memory", [each.memory_bytes_per_second for each in shown], rate, "STREAM's triad"),
        numbers("pair", [each.pair_bytes_per_second for each in shown], rate, pair),
        numbers("all nodes", [each.bus_bytes_per_second for each in shown], rate, together),
        (Column("faults and notes", on_terminal="left out"), row_of(*noted)),
    )
    return table("nodes", caption, columns, footnote, is_sortable=True)


def node_name(node: NodeFacts) -> str:
    return node.host if node.host == node.address else f"{node.host} ({node.address})"


def _clock(node: NodeFacts) -> Cell:
    offset = node.clock_offset_seconds
    if offset is None:
        return Cell("—")
    return Cell(f"{offset:+.4f} s ± {node.clock_error_seconds or 0.0:.4f} s", offset)


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
    listed = [(each, value, nodes) for each in system.differences for value, nodes in each.others]
    shown = listed[:MOST_ROWS]
    columns = (
        texts("part", [phrases.part(each.part) for each, _, _ in shown]),
        texts("most nodes", [each.usual for each, _, _ in shown]),
        texts("others", [value for _, value, _ in shown]),
        numbers("nodes", [len(nodes) for _, _, nodes in shown], units.count),
        texts("names", [_named(nodes) for _, _, nodes in shown]),
    )
    footnote = f"{units.count(len(listed) - MOST_ROWS)} more are in report.json." if len(listed) > MOST_ROWS else ""
    return table("differences", "Differences between nodes", columns, footnote, is_sortable=True)


def _form(system: SystemDescription) -> Table:
    filled = {name: value for name, value in system.form.items() if name != "file"}
    cells = [(phrases.part(name), "not filled in" if value is None else str(value)) for name, value in filled.items()]
    return rows("form", "System, as described by the site", ("field", "value"), cells)


def _kind(kind: NodeKind, index: int, system: SystemDescription) -> Table:
    described = [(phrases.part(part), value) for part, value in phrases.flattened(kind.description)]
    caption = f"{units.count(len(kind.nodes))} of {units.count(system.nodes)} nodes: {_named(kind.nodes)}"
    left_out = len(system.kinds) - MOST_KINDS
    footnote = f"Read on the node; SHA-256 {kind.hash[:12]}…"
    if index == MOST_KINDS and left_out > 0:
        footnote += f" {left_out} more kinds of nodes are in report.json."
    return rows(f"kind-{index}", caption, ("item", "value"), described, footnote)


def _named(nodes: tuple[str, ...]) -> str:
    more = f" and {units.count(len(nodes) - MOST_NAMED)} more" if len(nodes) > MOST_NAMED else ""
    return ", ".join(nodes[:MOST_NAMED]) + more


def versions(report: Report) -> Table:
    """Return the table of software versions on the driver's host."""
    changed: Sequence[str] = report.run.versions_changed
    listed = [
        (name, f"{version} (changed at a resume)" if name in changed else version)
        for name, version in sorted(report.run.versions.items())
    ]
    return rows("versions", "Versions on the driver's host", ("package", "version"), listed)
