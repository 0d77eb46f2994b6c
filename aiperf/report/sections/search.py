"""Sections of the report on the search: accuracy against operations, tree of networks, best network, trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aiperf import units
from aiperf.page.figure import drawing, hover, legend_above
from aiperf.page.palette import LINE, MUTED, PAPER, VERMILION
from aiperf.page.section import Cell, Column, DrawnFigure, Paragraph, Section, Steps, Table, numbers, table, texts
from aiperf.report import phrases
from aiperf.report.architecture import graph_of
from aiperf.report.facts import ArchitectureTree, Report, TrialFacts
from aiperf.report.phrases import source
from aiperf.report.trial_facts import change_text, lineage_lines, morph_text, operations, pareto_front
from aiperf.units import count, scale, share
from morphism.draw import svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure

MOST_TRIALS = 200
"""Number of trials in the page's table, best first. report.json has all of them."""
# Viridis without its ends, which are invisible on a dark or a white page.
ACCURACY_COLOURS = ("#44337f", "#31688e", "#21918c", "#35b779", "#90d743", "#e3d325")
MOST_TRIALS_DRAWN = 2500
MOST_TREE_LABELS = 40
ACCURACY_TICKS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999)


def operations_and_accuracy(report: Report) -> Section:
    """Return the section on accuracy against operations, with the Pareto front. None for object detection (no search)."""
    parts = (accuracy_against_operations(report), front(report))
    return Section("operations", "Accuracy against operations", parts, "Operations")


def tree(report: Report) -> Section:
    """Return the section with the tree of networks. None for object detection, because its network is not searched."""
    return Section("tree", "Tree of architectures", (tree_of_architectures(report),), "Tree")


def architecture(report: Report) -> Section:
    """Return the section on the best network, with its changes since the starting network. None for object detection."""
    picture, best = best_drawn(report), report.architecture
    if best is None or picture.svg is None:
        return Section("architecture", "Best architecture", (picture,))
    steps = tuple(morph_text(morph) for morph in best.morphs)
    kept = None if report.checkpoints is None else Paragraph(f"Checkpoints: {phrases.checkpoints(report.checkpoints)}.")
    lineage = Steps(steps) if steps else Paragraph("The starting graph itself.")
    return Section("architecture", "Best architecture", (lineage, kept, picture))


def trials(report: Report) -> Section:
    """Return the section with the table of the best 200 trials."""
    shown = trial_table(report) if report.trials else Paragraph("No trial has been proposed yet.", "empty")
    return Section("trials", "Trials", (shown,))


def best_drawn(report: Report) -> DrawnFigure:
    name, title = "architecture", "Best architecture"
    best = report.architecture
    if best is None:
        return DrawnFigure(name, title, empty="No evaluation yet: there is no best architecture.")
    graph = graph_of(best)
    if graph is None:
        return DrawnFigure(name, title, empty=f"Not drawn: {best.why_not}")
    reached = next(trial.accuracy for trial in report.trials if trial.number == best.trial)
    described = f"trial {best.trial}, {units.share(reached or 0.0, 2)}"
    nodes = units.count(len(graph.nodes))
    return DrawnFigure(
        name,
        title,
        f"Trial {best.trial}. Orange: added or changed by its morphs. {nodes} nodes.",
        f"Drawing of the best architecture, {described}.",
        svg(graph, title=described, highlight=best.added),
        has_own_style=True,
    )


def front(report: Report) -> Table | None:
    """Return the table of the Pareto front: trials that are more accurate than all cheaper ones. None without an evaluation."""
    if not report.front:
        return None
    by_number = {trial.number: trial for trial in report.trials}
    start = next((operations(each) for each in report.trials if each.parent is None and not each.morphs), None)
    shown = [by_number[number] for number in report.front]
    per, done = f"operations per {phrases.noun(report).one}", [operations(each) for each in shown]
    errors = [1 - (each.accuracy or 0.0) for each in shown]
    columns = (
        numbers("trial", [each.number for each in shown], str),
        numbers(per, done, units.operations, "forward and backward"),
        numbers("vs. start", [each / start if start else None for each in done], "{:.2f} ×".format,
                "operations ÷ operations of the starting network"),
        numbers("error", errors, lambda error: phrases.error_of(error, report.run), "1 − its best accuracy",
                is_less_first=True),
        numbers("parameters", [each.parameters for each in shown], lambda number: units.si(number, "")),
        texts("change", map(change_text, shown)),
    )  # fmt: skip
    caption = f"Pareto front: {units.count(len(shown))} of {units.count(len(report.trials))} trials"
    return table("front", caption, columns, "No cheaper network was as accurate.", is_sortable=True)


