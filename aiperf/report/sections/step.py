"""Section on a traced training step: kernels and gradient exchange as stacked bars, and numbers that 16-bit types lose."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.plots.figure import drawn
from aiperf.report.plots.palette import AMBER, AXIS, BLUE, BLUE_PALE, GREEN, IDLE, MUTED, PURPLE, SKY, VERMILION
from aiperf.report.section import DrawnFigure, Paragraph, Section
from aiperf.report.step_breakdown import StepBreakdown, StepPart
from aiperf.report.step_tables import summary, tables

COLOURS = tuple(each.light for each in (BLUE, BLUE_PALE, GREEN, AMBER, PURPLE, SKY, VERMILION, IDLE, AXIS, MUTED))
"""Colours of the parts, in their order."""
BAR_INCHES = 1.15
LEGEND_COLUMNS = 5


def step(report: Report) -> Section | None:
    """Traced steps. None if no step was traced."""
    found = report.step
    if found is None:
        return None
    return Section("step", "A step", (Paragraph(summary(found)), _bars(found, report), *tables(found)))


def _bars(found: StepBreakdown, report: Report) -> DrawnFigure:
    name, title = "step", "Parts of a step"
    both = (("kernels", found.kernels), ("exchange", found.exchange))
    bars = [(label, parts) for label, parts in both if any(part.share for part in parts)]
    if not bars:
        return DrawnFigure(name, title, "", "", None, None, None, "The trace has no kernels.")

    def draw(figure: Figure) -> None:
        axes = figure.subplots(len(bars), 1, squeeze=False)[:, 0]
        for one, (label, parts) in zip(axes, bars, strict=True):
            _stacked(one, label, parts)
        axes[-1].set_xlabel("% of the parts")

    svg, png, pdf = drawn(draw, name, 0.3 + BAR_INCHES * len(bars), phrases.source(report))
    described = "; ".join(f"{label}: {_largest(parts)}" for label, parts in bars)
    return DrawnFigure(name, title, "Shares of the time of traced steps.", described, svg, png, pdf)


def _stacked(axes: Axes, label: str, parts: Sequence[StepPart]) -> None:
    left = 0.0
    for part, colour in zip(parts, COLOURS, strict=False):
        if part.share:
            axes.barh(0, 100 * part.share, left=left, height=0.6, color=colour, label=part.name)
            left += 100 * part.share
    axes.set_yticks([0], [label])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=LEGEND_COLUMNS, borderaxespad=0.2, handlelength=1.0)


def _largest(parts: Sequence[StepPart]) -> str:
    known = [(part.share, part.name) for part in parts if part.share is not None]
    share, name = max(known)
    return f"most is {name}, {100 * share:.1f} %"
