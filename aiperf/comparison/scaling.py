"""Weak scaling of real runs: score and regulated score over time for each size, and efficiency against the smallest size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from aiperf.atomic_files import draft_of
from aiperf.comparison.compared_runs import folders, require_one_benchmark, side_of
from aiperf.errors import CannotCompare
from aiperf.report.facts import Report
from aiperf.report.write import report_of
from aiperf.units import count, flops_per_second, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True, slots=True)
class Size:
    """Runs with one number of accelerators."""

    accelerators: int
    runs: tuple[Report, ...]
    flops_per_second: float
    """Mean score."""
    regulated_flops_per_second: float
    efficiency: float
    """Score per accelerator ÷ that of the smallest size."""


def scaling(words: Sequence[str]) -> tuple[Size, ...]:
    """Read runs and group them by their largest number of accelerators, the smallest first.

    Raises:
        NoSuchRun: A word names no run.
        CannotCompare: A run has no score, the runs have different benchmarks, or all have one size.
    """
    sides = [side_of(report_of(folder)) for folder in folders(words)]
    for each in sides[1:]:
        require_one_benchmark(sides[0], each)
    by_size: dict[int, list[Report]] = {}
    for each in sides:
        by_size.setdefault(each.runs[0].hardware.accelerators, []).append(each.runs[0])
    if len(by_size) < 2:
        (only,) = by_size
        raise CannotCompare(
            f"--scaling compares sizes; all {len(sides)} runs have {only} accelerators. Add a run of another size"
        )
    sizes = sorted(by_size)
    scores = {size: fmean([run.score.flops_per_second or 0.0 for run in by_size[size]]) for size in sizes}
    alone = scores[sizes[0]] / sizes[0]
    return tuple(
        Size(
            size,
            tuple(by_size[size]),
            scores[size],
            fmean([run.score.regulated_flops_per_second or 0.0 for run in by_size[size]]),
            scores[size] / size / alone,
        )
        for size in sizes
    )


def scaling_lines(found: Sequence[Size]) -> list[str]:
    """Return the table as text. The efficiency of one run per size includes the difference between two searches."""
    head = f"{'accelerators':>12}  {'runs':>4}  {'score':>14}  {'regulated':>14}  {'efficiency':>10}"
    rows = [
        f"{count(each.accelerators):>12}  {len(each.runs):>4}  {flops_per_second(each.flops_per_second):>14}  "
        f"{flops_per_second(each.regulated_flops_per_second):>14}  {share(each.efficiency, 1):>10}"
        for each in found
    ]
    return [head, *rows]


def as_plain(found: Sequence[Size]) -> list[dict[str, object]]:
    """Return the table as JSON values."""
    return [
        {
            "accelerators": each.accelerators,
            "runs": [run.run.name for run in each.runs],
            "flops_per_second": each.flops_per_second,
            "regulated_flops_per_second": each.regulated_flops_per_second,
            "efficiency": each.efficiency,
        }
        for each in found
    ]


def draw(found: Sequence[Size], folder: Path) -> list[Path]:
    """Write scaling.png, scaling.svg and scaling.pdf into a folder."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    figure = Figure(figsize=(7.6, 8.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    score, regulated, efficiency = figure.subplots(3, 1, height_ratios=(3, 3, 2))
    regulated.sharex(score)
    _over_time(score, found, "flops_per_second", "score")
    _over_time(regulated, found, "regulated_flops_per_second", "regulated score")
    regulated.set_xlabel("hours since the run began")
    sizes = [each.accelerators for each in found]
    efficiency.axhline(100, color="#9a9a9a", linestyle="--", linewidth=1)
    efficiency.semilogx(sizes, [100 * each.efficiency for each in found], color="#1f5fa8", marker="o")
    efficiency.set_xticks(sizes, [count(size) for size in sizes])
    efficiency.xaxis.set_minor_locator(NullLocator())
    efficiency.set_ylim(bottom=min(80.0, *(100 * each.efficiency - 5 for each in found)))
    efficiency.set_xlabel("accelerators")
    efficiency.set_ylabel("efficiency in %")
    for axes in (score, regulated, efficiency):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)
    first = found[0].runs[0].run
    score.set_title(f"Weak scaling{': simulated, no work was done' if first.is_simulated else ''}", fontsize=11)
    paths = [folder / f"scaling.{form}" for form in FORMATS]
    for path in paths:
        with draft_of(path) as draft:
            figure.savefig(draft, format=path.suffix[1:], metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def _over_time(axes: Axes, found: Sequence[Size], field: str, label: str) -> None:
    from matplotlib import colormaps
    from matplotlib.ticker import FuncFormatter

    for index, each in enumerate(found):
        colour = colormaps["viridis"](0.85 * (1 - index / max(1, len(found) - 1)))
        for number, report in enumerate(each.runs):
            points = [(point.at / 3600, getattr(point, field)) for point in report.curve]
            points = [point for point in points if point[1] is not None]
            name = f"{count(each.accelerators)} accelerators" if not number else None
            axes.plot([at for at, _ in points], [value for _, value in points], color=colour, label=name)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: flops_per_second(value)))
    axes.set_ylabel(label)
    axes.legend(frameon=False, fontsize=8, ncols=2)
