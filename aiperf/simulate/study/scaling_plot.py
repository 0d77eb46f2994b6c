"""Plot of a rehearsal: score and efficiency over the number of workers, next to perfect scaling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from aiperf.atomic_files import draft_of
from aiperf.units import count, flops_per_second, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from aiperf.simulate.study.rehearse import Rehearsed

_INK, _SCORE, _BUSY, _PALE = "#222222", "#1f5fa8", "#c2571a", "#9a9a9a"
_LEAST = 0.99
"""Required efficiency of a run without faults."""


def draw(sweep: Sequence[Rehearsed], folder: Path) -> tuple[Path, Path]:
    """Write rehearsal.png and rehearsal.svg into a folder and return their paths."""
    figure = Figure(figsize=(7.6, 6.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _scores(upper, sweep)
    _efficiencies(lower, sweep)
    workers = [each.workers for each in sweep]
    lower.set_xlabel("workers")
    lower.set_xticks(workers, [count(each) for each in workers])
    lower.xaxis.set_minor_locator(NullLocator())
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)
    paths = (folder / "rehearsal.png", folder / "rehearsal.svg")
    for path in paths:
        with draft_of(path) as draft:
            figure.savefig(draft, format=path.suffix[1:], metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def _scores(axes: Axes, sweep: Sequence[Rehearsed]) -> None:
    workers = [each.workers for each in sweep]
    perfect = [each.perfect_flops_per_second for each in sweep]
    scores = [each.score_flops_per_second for each in sweep]
    axes.loglog(workers, perfect, color=_PALE, linestyle="--", label="perfect: workers × one worker alone")
    axes.loglog(workers, scores, color=_SCORE, marker="o", linewidth=0, label="simulated")
    for each, height in zip(sweep, scores, strict=True):
        axes.annotate(
            flops_per_second(each.score_flops_per_second),
            (each.workers, height),
            xytext=(7, -11),
            textcoords="offset points",
            fontsize=8,
            color=_INK,
        )
    axes.set_ylabel("score")
    axes.set_ylim(min(scores) / 4, max(scores) * 3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: flops_per_second(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlim(workers[0] / 1.5, workers[-1] * 4)
    ranks = sweep[-1].accelerators // sweep[-1].workers
    axes.set_title(
        f"Rehearsal on simulated clusters, {ranks} accelerators a worker: no work was done", color=_INK, fontsize=11
    )
    axes.legend(frameon=False, loc="upper left")


def _efficiencies(axes: Axes, sweep: Sequence[Rehearsed]) -> None:
    workers = [each.workers for each in sweep]
    by_score = [100 * each.efficiency for each in sweep]
    by_time = [100 * each.busy_efficiency for each in sweep]
    spread = 200 * sweep[-1].standard_error
    axes.axhline(100, color=_PALE, linestyle="--", linewidth=1)
    axes.axhline(100 * _LEAST, color=_PALE, linestyle=":", linewidth=1)
    axes.annotate(
        f"goal {share(_LEAST, 0)}", (workers[-1] * 3.8, 100 * _LEAST), ha="right", va="bottom", fontsize=8, color=_INK
    )
    axes.errorbar(
        workers,
        by_score,
        yerr=spread,
        color=_SCORE,
        marker="o",
        capsize=3,
        label="score ÷ perfect, ± 2 standard errors",
    )
    axes.semilogx(workers, by_time, color=_BUSY, marker="s", markersize=5, label="busy time ÷ one worker's")
    values = [*by_score, *by_time]
    axes.set_ylim(min(98.0, min(values) - 1.0), max(101.5, max(values) + spread + 0.5))
    axes.set_ylabel("efficiency in %")
    axes.legend(frameon=False, loc="lower left", fontsize=8, ncols=2)
