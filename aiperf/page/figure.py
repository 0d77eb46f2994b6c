"""Rendering of matplotlib figures as files and as parts of the page, without pyplot and without settings of the user."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from aiperf.errors import PictureNotDrawn
from aiperf.page import palette
from aiperf.page.html import without_prolog
from aiperf.page.section import DrawnFigure
from aiperf.units import count

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    "svg.fonttype": "none",  # Text stays searchable and uses the page's font.
    "path.simplify": True,
    "text.parse_math": False,  # A host name may contain $.
}
WIDTH_INCHES = 8.8
SOURCE_INCHES = 0.2
"""Height of the line with run and machine."""
DPI = 160


def drawn(draw: Callable[[Figure], object], name: str, height: float, source: str) -> tuple[str, bytes, bytes]:
    """Draw a figure and return it as SVG text, PNG bytes and PDF bytes. Equal arguments give equal bytes.

    Raises:
        PictureNotDrawn: matplotlib cannot be loaded, or failed.
    """
    try:
        return _drawn(draw, name, height, source)
    except Exception as error:  # a library that fails in any way must not cost a result
        raise PictureNotDrawn(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error


def _drawn(draw: Callable[[Figure], object], name: str, height: float, source: str) -> tuple[str, bytes, bytes]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    usual = {key: value for key, value in mpl.rcParamsDefault.items() if not key.startswith(("backend", "interactive"))}
    # the stub types the names of all settings
    with mpl.rc_context(cast("Any", usual | STYLE | {"svg.hashsalt": name})):
        figure = Figure(figsize=(WIDTH_INCHES, height + SOURCE_INCHES), layout="constrained")
        draw(figure)
        figure.supxlabel(source, x=0.005, ha="left", fontsize=7, color=palette.MUTED.light)
        svg, png, pdf = io.StringIO(), io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
        # The layout is computed already, and takes longer than drawing.
        figure.set_layout_engine(None)
        figure.savefig(png, format="png", dpi=DPI, facecolor=palette.PAPER.light, metadata={"Software": None})
        figure.savefig(pdf, format="pdf", dpi=DPI, metadata={"CreationDate": None, "Producer": None, "Creator": None})
    whole = re.sub(
        rf'<a xlink:href="{_HOVER}([^"]*)"[^>]*>(.*?)</a>', r"<g><title>\1</title>\2</g>", svg.getvalue(), flags=re.S
    )
    return without_prolog(whole), png.getvalue(), pdf.getvalue()


_HOVER = "hover:"


def hover(axes: Axes, x: Sequence[float], y: Sequence[float], texts: Sequence[str]) -> None:
    """Show a text at each point of a picture on a page while the pointer is over it. The points are not visible."""
    # Matplotlib writes an address around each mark. `_drawn` makes it a title, which a browser shows without a script.
    marks = axes.scatter(x, y, s=60, alpha=0.004, linewidths=0, zorder=9)
    marks.set_urls([f"{_HOVER}{text}" for text in texts])


def drawing(
    name: str,
    title: str,
    caption: str,
    height: float,
    source: str,
    draw: Callable[[Figure], object],
    described: str = "",
) -> DrawnFigure:
    """Return a figure of a page. `described`: for readers who cannot see it (default: title and caption)."""
    try:
        images = drawn(draw, name, height, source)
    except PictureNotDrawn as error:
        return DrawnFigure(name, title, empty=f"Not drawn. {error}", fault=str(error))
    return DrawnFigure(name, title, caption, described or f"{title}. {caption}", *images)


def on_axes(draw: Callable[[Axes], object]) -> Callable[[Figure], None]:
    """Return a drawing on one pair of axes, with a legend of its labelled parts."""

    def on(figure: Figure) -> None:
        draw(axes := figure.subplots())
        if axes.get_legend_handles_labels()[1]:
            legend_above(axes, axes.get_legend_handles_labels()[0])

    return on


def bars(axes: Axes, rows: Sequence[tuple[str, Mapping[str, float]]], colours: Mapping[str, str]) -> None:
    """Draw rows of horizontal bars, the first one above. The parts of a row follow each other, negative ones to the left."""
    for row, (_, parts) in enumerate(rows):
        ends = [0.0, 0.0]
        for name, value in parts.items():
            label = None if name in axes.get_legend_handles_labels()[1] else name
            axes.barh(row, value, left=ends[value > 0], height=0.8, color=colours[name], label=label)
            ends[value > 0] += value
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


def on_time_axis(axes: Axes, end: float) -> float:
    """Label the x axis with a suitable unit of time and set its limits."""
    divisor, unit = (1.0, "s") if end <= 300 else (60.0, "min") if end <= 3 * 3600 else (3600.0, "h")
    axes.set_xlabel(f"time since the start of the run ({unit})")
    axes.set_xlim(0, max(end, 1e-9) / divisor)
    return divisor


def over_accelerators(
    axes: Axes, shares: Mapping[int, tuple[float, tuple[float, float] | None]], label: str = ""
) -> None:
    """Draw shares in percent over numbers of accelerators, each with its interval as a vertical line, and a line at 100 %."""
    axes.axhline(100, color=palette.MUTED.light, linestyle="--", linewidth=1)
    axes.plot([*shares], [100 * share for share, _ in shares.values()], "o-", color=palette.BLUE.light, label=label)
    for accelerators, (_, interval) in shares.items():
        if interval is not None:
            axes.vlines(accelerators, 100 * interval[0], 100 * interval[1], color=palette.BLUE.light)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: count(round(value)))
    axes.set_xlabel("accelerators")


def legend_above(axes: Axes, handles: Iterable[Artist]) -> None:
    """Draw a legend in one line above the right end of the axes. `handles`: its entries, in order."""
    listed = list(handles)
    axes.legend(handles=listed, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(listed), borderaxespad=0.2)
