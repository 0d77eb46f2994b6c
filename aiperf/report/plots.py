"""Drawings over time: score, regulated score (−ln(error) × score), error, quality, activities of workers, accelerators."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from aiperf.accounting.valid_flops import FixedNetworkResult
from aiperf.page.figure import drawing, hover, legend_above, on_time_axis
from aiperf.page.palette import AMBER, GREEN, IDLE, INK, LINE, MUTED, SHADE, VERMILION, Accent, accent
from aiperf.page.section import DrawnFigure
from aiperf.ranking.division import largest_error
from aiperf.report import phrases
from aiperf.report.facts import Gantt, Report
from aiperf.report.figures import SCORE
from aiperf.report.phrases import availability_meaning, error_of, interval_meaning, measured, source
from aiperf.sanitize import sanitize
from aiperf.units import ACCURACIES, METRICS, count, duration, flops_per_second, scale, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

MOST_BARS_AS_VECTORS = 4000
"""Maximum number of bars drawn as vectors. More bars become pixels."""


def shade_warmup(axes: Axes, warmup: float, end: float, divisor: float, label: str = "top") -> None:
    if warmup <= 0:
        return
    edge = min(warmup, end)
    axes.axvspan(0, edge / divisor, color=SHADE.light, zorder=0, linewidth=0)
    axes.axvline(edge / divisor, color=LINE.light, linewidth=0.8, zorder=0.5)
    if label:
        height, offset = {"top": (1.0, -4), "center": (0.5, 0), "bottom": (0.0, 5)}[label]
        axes.annotate(
            "warm-up",
            (0, height),
            xycoords="axes fraction",
            xytext=(4, offset),
            textcoords="offset points",
            va=label,
            color=MUTED.light,
            fontsize=8.5,
        )


def score_over_time(report: Report) -> DrawnFigure:
    """Draw score and regulated score over time in FLOPS, with the shaded warm-up and the 95 % interval."""
    name, title = "score", "Score over time"
    if not report.curve:
        return DrawnFigure(name, title, empty="No work has been reported yet.")
    run, score, curve = report.run, report.score, report.curve
    own = accent(is_simulated=run.is_simulated)
    at = np.array([point.at for point in curve])
    instantaneous = np.array([point.instantaneous_flops_per_second for point in curve])
    cumulative = np.array([point.cumulative_flops_per_second for point in curve])
    in_window = [(point.at, point.flops_per_second) for point in curve if point.flops_per_second is not None]
    regulated = [
        (point.at, point.regulated_flops_per_second) for point in curve if point.regulated_flops_per_second is not None
    ]
    # A short burst of work may exceed the scores by far. The axis follows the scores, and clipped points are marked.
    ceiling = max([*cumulative.tolist(), *(value for _, value in in_window), float(np.percentile(instantaneous, 98))])

    why_not = (
        "no evaluation inside a valid window" if run.metric in ACCURACIES else f"the quality is {METRICS[run.metric]}"
    )

    def draw(figure: Figure) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
        divisor = on_time_axis(lower, run.end)
        unit, unit_name = scale(ceiling, "FLOPS")
        upper.set_title("Score")
        upper.set_ylabel(unit_name)
        shade_warmup(upper, run.warmup_seconds, run.end, divisor)
        upper.step(at / divisor, instantaneous / unit, where="pre", color=own.pale.light, linewidth=1.1, zorder=1.5)
        upper.plot(at / divisor, cumulative / unit, color=MUTED.light, linewidth=1.3, linestyle=(0, (4, 2)))
        handles: list[Line2D | Patch] = [
            Line2D([], [], color=own.pale.light, label="instantaneous"),
            Line2D([], [], color=MUTED.light, linestyle=(0, (4, 2)), label="average with the warm-up"),
        ]
        if in_window:
            upper.plot(*_curve(in_window, divisor, unit), color=own.strong.light, linewidth=2.2, zorder=3)
            texts = [f"{duration(moment)}: score {flops_per_second(value)}" for moment, value in in_window]
            hover(upper, [at / divisor for at, _ in in_window], [value / unit for _, value in in_window], texts)
            handles.append(Line2D([], [], color=own.strong.light, label="score"))
        if score.flops_per_second_interval is not None:
            low, high = score.flops_per_second_interval
            inside = [run.warmup_seconds / divisor, run.end / divisor]
            shade: dict[str, Any] = {"color": own.strong.light, "alpha": 0.18}
            upper.fill_between(inside, low / unit, high / unit, linewidth=0, zorder=2, **shade)
            handles.append(Patch(label="95 % interval", **shade))
        top = (1.08 * ceiling / unit) or 1
        upper.set_ylim(0, top)
        if (clipped := instantaneous / unit > top).any():
            marks: dict[str, Any] = {"color": own.pale.light, "marker": "^", "linestyle": ""}
            edge = np.full(clipped.sum(), top)
            upper.plot(at[clipped] / divisor, edge, markersize=5, clip_on=False, zorder=4, **marks)
            highest = f"clipped, up to {flops_per_second(float(instantaneous.max()))}"
            handles.append(Line2D([], [], label=highest, **marks))
        legend_above(upper, handles)
        lower.set_title("Regulated score: −ln(error) × score")
        shade_warmup(lower, run.warmup_seconds, run.end, divisor, label="")
        if regulated:
            unit, unit_name = scale(max(value for _, value in regulated), "FLOPS")
            lower.plot(*_curve(regulated, divisor, unit), color=VERMILION.light)
            lower.set_ylim(0, (1.1 * max(value for _, value in regulated) / unit) or 1)
            lower.set_ylabel(unit_name)
        else:
            lower.set_yticks([])
            lower.annotate(
                f"not defined: {why_not}",
                (0.5, 0.5),
                xycoords="axes fraction",
                ha="center",
                va="center",
                color=MUTED.light,
            )

    caption = (
        f"Counted work at {len(curve)} evenly spaced times. The score counts from the end of the warm-up "
        f"({duration(run.warmup_seconds)}); instantaneous is the work between two of these times. The 95 % interval: "
        f"{interval_meaning(report)}."
    )
    described = f"Line chart of the score over {duration(run.end)}; at the end {SCORE.text(report)}."
    return drawing(name, title, caption, 4.9, source(report), draw, described)


def _curve(points: list[tuple[float, float]], divisor: float, unit: float) -> tuple[list[float], list[float]]:
    return [at / divisor for at, _ in points], [value / unit for _, value in points]


ERROR_TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FINE_ERROR_TICKS = (
    *(n / 1000 for n in range(1, 10)),
    *(n / 100 for n in range(1, 10)),
    *(n / 10 for n in range(1, 11)),
)


def error_over_time(report: Report) -> DrawnFigure:
    """Draw the top-1 error of the epochs (of many, a part) and the smallest until each time. A text without a top-1 error."""
    name, title = "error", "Error over time"
    if not report.errors:
        return DrawnFigure(name, title, empty="No evaluation yet: the error is not defined.")
    run = report.run
    shown, all_ = len(report.errors), report.error_points
    rule = (
        f"{count(shown)} of {count(all_)}: every improvement, and evenly chosen others"
        if shown < all_
        else f"all {count(all_)}"
    )
    only = "Invented learning curves." if run.is_simulated else "Measured values only, never predicted ones."
    caption = f"One point for each evaluated epoch ({rule}). {only}"
    described = f"The best {measured(run)} error falls to {error_of(report.errors[-1].best, run)}."
    return drawing(name, title, caption, 3.5, source(report), partial(_errors, report=report), described)


_MARGIN: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"),
    "textcoords": "offset points",
    "annotation_clip": False,
}
"""Place of a label in the right margin of a plot, at the height of its value."""


def quality_over_epochs(report: Report, result: FixedNetworkResult) -> DrawnFigure:
    """Draw the quality of every epoch of a run with a target quality, and mark the first epoch that reached the target."""
    name, title = "quality", "Quality over epochs"

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        epochs = [point.epoch for point in result.epochs]
        axes.plot(epochs, [point.quality for point in result.epochs], "o-", color=VERMILION.light, markersize=3.5)
        axes.axhline(result.target_quality, color=MUTED.light, linewidth=1, linestyle=(0, (4, 2)))
        axes.annotate("target", (1, result.target_quality), xytext=(5, 0), va="center", color=MUTED.light, **_MARGIN)
        if result.epochs_to_quality is not None:
            axes.axvline(result.epochs_to_quality, color=MUTED.light, linewidth=1, linestyle=(0, (1, 2)))
        axes.set_xlabel("epoch")
        axes.set_ylabel(METRICS[report.run.metric])
        axes.set_ylim(0, max(1.08 * max(result.target_quality, result.best_quality), 0.05))

    reached = f"first reached in epoch {result.epochs_to_quality}" if result.epochs_to_quality else "not reached"
    caption = f"Dashed: target {result.target_quality:.4g}, {reached}."
    described = f"The quality is {result.quality:.4g} after {result.epochs[-1].epoch} epochs."
    return drawing(name, title, caption, 3.0, source(report), draw, described)


def on_error_axis(axes: Axes, low: float, high: float) -> None:
    """Make the y axis logarithmic, from `low` to `high`, with ticks in percent."""
    from matplotlib.ticker import NullFormatter

    axes.set_yscale("log")
    axes.set_ylim(low, high)
    coarse = [tick for tick in ERROR_TICKS if low <= tick <= high]
    ticks = coarse if high / low > 6 else [tick for tick in FINE_ERROR_TICKS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{100 * tick:g} %" for tick in ticks])
    axes.yaxis.set_minor_formatter(NullFormatter())


def _errors(figure: Figure, report: Report) -> None:
    from matplotlib.lines import Line2D

    axes = figure.subplots()
    run, points = report.run, report.errors
    own = accent(is_simulated=run.is_simulated)
    best = points[-1].best
    divisor = on_time_axis(axes, run.end)
    shade_warmup(axes, run.warmup_seconds, run.end, divisor, label="bottom")
    high = min(1.0, max(point.error for point in points) * 1.2)
    bound = largest_error()
    on_error_axis(axes, min(points[-1].best, bound) / 1.35, high)
    at = [point.at / divisor for point in points]
    axes.plot(at, [point.error for point in points], ".", color=own.pale.light, markersize=3.5, alpha=0.8, zorder=2)
    axes.step(
        [*at, run.end / divisor],
        [*(point.best for point in points), best],
        where="post",
        color=VERMILION.light,
        linewidth=2.2,
        zorder=3,
    )
    texts = [f"{duration(each.at)}: error {error_of(each.error, run)}, trial {each.trial}" for each in points]
    hover(axes, at, [point.error for point in points], texts)
    axes.set_ylabel("top-1 error (log)")
    # Labels in the right margin, on opposite sides, so that they never overlap.
    if 0.75 * high > bound:  # Closer to the top, the label would overlap the legend.
        axes.axhline(bound, color=MUTED.light, linewidth=1, linestyle=(0, (1, 2)))
        axes.annotate(
            f"ranked\n≤ {share(bound, 0)}",
            (1, bound),
            xytext=(5, 0),
            va="bottom" if best <= bound else "top",
            color=MUTED.light,
            fontsize=8.5,
            **_MARGIN,
        )
    axes.annotate(
        f"best\n{error_of(best, run).replace(' (', chr(10) + '(')}",
        (1, best),
        xytext=(5, 0),
        va="top" if best <= bound else "bottom",
        color=VERMILION.light,
        fontweight="bold",
        fontsize=9,
        **_MARGIN,
    )
    legend_above(
        axes,
        [
            Line2D([], [], color=own.pale.light, marker=".", linestyle="", label="one epoch"),
            Line2D([], [], color=VERMILION.light, label="best so far"),
        ],
    )


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

    rule = f"Pauses shorter than {duration(chart.merged_gap_seconds)} are not drawn."
    if chart.grid:
        first, last = chart.grid_rows[0]
        rule += (
            f" Above, all {count(chart.all_workers)} workers in groups of {last - first + 1}: the share of accelerator time "
            f"spent in steps. Below, the first {rows}."
        )
    described = (
        f"Gantt chart of {count(chart.all_workers)} workers; busy time {phrases.share(report.score.busy_share)}."
    )
    caption, height = f"Neighbouring trials alternate in shade. {rule}", bars_height + grid_height
    return drawing(name, title, caption, height, source(report), draw, described)


def _bars(axes: Axes, chart: Gantt, warmup: float, own: Accent) -> None:
    from matplotlib.patches import Patch

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
    from matplotlib.lines import Line2D

    if not 0 < warmup < end:
        return []
    style: dict[str, Any] = {"color": INK.light, "linewidth": 1, "linestyle": (0, (2, 2))}
    axes.axvline(warmup / divisor, zorder=4, **style)
    return [Line2D([], [], label="warm-up ends", **style)]


def _grid(figure: Figure, axes: Axes, chart: Gantt, own: Accent) -> None:
    from matplotlib.colors import LinearSegmentedColormap

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
    name, title, available = "accelerators", "Accelerators over time", report.availability
    if not report.workers:
        return DrawnFigure(name, title, empty="No worker has joined yet.")
    warmup, end = report.run.warmup_seconds, report.run.end
    planned = "planned" if available.is_declared else "largest number at once"

    own = accent(is_simulated=report.run.is_simulated).strong

    def draw(figure: Figure) -> None:
        from matplotlib.lines import Line2D

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

    described = (
        f"Accelerators over time, {count(available.planned)} {planned}; available {phrases.share(available.share)}."
    )
    return drawing(name, title, f"{availability_meaning(report)}.", 2.6, source(report), draw, described)
