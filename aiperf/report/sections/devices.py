"""Sections of the report on the utilization of devices and hosts, and on energy with its EEHPC level (Green500 methodology)."""

from __future__ import annotations

from aiperf import units
from aiperf.page.section import Cell, Column, Paragraph, Section, Table, measured, row_of
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.plots.devices import devices_over_time, each_device_over_time
from aiperf.system.load import HostLoad

MOST_DEVICES = 64
MOST_HOSTS = 64


def devices(report: Report) -> Section:
    """Return the section on utilization, memory, power and temperature of the devices, and load of the hosts."""
    missing = Paragraph("Utilization, power and temperature of the devices: not measured.", "empty")
    parts = (devices_over_time(report), each_device_over_time(report), telemetry(report) or missing, loads(report))
    return Section("devices", "Utilization and memory over time", parts, "Utilization")


def telemetry(report: Report) -> Table | None:
    """Return a table of the measurements in the valid window, one row for each of at most 64 devices. None without samples."""
    if report.telemetry is None or not report.telemetry.devices:
        return None
    devices = report.telemetry.devices
    columns = (
        Column("device"),
        Column("worker", True),
        Column("utilisation", True, "mean, as defined by the vendor"),
        Column("memory", True, "maximum used"),
        Column("power", True, "mean"),
        Column("energy", True),
        Column("max. temperature", True),
        Column("throttled"),
        Column("not measured", True, "time of the window without samples"),
    )

    rows = tuple(
        row_of(
            f"{one.device.model or one.device.id} on {one.host}",
            Cell(str(one.worker), one.worker),
            measured(one.utilisation_mean, units.share),
            measured(one.memory_used_max_bytes, units.size),
            measured(one.power_mean_watts, units.watts),
            measured(one.energy_joules, units.joules),
            measured(one.temperature_max_celsius, "{:.0f} °C".format),
            ", ".join(f"{reason} {units.share(part)}" for reason, part in (one.throttled or {}).items() if part > 0)
            or "—",
            Cell(units.duration(one.seconds_missing), one.seconds_missing),
        )
        for one in devices[:MOST_DEVICES]
    )
    left_out = len(devices) - len(rows)
    footnote = "A dash: the device does not report this figure."
    footnote += f" {units.count(left_out)} more devices are in report.json." if left_out else ""
    return Table("telemetry", "Devices over the valid window", columns, rows, True, footnote)


def loads(report: Report) -> Table | None:
    """Return a table of the hosts' processor time by user (this run, other programs, kernel). None without samples of hosts."""
    if report.telemetry is None or not report.telemetry.loads:
        return None
    by_others = sorted(report.telemetry.loads, key=lambda one: -one.others)
    columns = (
        Column("host"),
        Column("this run", True, "programs of this run, including Ray"),
        Column("other programs", True),
        Column("kernel", True, "interrupts and the kernel's own threads"),
        Column("stolen", True, "given to other virtual machines by the hypervisor"),
        Column("waiting", True, "time in which a program waited for a processor (/proc/pressure/cpu)"),
        Column("measured", True, "of the window"),
    )
    shown = by_others[:MOST_HOSTS]
    left_out = len(by_others) - len(shown)
    footnote = "Shares of all of the host's processor time. Programs of other containers count as other programs."
    footnote += f" {units.count(left_out)} more hosts are in report.json." if left_out else ""
    return Table(
        "loads", "Processor time of the hosts over the valid window", columns, tuple(map(_load, shown)), True, footnote
    )


def _load(one: HostLoad) -> tuple[Cell, ...]:
    return (
        Cell(one.host),
        *(Cell(phrases.share(part), part) for part in (one.own, one.others, one.kernel, one.stolen)),
        measured(one.stalled, units.share),
        Cell(units.duration(one.seconds), one.seconds),
    )


def energy(report: Report) -> Section:
    """Return the section on energy in the valid window by measured part of the machine, with the level of the measurement."""
    missing = Paragraph("Power of the devices: not measured.", "empty")
    return Section("energy", "Energy", (energy_table(report) or missing, energy_level(report)))


def energy_table(report: Report) -> Table | None:
    """Return the table of joules, watts and FLOPS per watt, one row for each measured part of the machine.

    None if no power was measured.
    """
    if report.energy is None:
        return None
    columns = (
        Column("measured on"),
        Column("devices", True),
        Column("measured", True, "share of the window's device-seconds; gaps are in no figure"),
        Column("power", True, "mean over the measured time"),
        Column("energy", True),
        Column("by counters", True, "in the seconds with counters and samples"),
        Column("by samples", True, "in the same seconds, by the trapezoidal rule"),
        Column("difference", True, "samples ÷ counters − 1"),
        Column("max. difference", True, "of one device"),
        Column("FLOPS/W", True, "score ÷ power of these devices only"),
    )

    rows = tuple(
        row_of(
            one.scope,
            Cell(units.count(one.devices), one.devices),
            measured(one.measured_share, units.share),
            measured(one.watts, units.watts),
            measured(one.joules, units.joules),
            measured(one.counted_joules, units.joules),
            measured(one.sampled_joules, units.joules),
            measured(one.disagreement, units.share),
            measured(one.worst_disagreement, units.share),
            measured(one.flops_per_watt, units.flops_per_watt),
        )
        for one in report.energy.scopes
    )
    restarts = sum(one.counter_restarts for one in report.energy.scopes)
    footnote = "A dash was not measured. Gaps are not filled. Methods: docs/report.md."
    if restarts:
        footnote += f" Counters restarted {units.count(restarts)} times; samples, if any, cover that time."
    return Table("energy", "Energy over the valid window", columns, rows, footnote=footnote)


def energy_level(report: Report) -> Table | None:
    """Return the table of the EEHPC level of the power measurement by aspect. None if no power was measured."""
    if report.energy is None:
        return None
    columns = (Column("aspect"), Column("level", True), Column("found"), Column("missing for Level 1"))
    rows = tuple(
        row_of(aspect.name, str(aspect.level), aspect.found, aspect.missing or "—")
        for aspect in report.energy.level.aspects
    )
    caption = f"Power measured by {report.energy.of}: {phrases.energy_level(report.energy)}"
    return Table("energy-level", caption, columns, rows, footnote="The level is that of the lowest aspect.")
