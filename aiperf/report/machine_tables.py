"""The report's tables of machines: kinds of host, nodes as preflight found them, devices, energy, versions."""

from __future__ import annotations

from collections.abc import Sequence

from aiperf import units
from aiperf.report import words
from aiperf.report.facts import NodeFacts, Report
from aiperf.report.tables import Cell, Column, Table, pairs, row_of

MOST_DEVICES = 64
MOST_SYSTEMS = 8
MOST_NODES = 128


def systems(report: Report) -> tuple[Table, ...]:
    """One table for each kind of host."""
    shown = report.systems[:MOST_SYSTEMS]
    return tuple(
        pairs(
            f"system-{index}",
            f"{units.count(system.hosts)} host{'s' if system.hosts > 1 else ''} like {system.example!r}",
            [
                ("workers", units.count(system.workers)),
                ("data-parallel processes", units.count(system.accelerators)),
                ("device", system.device),
                ("memory of a device", units.size(system.device_memory_bytes)),
                ("gradients exchanged by", system.collective),
                *(
                    (words.part(name), value)
                    for name, value in words.flattened(
                        {name: value for name, value in system.machine.items() if name != "versions"}
                    )
                ),
            ],
            ("part", "value"),
        )
        for index, system in enumerate(shown, 1)
    )


def nodes(report: Report) -> Table | None:
    """The nodes as preflight found them, those with a fault first; None where it was not done."""
    if not report.nodes:
        return None
    columns = (
        Column("node"),
        Column("verdict"),
        Column("clock", True, "ahead of the driver's host; taken out of the node's telemetry"),
        Column("disk, writing", True, "to the run's folder, fsync included"),
        Column("disk, reading", True),
        Column("matrix product", True, "of the weakest accelerator, or of all processors"),
        Column("memory", True, "STREAM's triad"),
        Column("pair", True, "bus bandwidth of an all-reduce with the best partner"),
        Column("all nodes", True, "bus bandwidth of the all-reduce of all nodes"),
        Column("what is wrong"),
    )
    ordered = sorted(
        report.nodes, key=lambda node: (not node.excluded, not node.faults, node.host, node.address, node.at)
    )
    footnote = (
        "A dash was not measured. Every repetition stands in the journal (NodeChecked); docs/preflight.md says how."
    )
    if len(ordered) > MOST_NODES:
        footnote += f" {units.count(len(ordered) - MOST_NODES)} more nodes are in report.json."
    excluded = sum(node.excluded for node in ordered)
    caption = f"Nodes as preflight found them: {units.count(len(ordered))}, {units.count(excluded)} excluded"
    return Table("nodes", caption, columns, tuple(_node(node) for node in ordered[:MOST_NODES]), True, footnote)


def _node(node: NodeFacts) -> tuple[Cell, ...]:
    def rate(value: float | None, unit: str = "B/s") -> Cell:
        return Cell("—", -1.0) if value is None else Cell(units.si(value, unit), value)

    offset = node.clock_offset_seconds
    clock = (
        Cell("—", 0.0) if offset is None else Cell(f"{offset:+.4f} s ± {node.clock_error_seconds or 0.0:.4f} s", offset)
    )
    return row_of(
        node.host if node.host == node.address else f"{node.host} ({node.address})",
        "excluded" if node.excluded else "kept" if node.faults else "well",
        clock,
        rate(node.disk_write_bytes_per_second),
        rate(node.disk_read_bytes_per_second),
        rate(node.matmul_flops, "FLOPS"),
        rate(node.memory_bytes_per_second),
        rate(node.pair_bytes_per_second),
        rate(node.bus_bytes_per_second),
        "; ".join((*node.faults, *node.notes)) or "—",
    )


