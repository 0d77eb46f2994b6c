"""Dot plot of repeats: every run as one dot for each figure, with mean and 95 % interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.atomic_files import replace_file
from aiperf.comparison.compared_runs import Side
from aiperf.comparison.figures import figures_of
from aiperf.report.phrases import source
from aiperf.statistics.estimate import of_repeats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(side: Side, folder: Path) -> list[Path]:
    """Write repeats.svg, repeats.png and repeats.pdf into a folder. Figures that a run does not have are left out."""
    from matplotlib.ticker import FuncFormatter

    from aiperf.report.plots.figure import drawn
    from aiperf.report.plots.palette import BLUE, VERMILION

    known = [(each, [each.value(run) for run in side.runs]) for each in figures_of(side.runs)]
    shown = [(each, [value for value in values if value is not None]) for each, values in known if None not in values]

    def on(figure: Figure) -> None:
        for axes, (each, values) in zip(figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown, strict=True):
            estimate = of_repeats(values)
            if estimate is not None and len(values) > 2:
                axes.axvspan(*estimate.interval, color=BLUE.light, alpha=0.15, linewidth=0)
                axes.axvline(estimate.value, color=BLUE.light)
            axes.plot(values, [0.0] * len(values), "o", color=VERMILION.light, alpha=0.8)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _, shown=each.shown: shown(value)))
            axes.locator_params(axis="x", nbins=5)
            axes.set_yticks([0.0], [each.name])

    svg, png, pdf = drawn(on, "repeats", 0.75 * len(shown), f"{len(side.runs)} runs: {source(side.runs[0])}, …")
    paths = []
    for suffix, content in (("svg", svg.encode()), ("png", png), ("pdf", pdf)):
        paths.append(folder / f"repeats.{suffix}")
        replace_file(paths[-1], content)
    return paths