def trial_table(report: Report) -> Table:
    """Return the table of the best 200 trials, the most accurate first: accuracy, parent, change, cost, time and outcome."""
    ranked = sorted(
        report.trials, key=lambda trial: (-(-1.0 if trial.accuracy is None else trial.accuracy), trial.number)
    )
    shown, sample = ranked[:MOST_TRIALS], phrases.noun(report)
    by_number = {trial.number: trial for trial in report.trials}
    accuracy = partial(units.share, decimals=2)
    best = f"best {phrases.measured(report.run)} {phrases.metric(report.run)}"
    predicted = "accuracy reported to the search; predicted in the first rounds"
    per, work = f"FLOP per {sample.one}", [operations(each) for each in shown]
    columns = (
        numbers("trial", [each.number for each in shown], str),
        numbers("accuracy", [each.accuracy for each in shown], accuracy, best),
        numbers("reported", [each.reported_accuracy for each in shown], accuracy, predicted),
        numbers("round", [each.round for each in shown], str),
        (Column("parent", True, "trial that it grew from"), tuple(map(_parent, shown))),
        texts("change", [_change(each, by_number) for each in shown]),
        numbers(per, work, units.operations, "forward and backward"),
        numbers("parameters", [each.parameters for each in shown], lambda number: units.si(number, "")),
        numbers("batch", [each.batch_size for each in shown], str, f"{sample.many} per accelerator and step"),
        numbers("epochs", [each.epochs for each in shown], str),
        numbers("time", [each.seconds for each in shown], units.duration),
        texts("outcome", map(_outcome, shown)),
    )
    every, footnote = units.count(len(report.trials)), ""
    if len(shown) < len(report.trials):
        footnote = f"The best {len(shown)} of {every}; the others are in report.json."
    return table("trials", f"Trials, best first ({every})", columns, footnote, is_sortable=True)


def _parent(trial: TrialFacts) -> Cell:
    return Cell("start", -1.0) if trial.parent is None else Cell(str(trial.parent), trial.parent)


def _change(trial: TrialFacts, trials: Mapping[int, TrialFacts]) -> Cell:
    lineage, change = tuple(lineage_lines(trial, trials)), change_text(trial)
    is_complete = len(lineage) == 1 and lineage[0].endswith(f": {change}")
    return Cell(change, unfolds=() if is_complete else lineage)


def _outcome(trial: TrialFacts) -> str:
    outcome = phrases.OUTCOMES.get(trial.outcome, trial.outcome) + (
        "" if trial.attempts < 2 else f", attempt {trial.attempts}"
    )
    return outcome if trial.reason is None else f"{outcome}: {trial.reason}"


def accuracy_against_operations(report: Report) -> DrawnFigure:
    """Draw the accuracy of each evaluated trial against the operations of one training image, with the Pareto front."""
    name, title = "operations", "Accuracy against operations"
    measured = [trial for trial in report.trials if trial.accuracy is not None]
    if not measured:
        return DrawnFigure(name, title, empty="No evaluation yet.")
    shown = _best_and_others(measured)
    best = next(trial for trial in measured if trial.number == report.best)
    sample = phrases.noun(report).one
    if len(shown) == len(measured):
        rule = f"{count(len(measured))}, all of them"
    else:
        rule = f"{count(len(shown))} of {count(len(measured))}: the better half of these and evenly chosen others"
    caption = f"One point for each evaluated trial: {rule}. The accuracy axis is logarithmic in the error."
    described = (
        f"Scatter plot; the best is trial {best.number} with {share(_accuracy(best))} "
        f"at {units.operations(operations(best))} per {sample}."
    )
    draw = partial(_scatter, shown=shown, best=best, sample=sample)
    return drawing(name, title, caption, 3.9, source(report), draw, described)


def _accuracy(trial: TrialFacts) -> float:
    assert trial.accuracy is not None, "only measured trials are drawn"
    return trial.accuracy


def _colours() -> LinearSegmentedColormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("accuracy", ACCURACY_COLOURS)