def telemetry(report: Report) -> Table | None:
    """What was measured on the devices; None where nothing was."""
    if report.telemetry is None or not report.telemetry.devices:
        return None
    devices = report.telemetry.devices
    columns = (
        Column("device"),
        Column("worker", True),
        Column("utilisation", True, "mean, as the device's vendor counts it"),
        Column("memory", True, "most used"),
        Column("power", True, "mean"),
        Column("energy", True),
        Column("hottest", True),
        Column("throttled"),
        Column("not measured", True, "time of the window without samples"),
    )

    def measured(value: float | None, text: str) -> Cell:
        return Cell("—", -1.0) if value is None else Cell(text, value)

    rows = tuple(
        row_of(
            f"{one.device.model or one.device.id} on {one.host}",
            Cell(str(one.worker), one.worker),
            measured(one.utilisation_mean, words.share(one.utilisation_mean)),
            measured(one.memory_used_max_bytes, units.size(one.memory_used_max_bytes or 0)),
            measured(one.power_mean_watts, units.si(one.power_mean_watts or 0.0, "W")),
            measured(one.energy_joules, units.si(one.energy_joules or 0.0, "J")),
            measured(one.temperature_max_celsius, f"{one.temperature_max_celsius or 0:.0f} °C"),
            ", ".join(f"{reason} {units.share(part)}" for reason, part in (one.throttled or {}).items() if part > 0)
            or "—",
            Cell(units.duration(one.seconds_missing), one.seconds_missing),
        )
        for one in devices[:MOST_DEVICES]
    )
    left_out = len(devices) - len(rows)
    footnote = "A dash is a figure that the device does not give."
    footnote += f" {units.count(left_out)} more devices are in report.json." if left_out else ""
    return Table("telemetry", "Devices over the valid window", columns, rows, True, footnote)


def energy(report: Report) -> Table | None:
    """Energy by each way that it was measured, side by side; None where none was."""
    if report.energy is None:
        return None
    columns = (
        Column("measured on"),
        Column("devices", True),
        Column("measured", True, "of the window's device-seconds; the rest are gaps, and in no figure"),
        Column("power", True, "mean of the time that was measured"),
        Column("energy", True),
        Column("by counters", True, "in the seconds that both tell"),
        Column("by samples", True, "in the same seconds, by the trapezoidal rule"),
        Column("they differ by", True, "samples ÷ counters − 1"),
        Column("at most", True, "of one device"),
        Column("FLOPS/W", True, "score ÷ power, of these alone"),
    )

    def told(value: float | None, unit: str) -> Cell:
        return Cell("—", -1.0) if value is None else Cell(units.si(value, unit), value)

    def part(value: float | None) -> Cell:
        return Cell("—", -1.0) if value is None else Cell(units.share(value), value)

    rows = tuple(
        row_of(
            one.scope,
            Cell(units.count(one.devices), one.devices),
            part(one.measured_share),
            told(one.watts, "W"),
            told(one.joules, "J"),
            told(one.counted_joules, "J"),
            told(one.sampled_joules, "J"),
            part(one.disagreement),
            part(one.worst_disagreement),
            told(one.flops_per_watt, "FLOPS/W"),
        )
        for one in report.energy.scopes
    )
    restarts = sum(one.counter_restarts for one in report.energy.scopes)
    footnote = "A dash was not measured. No gap is filled in; docs/energy.md says how each figure is made."
    if restarts:
        footnote += f" Counters began anew {units.count(restarts)} times; samples tell that time, where there are any."
    return Table("energy", "Energy over the valid window", columns, rows, footnote=footnote)


def energy_level(report: Report) -> Table | None:
    """The level of the EE HPC Working Group's methodology, aspect by aspect; None where no power was measured."""
    if report.energy is None:
        return None
    columns = (Column("aspect"), Column("level", True), Column("found"), Column("missing for the next level"))
    rows = tuple(
        row_of(aspect.name, str(aspect.level), aspect.found, aspect.missing or "—")
        for aspect in report.energy.level.aspects
    )
    caption = f"Power measured by {report.energy.of}: {words.energy_level(report.energy)}"
    return Table("energy-level", caption, columns, rows, footnote="The level is that of the lowest aspect.")


def versions(report: Report) -> Table:
    """Versions of the last driver."""
    changed: Sequence[str] = report.run.versions_changed
    rows = [
        (name, f"{version} (changed at a resume)" if name in changed else version)
        for name, version in sorted(report.run.versions.items())
    ]
    return pairs("versions", "Versions on the driver's host", rows, ("package", "version"))
