"""Drawings of the workers' activities and of the number of accelerators over time."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from aiperf.page.figure import drawn, legend_above, on_time_axis
from aiperf.page.palette import AMBER, GREEN, IDLE, INK, SHADE, VERMILION, Accent, accent
from aiperf.page.section import DrawnFigure
from aiperf.report.facts import Gantt, Report
from aiperf.report.phrases import availability_meaning, share, source
from aiperf.sanitize import sanitize
from aiperf.units import count, duration

MOST_BARS_AS_VECTORS = 4000
"""Maximum number of bars drawn as vectors. More bars become pixels."""


def workers_over_time(report: Report) -> DrawnFigure:
    """Draw what each worker did over time (training, validation, preparing, idle) as one row of bars."""
    name, title, chart = "workers", "Workers over time", report.gantt
    if not chart.workers:
        return DrawnFigure(name, title, empty="No worker has joined yet.")
    rows = len(chart.workers)
    bars_height = 0.95 + max(0.42, min(0.34, 6.4 / rows) * rows)
    grid_height = 3.4 if chart.grid else 0.0
    own = accent(is_simulated=report.run.is_simulated)

    def draw(figure: Figure) -> None:
        if chart.grid:
            upper, axes = figure.subplots(2, 1, height_ratios=[grid_height, bars_height])
            _grid(figure, upper, chart, own)
        else:
            axes = figure.subplots()
        _bars(axes, chart, report.run.warmup_seconds, own)

    files = drawn(draw, name, bars_height + grid_height, source(report))
    rule = f"Pauses shorter than {duration(chart.merged_gap_seconds)} are not drawn."
    if chart.grid:
        first, last = chart.grid_rows[0]
        rule += (
            f" Above, all {count(chart.all_workers)} workers in groups of {last - first + 1}: the share of accelerator time "
            f"spent in steps. Below, the first {rows}."
        )
    described = f"Gantt chart of {count(chart.all_workers)} workers; busy time {share(report.score.busy_share)}."
    return DrawnFigure(name, title, f"Neighbouring trials alternate in shade. {rule}", described, *files)


def _bars(axes: Axes, chart: Gantt, warmup: float, own: Accent) -> None:
    divisor = on_time_axis(axes, chart.end)
    rows = len(chart.workers)
    as_pixels = len(chart.bars) > MOST_BARS_AS_VECTORS
    for row, (joined, left) in enumerate(chart.present):
        axes.broken_barh(
            [(joined / divisor, (left - joined) / divisor)], (row - 0.36, 0.72), color=IDLE.light, linewidth=0, zorder=1
        )
    colours = {
        ("train", False): own.strong.light,
        ("train", True): own.pale.light,
        "validate": GREEN.light,
        "prepare": AMBER.light,
    }
    # Validation is drawn above training, because bridged epochs of training contain it.
    for order, (kind, is_odd) in enumerate((("prepare", None), ("train", False), ("train", True), ("validate", None))):
        for row in range(rows):
            spans = [
                (bar.start / divisor, (bar.end - bar.start) / divisor)
                for bar in chart.bars
                if bar.row == row and bar.kind == kind and (is_odd is None or bar.is_odd == is_odd)
            ]
            if spans:
                colour = colours[kind] if is_odd is None else colours[kind, is_odd]
                axes.broken_barh(
                    spans, (row - 0.36, 0.72), color=colour, linewidth=0, zorder=2 + order / 10, rasterized=as_pixels
                )
    axes.set_ylim(rows - 0.4, -0.6)
    step = max(1, rows // 20)
    shown = range(0, rows, step)
    axes.set_yticks(
        list(shown), [f"{chart.workers[row]} · {sanitize(chart.hosts[row])[:14]}" for row in shown], fontsize=8.5
    )
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    if rows > 2:
        axes.set_ylabel("worker · host")
    legend_above(
        axes,
        [
            Patch(color=own.strong.light, label="training"),
            Patch(color=GREEN.light, label="validation"),
            Patch(color=AMBER.light, label="preparing"),
            Patch(color=IDLE.light, label="idle"),
            *_end_of_warmup(axes, warmup, chart.end, divisor),
        ],
    )


def _end_of_warmup(axes: Axes, warmup: float, end: float, divisor: float) -> list[Line2D]:
    """Draw the end of the warm-up. Return its entry of the legend."""
    if not 0 < warmup < end:
        return []
    style: dict[str, Any] = {"color": INK.light, "linewidth": 1, "linestyle": (0, (2, 2))}
    axes.axvline(warmup / divisor, zorder=4, **style)
    return [Line2D([], [], label="warm-up ends", **style)]


def _grid(figure: Figure, axes: Axes, chart: Gantt, own: Accent) -> None:
    divisor = on_time_axis(axes, chart.end)
    axes.set_xlabel("")
    cells = np.array([[np.nan if cell is None else cell for cell in row] for row in chart.grid])
    shades = LinearSegmentedColormap.from_list("busy", [VERMILION.light, "#f6dccc", own.faint.light, own.strong.light])
    rows = len(chart.grid)
    picture = axes.imshow(
        cells,
        aspect="auto",
        interpolation="nearest",
        cmap=shades.with_extremes(bad=SHADE.light),
        vmin=0,
        vmax=1,
        extent=(0, chart.end / divisor, rows - 0.5, -0.5),
    )
    ticks = sorted({0, rows // 4, rows // 2, 3 * rows // 4, rows - 1})
    axes.set_yticks(ticks, [str(chart.grid_rows[row][0]) for row in ticks])
    axes.set_ylabel("worker")
    axes.grid(visible=False)
    axes.set_title("Busy share of all workers")
    bar = figure.colorbar(picture, ax=axes, pad=0.01, aspect=14)
    bar.outline.set_visible(False)
    bar.set_ticks([0, 0.5, 1], labels=["0 %", "50 %", "100 %"])


def accelerators_over_time(report: Report) -> DrawnFigure:
    """Draw the number of present accelerators over time as a step line, and the planned number."""
    name, title, available = "accelerators", "Accelerators over time", report.availability
    if not report.workers:
        return DrawnFigure(name, title, empty="No worker has joined yet.")
    warmup, end = report.run.warmup_seconds, report.run.end
    planned = "planned" if available.is_declared else "largest number at once"

    own = accent(is_simulated=report.run.is_simulated).strong

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        divisor = on_time_axis(axes, end)
        at = [moment / divisor for moment, _ in available.steps]
        counts = [accelerators for _, accelerators in available.steps]
        axes.step(at, counts, where="post", color=own.light)
        axes.fill_between(at, counts, step="post", color=own.light, alpha=0.15, linewidth=0)
        axes.axhline(available.planned, color=VERMILION.light, linewidth=1, linestyle=(0, (4, 2)))
        handles = [
            Line2D([], [], color=own.light, label="present"),
            Line2D([], [], color=VERMILION.light, linewidth=1, linestyle=(0, (4, 2)), label=planned),
        ]
        handles += _end_of_warmup(axes, warmup, end, divisor)
        axes.set_ylim(0, available.planned * 1.08)
        axes.set_ylabel("accelerators")
        legend_above(axes, handles)

    files = drawn(draw, name, 2.6, source(report))
    described = f"Accelerators over time, {count(available.planned)} {planned}; available {share(available.share)}."
    return DrawnFigure(name, title, f"{availability_meaning(report)}.", described, *files)