def _scatter(figure: Figure, shown: Sequence[TrialFacts], best: TrialFacts, sample: str) -> None:
    from matplotlib.colors import Normalize
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator, NullFormatter

    axes = figure.subplots()
    unit, unit_name = scale(float(max(operations(trial) for trial in shown)), "FLOP")
    # A logarithmic axis has no error of 0. A perfect accuracy is drawn half a step above the best other.
    errors = np.array([1 - _accuracy(trial) for trial in shown])
    floor = float(errors[errors > 0].min()) / 2 if (errors > 0).any() else 1e-4
    costs = np.array([operations(trial) for trial in shown], dtype=np.float64)
    rounds = np.array([trial.round for trial in shown])
    many = len(shown) > 400
    # Set before drawing: for nearly equal errors matplotlib would choose an axis of length 0.
    low, high = _room_for(np.maximum(errors, floor))
    axes.set_ylim(high, low)
    axes.set_yscale("log")
    dots = axes.scatter(
        costs / unit,
        np.maximum(errors, floor),
        c=rounds,
        cmap=_colours(),
        norm=Normalize(1, max(2, int(rounds.max()))),
        s=9 if many else 28,
        alpha=0.85,
        linewidths=0 if many else 0.4,
        edgecolors=PAPER.light,
        zorder=2,
        rasterized=many,
    )
    if not many:
        texts = [
            f"trial {each.number}: {units.operations(operations(each))}, {share(_accuracy(each), 2)}" for each in shown
        ]
        hover(axes, (costs / unit).tolist(), np.maximum(errors, floor).tolist(), texts)
    frontier = pareto_front(shown)
    axes.step(
        [operations(trial) / unit for trial in frontier],
        [max(floor, 1 - _accuracy(trial)) for trial in frontier],
        where="post",
        color=MUTED.light,
        linewidth=1.1,
        zorder=1.5,
    )
    ring: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": VERMILION.light, "linestyle": ""}
    at_best = operations(best) / unit, max(floor, 1 - _accuracy(best))
    axes.plot(*at_best, marker="o", markersize=12, markeredgewidth=2, zorder=3, **ring)
    axes.margins(x=0.06)
    ticks = _apart([tick for tick in ACCURACY_TICKS if low <= 1 - tick <= high], low, high)
    if len(ticks) < 2:  # Close accuracies: four even steps of the axis.
        ticks = [1 - float(error) for error in np.geomspace(low, high, 6)[1:-1]]
    axes.set_yticks([1 - tick for tick in ticks], [f"{100 * tick:.4g} %" for tick in ticks])
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="y", which="minor", length=0)
    axes.set_xlabel(f"operations of one training {sample}, forward and backward ({unit_name})")
    axes.set_ylabel("best top-1 accuracy")
    bar = figure.colorbar(dots, ax=axes, pad=0.01, aspect=24)
    bar.outline.set_visible(False)
    bar.set_label("round of its worker")
    bar.locator = MaxNLocator(integer=True, nbins=6)
    bar.update_ticks()
    legend_above(
        axes,
        [
            Line2D([], [], color=MUTED.light, linewidth=1.1, label="best for its operations"),
            Line2D([], [], marker="o", markersize=9, label=f"best: trial {best.number}", **ring),
        ],
    )


MOST_TICKS = 14
"""Maximum number of labels on the axis without overlap."""


