"""Sections of the report on time: losses from the peak to the score, activities of workers, and accelerators over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiperf import units
from aiperf.accounting.losses import Waterfall
from aiperf.page.figure import drawing, legend_above
from aiperf.page.palette import AMBER, BLUE, GREEN, IDLE, LINE, MUTED, PURPLE, VERMILION, Accent, accent
from aiperf.page.section import FIGURE, Cell, Column, DrawnFigure, Section, Table, measured, rows, share_bar
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.figures import by_name
from aiperf.report.phrases import energy_by_activity, largest_losses, source, waterfall_top
from aiperf.report.plots import accelerators_over_time, workers_over_time
from aiperf.units import count, duration, flops_per_second, scale, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

TITLE = "Where the time went"
"""Warnings name this section by its title."""
ROW_INCHES = 0.27
ENERGY_INCHES = 1.4
ENERGY_COLUMNS = 4
"""Maximum number of legend entries in a row."""
ENERGY_COLOURS = tuple(one.light for one in (BLUE, AMBER, PURPLE, VERMILION, IDLE, MUTED, LINE))
"""Colours of epochs, start-up, search, and further activities in the waterfall's order."""
COLUMNS = (48, 122, 198)
"""Right edges of the columns of figures, in points from the right edge of the bars."""


def losses(report: Report) -> Section:
    """Return the section on accelerator time in the valid window: losses from the peak to the score, and time by activity."""
    activities = time_table(report) if report.time_breakdown.whole_seconds > 0 else None
    return Section("losses", TITLE, (waterfall(report), loss_table(report), activities), "Losses")


def roofline(report: Report) -> Section | None:
    """Busy time: minimum for arithmetic, further minimum for memory, rest. None without work, peak, bandwidth or networks."""
    floor = report.training_floor
    if floor is None:
        return None
    rest = floor.busy_seconds - floor.arithmetic_seconds - floor.memory_seconds
    parts = (
        ("minimum for arithmetic", floor.arithmetic_seconds, "operations ÷ peak"),
        ("minimum for memory", floor.memory_seconds, "layers that wait for memory even at full bandwidth"),
        ("rest", rest, "what tuning can recover at most"),
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
    footnote = (
        f"Peak: {phrases.waterfall_top(fallen)}. {phrases.energy_by_activity(report, fallen)} Details: docs/report.md."
    )
    return rows("losses", "Losses by part", heads, cells, footnote)


def _signed(value: float, written: Callable[[float], str]) -> str:
    return f"−{written(-value)}" if value < 0 else written(value)


def time_table(report: Report) -> Table:
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


def waterfall(report: Report) -> DrawnFigure:
    """Draw one bar for each loss other than 0 between peak and score, in FLOPS."""
    name, title, fallen = "losses", "From the peak to the score", report.losses
    if fallen is None:
        empty = "No loss waterfall: no valid window, no accelerator in it, or neither a peak nor a training step to begin at."
        return DrawnFigure(name, title, empty=empty)
    shown = [loss for loss in fallen.losses if loss.flops_per_second != 0]
    none = [loss.name for loss in fallen.losses if loss.flops_per_second == 0]

    own = accent(is_simulated=report.run.is_simulated)
    height = 1.15 + ROW_INCHES * (len(shown) + 2)
    both = height + (ENERGY_INCHES if fallen.energy else 0.0)

    def draw(figure: Figure) -> None:
        if fallen.energy:
            axes, below = figure.subplots(2, 1, height_ratios=[height, ENERGY_INCHES])
            _energy(below, fallen)
        else:
            axes = figure.subplots()
        unit, unit_name = scale(fallen.top_flops_per_second, "FLOPS")
        rows = [
            ("peak" if fallen.is_peak else "rate of training steps", 0.0, fallen.top_flops_per_second, own.faint.light)
        ]
        rows += [
            (
                loss.name,
                min(loss.after_flops_per_second, loss.before_flops_per_second),
                abs(loss.flops_per_second),
                GREEN.light if loss.flops_per_second < 0 else VERMILION.light,
            )
            for loss in shown
        ]
        rows.append(("score", 0.0, fallen.score_flops_per_second, own.strong.light))
        for row, (_, left, width, colour) in enumerate(rows):
            # Every part gets a visible minimum width.
            axes.barh(
                row,
                width / unit,
                left=left / unit,
                height=0.66,
                color=colour,
                edgecolor=colour,
                linewidth=0.6,
                zorder=2,
            )
        levels = [fallen.top_flops_per_second, *(loss.after_flops_per_second for loss in shown)]
        for row, level in enumerate(levels):
            axes.plot([level / unit] * 2, [row - 0.33, row + 1.33], color=LINE.light, linewidth=0.8, zorder=1)
        axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, max([left + width for _, left, width, _ in rows]) / unit)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(unit_name)
        _columns(axes, fallen, len(rows))
        legend_above(axes, _legend(fallen, own))

    caption = (
        f"From {waterfall_top(fallen)} down to the score: each bar begins at the end of the bar above it. A second of an "
        f"accelerator is worth {flops_per_second(fallen.flops_per_accelerator)} wherever it went, so that FLOPS and "
        "accelerator time are one scale, and no order of the parts matters."
    )
    caption += f" {energy_by_activity(report, fallen)}"
    if none:
        caption += f" Nothing was lost to: {', '.join(none)}."
    negative = [f"{loss.name}: {loss.why_negative}" for loss in shown if loss.why_negative]
    if negative:
        caption += f" Green is gained: {'; '.join(negative)}."
    described = f"Waterfall; largest losses: {largest_losses(report) or 'none'}."
    return drawing(name, title, caption, both, source(report), draw, described)


