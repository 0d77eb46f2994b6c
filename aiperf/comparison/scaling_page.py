"""Page scaling.html: score, regulated score and error over time for each size of a cluster, and efficiency over sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aiperf.comparison.cluster_sizes import Curve, WeakScaling, footnote, size_table
from aiperf.page.figure import drawing, legend_above, on_axes, on_time_axis
from aiperf.page.html import write_figures_page
from aiperf.page.palette import AMBER, AXIS, BLUE, BLUE_PALE, GREEN, INK, MUTED, PURPLE, VERMILION
from aiperf.page.section import DrawnFigure, Section
from aiperf.report.plots import on_error_axis, shade_warmup
from aiperf.units import count, scale

COLOURS = tuple(each.light for each in (BLUE, VERMILION, GREEN, PURPLE, AMBER, INK, BLUE_PALE, MUTED))
"""By size. Further sizes begin again with dashed lines."""
LARGEST_LINEAR = 20.0
"""Largest ratio of values on a linear axis."""
PANELS = {
    "score": "Score by number of accelerators",
    "regulated": "Regulated score: −ln(error) × score",
    "error": "Best error so far",
}
"""Title of each curve of a run."""


def write(found: WeakScaling, folder: Path) -> Path:
    """Write scaling.html, scaling.json and plots/ to a folder, and return the path of the page."""
    sizes = f"{count(found.sizes[0].accelerators)} to {count(found.sizes[-1].accelerators)} accelerators"
    kind = "simulated runs: no work was done" if found.is_simulated else "weak scaling"
    source = f"{kind} · {sizes} · runs {', '.join(run for each in found.sizes for run in each.runs)}"[:180]
    sections = (
        Section("over-time", "Over time", (_over_time(found, source),)),
        Section("efficiency", "Efficiency", (_efficiency(found, source), size_table(found))),
    )
    footer = "Computed from the runs’ journals alone. scaling.json has every point. How to read it: docs/statistics.md."
    values = [asdict(each) for each in found.sizes]
    return write_figures_page(folder, "scaling", "weak scaling", sizes, sections, footer, values)


def _look(number: int) -> dict[str, Any]:
    dashes = "-" if number < len(COLOURS) else (0, (4, 2))
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes}


def _over_time(found: WeakScaling, source: str) -> DrawnFigure:
    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(PANELS), 1, sharex=True, height_ratios=(3, 2, 2))
        divisor = on_time_axis(panels[-1], found.end)
        for axes, (field, title) in zip(panels, PANELS.items(), strict=True):
            axes.set_title(title)
            shade_warmup(axes, found.warmup_seconds, found.end, divisor, "top" if field == "score" else "")
            _draw_panel(axes, [[getattr(run, field) for run in each.curves] for each in found.sizes], divisor, field)
        labels = [
            f"{count(each.accelerators)}{f' ({len(each.runs)} runs)' if each.runs[1:] else ''}" for each in found.sizes
        ]
        legend_above(panels[0], [Line2D([], [], label=label, **_look(at)) for at, label in enumerate(labels)])

    caption = (
        "One colour for each number of accelerators. Thin lines: the runs of a size. Thick line: their mean, from the first "
        "moment at which all have a value."
    )
    title = "Score, regulated score and error by number of accelerators"
    return drawing("scaling-over-time", title, caption, 7.0, source, draw)


def _draw_panel(axes: Axes, sizes: Sequence[Sequence[Curve]], divisor: float, field: str) -> None:
    values = [value for curves in sizes for curve in curves for _, value in curve]
    if not values:
        axes.set_yticks([])
        return
    is_error = field == "error"
    unit, name = (1.0, "") if is_error else scale(max(values), "FLOPS")
    if is_error:
        on_error_axis(axes, min(values) / 1.15, min(1.0, 1.15 * max(values)))
    elif max(values) <= LARGEST_LINEAR * min(curve[-1][1] for curves in sizes for curve in curves if curve):
        axes.set_ylim(0, 1.08 * max(values) / unit or 1)
    else:
        axes.set_yscale("log")
    axes.set_ylabel(name or "top-1 error (log)")
    for number, curves in enumerate(sizes):
        look = _look(number) | {"drawstyle": "steps-post" if is_error else "default"}
        lines: list[tuple[Any, float, float]] = [
            (np.array(curve).T, 0.9, 0.55) for curve in curves if curve and curves[1:]
        ]
        if all(curves):
            lines.append((mean_curve(curves, is_step=is_error), 2.2, 1.0))
        for (at, value), width, alpha in lines:
            axes.plot(at / divisor, value / unit, linewidth=width, alpha=alpha, **look)


def mean_curve(curves: Sequence[Curve], *, is_step: bool) -> tuple[Any, Any]:
    """Return the mean of curves at all of their times, as two arrays, while all of them have a value."""
    columns = [np.array(curve).T for curve in curves]
    begin, end = max(at[0] for at, _ in columns), min(at[-1] for at, _ in columns)
    moments = np.unique(np.concatenate([at for at, _ in columns]))
    moments = moments[(moments >= begin) & (is_step | (moments <= end))]
    if is_step:
        at_moments = [value[np.searchsorted(at, moments, side="right") - 1] for at, value in columns]
    else:
        at_moments = [np.interp(moments, at, value) for at, value in columns]
    return moments, np.mean(at_moments, axis=0)


def _efficiency(found: WeakScaling, source: str) -> DrawnFigure:
    def draw(axes: Axes) -> None:
        axes.axhline(100, color=AXIS.light, linestyle="--", linewidth=1)
        for each in found.sizes:
            if each.efficiency_interval is not None:
                low, high = each.efficiency_interval
                axes.vlines(each.accelerators, 100 * low, 100 * high, color=BLUE.light)
        efficiencies = [(each.accelerators, 100 * each.efficiency) for each in found.sizes]
        axes.plot(*zip(*efficiencies, strict=True), "o-", color=BLUE.light)
        axes.set_xscale("log", base=2)
        axes.set_xticks([each.accelerators for each in found.sizes], [count(each.accelerators) for each in found.sizes])
        axes.set_xlabel("accelerators")
        axes.set_ylabel("% of the smallest size")

    caption = f"Score per accelerator ÷ that of the smallest size. Vertical lines: 95 % interval. {footnote(found)}"
    return drawing("scaling-efficiency", "Efficiency over accelerators", caption, 3.2, source, on_axes(draw))
