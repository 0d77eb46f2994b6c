"""Drawing of the losses from the peak of the planned accelerators to the score, in FLOPS and accelerator time."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from aiperf.accounting.losses import Waterfall
from aiperf.page.figure import drawn, legend_above
from aiperf.page.palette import AMBER, BLUE, GREEN, IDLE, LINE, MUTED, PURPLE, VERMILION, Accent, accent
from aiperf.page.section import DrawnFigure
from aiperf.report.facts import Report
from aiperf.report.phrases import energy_by_activity, largest_losses, source, waterfall_top
from aiperf.units import count, duration, flops_per_second, scale, share

ROW_INCHES = 0.27
ENERGY_INCHES = 1.4
ENERGY_COLUMNS = 4
"""Maximum number of legend entries in a row."""
ENERGY_COLOURS = tuple(one.light for one in (BLUE, AMBER, PURPLE, VERMILION, IDLE, MUTED, LINE))
"""Colours of epochs, start-up, search, and further activities in the waterfall's order."""
COLUMNS = (48, 122, 198)
"""Right edges of the columns of figures, in points from the right edge of the bars."""


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

    files = drawn(draw, name, height + (ENERGY_INCHES if fallen.energy else 0.0), source(report))
    caption = (
        f"From {waterfall_top(fallen)} down to the score: each bar begins at the end of the bar above it. A second of an "
        f"accelerator is worth {flops_per_second(fallen.flops_per_accelerator)} wherever it went, so that FLOPS and "
        "accelerator time are one scale, and no order of the parts matters."
    )
    caption += f" {energy_by_activity(fallen)}"
    if none:
        caption += f" Nothing was lost to: {', '.join(none)}."
    negative = [f"{loss.name}: {loss.why_negative}" for loss in shown if loss.why_negative]
    if negative:
        caption += f" Green is gained: {'; '.join(negative)}."
    described = f"Waterfall; largest losses: {largest_losses(report) or 'none'}."
    return DrawnFigure(name, title, caption, described, *files)


def _energy(axes: Axes, fallen: Waterfall) -> None:
    """Draw one bar of all energy, by activity of the accelerators."""
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
    """Draw share of the peak, FLOPS and accelerator time next to the bars."""
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