def _apart(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """Return the ticks whose labels do not overlap on an axis of errors from `low` to `high`, better ones first."""
    kept: list[float] = []
    for tick in reversed(ticks):
        if not kept or np.log((1 - tick) / (1 - kept[-1])) >= np.log(high / low) / MOST_TICKS:
            kept.append(tick)
    return kept[::-1]


def _room_for(errors: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the limits of a logarithmic axis of errors: margins of 1/7 of the span, and at least 0.1 decades."""
    least, most = np.log10(errors.min()), np.log10(errors.max())
    room = max(0.14 * (most - least), 0.1)
    return float(10 ** (least - room)), float(10 ** (most + room))


def _best_and_others(measured: list[TrialFacts]) -> list[TrialFacts]:
    if len(measured) <= MOST_TRIALS_DRAWN:
        return measured
    half = MOST_TRIALS_DRAWN // 2
    ranked = sorted(measured, key=lambda trial: -_accuracy(trial))
    others = ranked[half:]
    return ranked[:half] + others[:: -(-len(others) // half)]


def tree_of_architectures(report: Report) -> DrawnFigure:
    """Draw the tree of networks, each to the right of the trial whose weights it inherited, coloured by accuracy."""
    name, title, tree = "tree", "Tree of architectures", report.tree
    if tree.shown == 0:
        why = "proposed" if not tree.trials else "evaluated"
        return DrawnFigure(name, title, empty=f"No architecture has been {why} yet.")
    rows = max(node.row for node in tree.nodes) + 1
    if tree.shown == tree.trials:
        rule = f"{count(tree.trials)} trials, all of them"
    else:
        rule = f"{count(tree.shown)} of {count(tree.trials)} trials: the best and all their ancestors"
    caption = f"{rule}; hollow: not evaluated. The coloured line goes from the starting graph to the best architecture."
    described = f"Tree of {count(tree.shown)} architectures grown from the starting graph."
    height = min(10.0, max(2.4, 1.1 + 0.19 * rows))
    return drawing(name, title, caption, height, source(report), partial(_tree, tree=tree, rows=rows), described)


def _tree(figure: Figure, tree: ArchitectureTree, rows: float) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes = figure.subplots()
    places = [np.array([node.generation, node.row]) for node in tree.nodes]
    accuracies = [node.accuracy for node in tree.nodes if node.accuracy is not None]
    norm = Normalize(min(accuracies, default=0.0), max(accuracies, default=1.0))
    _edges(axes, tree, places)
    size = 64 if rows <= 25 else 40 if rows <= 60 else 20
    _nodes(axes, tree, places, norm, size)
    for place, node in zip(places, tree.nodes, strict=True):
        if tree.shown <= MOST_TREE_LABELS or node.is_best or node.trial is None:
            text = "start" if node.trial is None else str(node.trial)
            axes.annotate(
                f"{text} · {share(node.accuracy)}" if node.is_best and node.accuracy is not None else text,
                (float(place[0]), float(place[1])),
                xytext=((-1 if node.trial is None else 1) * (4 + size**0.5 / 2), 0),
                textcoords="offset points",
                ha="right" if node.trial is None else "left",
                va="center",
                fontsize=8,
                fontweight="bold" if node.is_best else "normal",
                color=VERMILION.light if node.is_best else MUTED.light,
                bbox={"facecolor": PAPER.light, "edgecolor": "none", "pad": 0.6},
                zorder=2.5,
            )
    deepest = max(node.generation for node in tree.nodes)
    axes.set_xlim(-0.09 * (deepest + 1), deepest + 0.14 * (deepest + 1))
    axes.set_ylim(rows - 0.3, -0.7)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("generation: proposals from the starting graph")
    if accuracies and max(accuracies) - min(accuracies) > 1e-3:
        bar = figure.colorbar(ScalarMappable(norm, _colours()), ax=axes, pad=0.01, aspect=24)
        bar.outline.set_visible(False)
        bar.locator = MaxNLocator(nbins=5)
        bar.formatter = FuncFormatter(lambda value, _: f"{100 * value:.3g} %")
        bar.update_ticks()
        bar.set_label("best top-1 accuracy")


def _nodes(
    axes: Axes, tree: ArchitectureTree, places: Sequence[npt.NDArray[np.float64]], norm: Normalize, size: float
) -> None:
    colours = _colours()
    # Few calls for many nodes: drawing one collection costs as much as a thousand dots.
    for is_start in (True, False):
        chosen = [
            (place, node) for place, node in zip(places, tree.nodes, strict=True) if (node.trial is None) == is_start
        ]
        axes.scatter(
            [place[0] for place, _ in chosen],
            [place[1] for place, _ in chosen],
            s=[size * (1.5 if node.is_best else 1.0) for _, node in chosen],
            facecolors=[PAPER.light if node.accuracy is None else colours(norm(node.accuracy)) for _, node in chosen],
            edgecolors=[
                VERMILION.light if node.is_best else MUTED.light if node.accuracy is None else LINE.light
                for _, node in chosen
            ],
            linewidths=[2.0 if node.is_best else 1.0 if node.accuracy is None else 0.6 for _, node in chosen],
            marker="s" if is_start else "o",
            zorder=3,
        )


def _edges(axes: Axes, tree: ArchitectureTree, places: Sequence[npt.NDArray[np.float64]]) -> None:
    from matplotlib.collections import LineCollection

    # The edges to the best architecture are emphasized.
    strong: set[int] = set()
    walk = next((index for index, node in enumerate(tree.nodes) if node.is_best), None)
    while walk is not None:
        strong.add(walk)
        walk = tree.nodes[walk].parent
    for is_strong in (False, True):
        bends = [
            _bend(places[node.parent], places[index])
            for index, node in enumerate(tree.nodes)
            if node.parent is not None and (index in strong) == is_strong
        ]
        axes.add_collection(
            LineCollection(
                bends,
                colors=VERMILION.light if is_strong else LINE.light,
                linewidths=2.0 if is_strong else 0.9,
                zorder=2 if is_strong else 1,
            )
        )


def _bend(parent: npt.NDArray[np.float64], child: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    t = np.linspace(0.0, 1.0, 12)
    smooth = t * t * (3 - 2 * t)
    return np.column_stack([parent[0] + t * (child[0] - parent[0]), parent[1] + smooth * (child[1] - parent[1])])
