"""Sections of the report on time: losses from the peak to the score, activities of workers, and accelerators over time."""

from __future__ import annotations

from collections.abc import Callable

from aiperf import units
from aiperf.page.section import FIGURE, Cell, Column, Section, Table, measured, rows, share_bar
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.figures import by_name
from aiperf.report.plots.waterfall import waterfall
from aiperf.report.plots.workers import accelerators_over_time, workers_over_time

TITLE = "Where the time went"
"""Warnings name this section by its title."""


def losses(report: Report) -> Section:
    """Return the section on accelerator time in the valid window: losses from the peak to the score, and time by activity."""
    activities = time_table(report) if report.time_breakdown.whole_seconds > 0 else None
    return Section("losses", TITLE, (waterfall(report), loss_table(report), activities), "Losses")


def roofline(report: Report) -> Section | None:
    """Return the section that divides busy time into the minimum for arithmetic, the further minimum for memory, and the rest.

    None without work, or if the peak, the memory bandwidth or the networks are unknown.
    """
    floor = report.training_floor
    if floor is None:
        return None
    parts = (
        ("minimum for arithmetic", floor.arithmetic_seconds, "operations ÷ peak"),
        ("minimum for memory", floor.memory_seconds, "layers that wait for memory even at full bandwidth"),
        (
            "rest",
            floor.busy_seconds - floor.arithmetic_seconds - floor.memory_seconds,
            "what tuning can recover at most",
        ),
    )
    cells = [
        (name, Cell(_signed(seconds, units.duration), seconds), share_bar(seconds / floor.busy_seconds), meaning)
        for name, seconds, meaning in parts
    ]
    heads = ("part of the steps", ">accelerator time", ">share", "meaning")
    footnote = (
        f"{floor.trials} of {floor.trials_in_window} trials, those with the most time. Peak "
        f"{units.flops_per_second(floor.peak_flops)}, memory {units.si(floor.memory_bytes_per_second, 'B/s')} "
        f"({floor.memory_source}). Caches are left out, so that the rest can be negative on a processor. Details: docs/bops.md."
    )
    return Section("roofline", "Roofline", (rows("roofline", "Steps at the roofline", heads, cells, footnote),))


def loss_table(report: Report) -> Table | None:
    """Return the table of losses between the peak and the score: share, FLOPS, accelerator time and energy. None if unknown."""
    fallen = report.losses
    if fallen is None:
        return None
    cells: list[tuple[Cell | str, ...]] = [
        (
            loss.name,
            share_bar(loss.share),
            Cell(_signed(loss.flops_per_second, units.flops_per_second), loss.flops_per_second),
            Cell(units.duration(loss.accelerator_seconds), loss.accelerator_seconds),
            measured(loss.joules, units.joules),
            loss.meaning if loss.why_negative is None else f"{loss.meaning}; below 0: {loss.why_negative}",
        )
        for loss in fallen.losses
    ]
    share = fallen.score_flops_per_second / fallen.top_flops_per_second if fallen.top_flops_per_second else 0.0
    time, rate = units.duration(fallen.score_accelerator_seconds), units.flops_per_second(fallen.score_flops_per_second)
    cells.append((phrases.score_title(report.run), units.share(share), rate, time, "—", "remaining work"))
    energy = "measured during this part; a dash: not measured, or not separable"
    heads = (
        "lost to", Column("share of the peak", True), Column("FLOPS", True),
        Column("accelerator time", True, "at the rate of the peak"), Column("energy", True, energy), "meaning",
    )  # fmt: skip
    footnote = f"Peak: {phrases.waterfall_top(fallen)}. {phrases.energy_by_activity(fallen)} Details: docs/report.md."
    return rows("losses", "Losses by part", heads, cells, footnote)


def _signed(value: float, written: Callable[[float], str]) -> str:
    return f"−{written(-value)}" if value < 0 else written(value)


def time_table(report: Report) -> Table:
    """Return the table of accelerator time and its share by activity, with a last row for the total."""
    spent = report.time_breakdown
    cells: list[tuple[Cell | str, ...]] = [
        (line.name, Cell(units.duration(line.seconds), line.seconds), share_bar(line.share), line.meaning)
        for line in spent.lines
    ]
    cells.append(("all", units.duration(spent.whole_seconds), units.share(sum(line.share for line in spent.lines)), ""))
    heads = ("spent on", ">accelerator time", ">share", "meaning")
    footnote = "Accelerator time: largest number of accelerators present at once × length of the valid window."
    return rows("time", "Accelerator time by activity", heads, cells, footnote)


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
    meaning = "share of their time in the valid window; without a running driver none is available"
    cells = [
        ("planned accelerators", units.count(available.planned), of),
        by_name("availability").row(report, meaning),
        by_name("adjusted").row(report),
    ]
    return rows("availability", "Availability", FIGURE, cells)
