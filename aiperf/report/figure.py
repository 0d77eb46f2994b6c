"""A drawn figure as files and as part of the page. Knows matplotlib, and nothing of what is drawn.

Drawn on `Figure` objects of their own, never through pyplot: no global state, and no display is looked for.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from aiperf.report import palette

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": palette.INK.light,
    "axes.labelcolor": palette.MUTED.light,
    "axes.edgecolor": palette.AXIS.light,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": palette.GRID.light,
    "grid.linewidth": 0.8,
    "text.color": palette.INK.light,
    "xtick.color": palette.AXIS.light,
    "ytick.color": palette.AXIS.light,
    "xtick.labelcolor": palette.MUTED.light,
    "ytick.labelcolor": palette.MUTED.light,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 1.6,
    "figure.facecolor": "none",
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched, and set in the page's font
    "path.simplify": True,
    "text.parse_math": False,  # a host may be called $x$
}
WIDTH_INCHES = 8.8
DPI = 160


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure of the report."""

    name: str
    """Of its files, and its anchor in the page."""
    title: str
    caption: str
    """What is shown, and by which rule it was thinned."""
    described: str
    """What there is to see, for those who do not see it."""
    svg: str | None
    """A standalone SVG document, light; None: there is nothing to draw, and `empty` says why."""
    png: bytes | None
    """None where it cannot be drawn as pixels."""
    empty: str = ""


def drawn(draw: Callable[[Figure], object], name: str, height: float) -> tuple[str, bytes]:
    """The figure as SVG and PNG. The same figure gives the same bytes: no date in it, no random names."""
    with mpl.rc_context(cast("Any", {**STYLE, "svg.hashsalt": name})):  # typed by the names of all settings
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        draw(figure)
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
        # It is laid out already, and layout is the larger part of drawing; "none" would still draw it once for nothing.
        figure.set_layout_engine(None)
        figure.savefig(png, format="png", dpi=DPI, facecolor=palette.PAPER.light, metadata={"Software": None})
    return _without_prolog(svg.getvalue()), png.getvalue()


_SIZE = re.compile(r'<svg ([^>]*?)\bwidth="[^"]*"', re.S)
_HEIGHT = re.compile(r'<svg ([^>]*?)\bheight="[^"]*"', re.S)


def _without_prolog(svg: str) -> str:
    return svg[svg.index("<svg") :]


def inline(svg: str, name: str, label: str) -> str:
    """The SVG as part of an HTML page: names of its own, colours as CSS variables, size left to the page.

    `label` is what a screen reader says; it must be free of `"`, `<` and `&` (escaped).
    """
    svg = _without_prolog(svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(xlink:href|href)="#', rf'\1="#{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    for colour in palette.COLOURS:
        svg = re.sub(re.escape(colour.light), f"var(--{colour.role})", svg, flags=re.IGNORECASE)
    svg = _HEIGHT.sub(r"<svg \1", _SIZE.sub(r"<svg \1", svg, count=1), count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def on_time_axis(axes: Axes, end: float) -> float:
    """Labels the x axis with a fitting unit and sets its limits; returns the divisor from seconds to that unit."""
    divisor, unit = (1.0, "s") if end <= 300 else (60.0, "min") if end <= 3 * 3600 else (3600.0, "h")
    axes.set_xlabel(f"time since the run began ({unit})")
    axes.set_xlim(0, max(end, 1e-9) / divisor)
    return divisor


def legend_above(axes: Axes, handles: Iterable[Line2D | Patch]) -> None:
    """A legend in one line over the right end of the axes, where it hides nothing."""
    listed = list(handles)
    axes.legend(handles=listed, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(listed), borderaxespad=0.2)