def _energy(axes: Axes, fallen: Waterfall) -> None:
    from matplotlib.patches import Patch

    assert fallen.joules is not None, "parts have a sum"
    unit, unit_name = scale(fallen.joules, "J")
    left, handles = 0.0, []
    for part, colour in zip(fallen.energy, ENERGY_COLOURS, strict=False):
        axes.barh(0, part.joules / unit, left=left / unit, height=0.66, color=colour, linewidth=0, zorder=2)
        handles.append(Patch(color=colour, label=part.activity))
        left += part.joules
    axes.set_yticks([0], ["energy"])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(0.6, -0.6)
    axes.set_xlim(0, max(fallen.joules / unit, 1e-9))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{unit_name}, {fallen.energy_of}")
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=ENERGY_COLUMNS,
        borderaxespad=0.2,
        handlelength=1.0,
        columnspacing=1.2,
    )


def _columns(axes: Axes, fallen: Waterfall, rows: int) -> None:
    figures = {
        -1: ("of the top", "FLOPS", "accel. time"),
        0: ("100 %", flops_per_second(fallen.top_flops_per_second), duration(fallen.accelerator_seconds)),
        rows - 1: (
            share(fallen.score_flops_per_second / fallen.top_flops_per_second if fallen.top_flops_per_second else 0.0),
            flops_per_second(fallen.score_flops_per_second),
            duration(fallen.score_accelerator_seconds),
        ),
    }
    for row, loss in enumerate((loss for loss in fallen.losses if loss.flops_per_second != 0), start=1):
        sign = "−" if loss.flops_per_second > 0 else "+"
        part = share(abs(loss.share))
        figures[row] = (
            part if part.startswith("<") else sign + part,
            sign + flops_per_second(abs(loss.flops_per_second)),
            sign + duration(abs(loss.accelerator_seconds)),
        )
    for row, texts in figures.items():
        for text, offset in zip(texts, COLUMNS, strict=True):
            axes.annotate(
                text,
                (1.0, row if row >= 0 else -0.6),
                xycoords=("axes fraction", "data"),
                xytext=(offset + 14, 0 if row >= 0 else 6),
                textcoords="offset points",
                ha="right",
                va="center" if row >= 0 else "bottom",
                fontsize=8.5,
                color=MUTED.light,
                annotation_clip=False,
            )


def _legend(fallen: Waterfall, own: Accent) -> list[Line2D | Patch]:
    from matplotlib.patches import Patch

    handles: list[Line2D | Patch] = [
        Patch(
            color=own.faint.light,
            label=f"{count(fallen.accelerators)} × {flops_per_second(fallen.flops_per_accelerator)}",
        ),
        Patch(color=VERMILION.light, label="lost"),
    ]
    if any(loss.flops_per_second < 0 for loss in fallen.losses):
        handles.append(Patch(color=GREEN.light, label="gained"))
    return [*handles, Patch(color=own.strong.light, label="score")]
