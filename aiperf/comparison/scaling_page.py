"""Page scaling.html: score, regulated score and error over time for each size of a cluster, and efficiency over sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aiperf.comparison.cluster_sizes import Curve, WeakScaling, footnote, size_table
from aiperf.page.figure import drawing, legend_above, on_axes, on_time_axis, over_accelerators
from aiperf.page.html import write_figures_page
from aiperf.page.palette import AMBER, BLUE, BLUE_PALE, GREEN, INK, MUTED, PURPLE, VERMILION
from aiperf.page.section import DrawnFigure, Section
from aiperf.report.plots import on_error_axis, shade_warmup
from aiperf.units import count, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, AMBER, INK, BLUE_PALE, MUTED)
LOOKS: tuple[dict[str, Any], ...] = tuple(
    {"color": each.light, "linestyle": dashes} for dashes in ("-", "--") for each in COLOURS
)
"""Of each size of a cluster."""
PANELS = {
    "score": "Score by number of accelerators",
    "regulated": "Regulated score: −ln(error) × score",
    "error": "Best error so far",
}
"""Title of each curve of a run."""
LARGEST_LINEAR = 20.0
"""Largest ratio of values on a linear axis."""


def write(weak: WeakScaling, folder: Path) -> Path:
    """Write scaling.html, scaling.json and plots/ to a folder, and return the path of the page."""
    sizes = f"{count(weak.sizes[0].accelerators)} to {count(weak.sizes[-1].accelerators)} accelerators"
    kind = "simulated runs: no work was done" if weak.run.is_simulated else "weak scaling"
    source = f"{kind} · {sizes} · runs {', '.join(run for each in weak.sizes for run in each.runs)}"[:180]
    sections = (
        Section("over-time", "Over time", (_over_time(weak, source),)),
        Section("efficiency", "Efficiency", (_efficiency(weak, source), size_table(weak))),
    )
    footer = "Computed from the runs’ journals alone. scaling.json has every point. How to read it: docs/statistics.md."
    values = {"schema": "aiperf-scaling", "version": 1, "sizes": [asdict(each) for each in weak.sizes]}
    return write_figures_page(folder, "scaling", "weak scaling", sizes, sections, footer, values)


def _over_time(weak: WeakScaling, source: str) -> DrawnFigure:
    run = weak.run

    def draw(figure: Figure) -> None:
        from matplotlib.lines import Line2D

        panels = figure.subplots(len(PANELS), 1, sharex=True, height_ratios=(3, 2, 2))
        divisor = on_time_axis(panels[-1], run.end)
        for axes, (field, title) in zip(panels, PANELS.items(), strict=True):
            axes.set_title(title)
            shade_warmup(axes, run.warmup_seconds, run.end, divisor, "top" if field == "score" else "")
            _draw_curves(axes, [[getattr(each, field) for each in size.curves] for size in weak.sizes], divisor, field)
        repeats = [f" ({len(each.runs)} runs)" if each.runs[1:] else "" for each in weak.sizes]
        labels = [f"{count(each.accelerators)}{more}" for each, more in zip(weak.sizes, repeats, strict=True)]
        legend_above(panels[0], [Line2D([], [], label=label, **look) for label, look in zip(labels, cycle(LOOKS))])

    caption = "Thin lines: the runs of a size. Thick line: their mean, from the first moment at which all have a value."
    title = "Score, regulated score and error by number of accelerators"
    return drawing("scaling-over-time", title, caption, 7.0, source, draw)


def _draw_curves(axes: Axes, sizes: Sequence[Sequence[Curve]], divisor: float, field: str) -> None:
    values = [value for curves in sizes for curve in curves for _, value in curve]
    if not values:
        axes.set_yticks([])
        return
    unit, name = (1.0, "top-1 error (log)") if field == "error" else scale(max(values), "FLOPS")
    axes.set_ylabel(name)
    if field == "error":
        on_error_axis(axes, min(values) / 1.15, min(1.0, 1.15 * max(values)))
    elif max(values) <= LARGEST_LINEAR * min(curve[-1][1] for curves in sizes for curve in curves if curve):
        axes.set_ylim(0, 1.08 * max(values) / unit or 1)
    else:
        axes.set_yscale("log")
    for curves, look in zip(sizes, cycle(LOOKS)):
        lines = [(curve, 0.9, 0.55) for curve in curves if curve and curves[1:]]
        for curve, width, alpha in (*lines, *([(mean_curve(curves), 2.2, 1.0)] if all(curves) else [])):
            at, value = np.array(curve).T
            axes.step(at / divisor, value / unit, where="post", linewidth=width, alpha=alpha, **look)


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Return the mean of step functions at all of their times, from the first one at which all have a value."""
    columns = [np.array(curve).T for curve in curves]
    moments = np.unique(np.concatenate([at for at, _ in columns]))
    moments = moments[moments >= max(at[0] for at, _ in columns)]
    mean = np.mean([value[np.searchsorted(at, moments, side="right") - 1] for at, value in columns], axis=0)
    return tuple(zip(moments.tolist(), mean.tolist(), strict=True))


def _efficiency(weak: WeakScaling, source: str) -> DrawnFigure:
    def draw(axes: Axes) -> None:
        over_accelerators(axes, {each.accelerators: (each.efficiency, each.efficiency_interval) for each in weak.sizes})
        axes.set_xticks([each.accelerators for each in weak.sizes])
        axes.set_ylabel("% of the smallest size")

    caption = f"Score per accelerator ÷ that of the smallest size. Vertical lines: 95 % interval. {footnote(weak)}"
    return drawing("scaling-efficiency", "Efficiency over accelerators", caption, 3.2, source, on_axes(draw))
