"""Section of the report on energy and the EEHPC level (Green500 methodology) of its measurement."""

from __future__ import annotations

from aiperf import units
from aiperf.page.section import Cell, Column, Paragraph, Section, Table, measured, row_of
from aiperf.report import phrases
from aiperf.report.facts import Report


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
