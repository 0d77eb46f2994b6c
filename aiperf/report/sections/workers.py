"""Sections of the report on the activities of the workers and the number of accelerators over time."""

from __future__ import annotations

from aiperf import units
from aiperf.page.section import Column, Section, Table, row_of
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.plots.workers import accelerators_over_time, workers_over_time


def workers(report: Report) -> Section:
    """Return the section with the activities of the workers over time, as a drawing."""
    return Section("workers", "Workers over time", (workers_over_time(report),), "Workers")


def accelerators(report: Report) -> Section:
    """Return the section on the number of accelerators over time, and the share of the planned ones that was available."""
    parts = (accelerators_over_time(report), availability(report))
    return Section("accelerators", "Accelerators over time", parts, "Accelerators")


def availability(report: Report) -> Table:
    """Return a table with the available share of the planned accelerator time, and the score scaled to all of it."""
    available = report.availability
    of = (
        "by the configuration"
        if available.is_declared
        else "largest number present at once, because no number was declared"
    )
    rows = [
        ("planned accelerators", units.count(available.planned), of),
        (
            "available",
            phrases.share(available.share),
            "share of their time in the valid window; without a running driver none is available",
        ),
        ("scaled to 100 %", phrases.adjusted(report), "score ÷ available share; not a score, never ranked"),
    ]
    columns = (Column("figure"), Column("value", is_number=True), Column("meaning"))
    return Table("availability", "Availability", columns, tuple(row_of(*row) for row in rows))
