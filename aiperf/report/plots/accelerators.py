"""Figure of the number of accelerators over time."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.plots.figure import drawn, legend_above, on_time_axis
from aiperf.report.plots.palette import INK, VERMILION, accent
from aiperf.report.section import DrawnFigure
from aiperf.units import count


def accelerators_over_time(report: Report) -> DrawnFigure:
    """Draw a step line: up when a worker joins, down when one is lost."""
    name, title, available = "accelerators", "Accelerators over time", report.availability
    if not report.workers:
        return DrawnFigure(name, title, "", "", None, None, None, "No worker has joined yet.")
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
        if 0 < warmup < end:
            axes.axvline(warmup / divisor, color=INK.light, linewidth=1, linestyle=(0, (2, 2)))
            handles.append(Line2D([], [], color=INK.light, linestyle=(0, (2, 2)), linewidth=1, label="warm-up ends"))
        axes.set_ylim(0, available.planned * 1.08)
        axes.set_ylabel("accelerators")
        legend_above(axes, handles)

    svg, png, pdf = drawn(draw, name, 2.6, phrases.source(report))
    described = f"Accelerators over time, {count(available.planned)} {planned}; available {phrases.share(available.share)}."
    return DrawnFigure(name, title, f"{phrases.availability_meaning(report)}.", described, svg, png, pdf)
