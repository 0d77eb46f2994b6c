"""Sections of the report on the search: accuracy against operations, tree of networks, best network, trials."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from aiperf import units
from aiperf.page.section import Cell, Column, DrawnFigure, Paragraph, Section, Steps, Table, measured, row_of
from aiperf.report import changes, phrases
from aiperf.report.architecture import graph_of
from aiperf.report.facts import Report, TrialFacts
from aiperf.report.plots.search import accuracy_against_operations, tree_of_architectures
from aiperf.report.trial_facts import operations
from morphism.draw import svg

MOST_TRIALS = 200
"""Number of trials in the page's table, best first. report.json has all of them."""


def operations_and_accuracy(report: Report) -> Section | None:
    """Return the section on accuracy against operations, with the Pareto front. None for object detection (no search)."""
    if report.run.metric != "top1":
        return None
    parts = (accuracy_against_operations(report), front(report))
    return Section("operations", "Accuracy against operations", parts, "Operations")


def tree(report: Report) -> Section | None:
    """Return the section with the tree of networks. None for object detection, because its network is not searched."""
    if report.run.metric != "top1":
        return None
    return Section("tree", "Tree of architectures", (tree_of_architectures(report),), "Tree")


def architecture(report: Report) -> Section | None:
    """Return the section on the best network, with its changes since the starting network. None for object detection."""
    if report.run.metric != "top1":
        return None
    picture, best = best_drawn(report), report.architecture
    if best is None or picture.svg is None:
        return Section("architecture", "Best architecture", (picture,))
    steps = tuple(changes.morph(morph) for morph in best.morphs)
    kept = None if report.checkpoints is None else Paragraph(f"Checkpoints: {phrases.checkpoints(report.checkpoints)}.")
    lineage = Steps(steps) if steps else Paragraph("The starting graph itself.")
    return Section("architecture", "Best architecture", (lineage, kept, picture))


def trials(report: Report) -> Section:
    """Return the section with the table of the best 200 trials."""
    shown = trial_table(report) if report.trials else Paragraph("No trial has been proposed yet.", "empty")
    return Section("trials", "Trials", (shown,))


def best_drawn(report: Report) -> DrawnFigure:
    """Draw the best network as a graph of layers."""
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
    columns = (
        Column("trial", True),
        Column(f"operations per {phrases.noun(report).one}", True, "forward and backward"),
        Column("vs. start", True, "operations ÷ operations of the starting network"),
        Column("error", True, "1 − its best accuracy", is_less_first=True),
        Column("parameters", True),
        Column("change"),
    )
    start = next((operations(each) for each in report.trials if each.parent is None and not each.morphs), None)
    rows = tuple(
        row_of(
            Cell(str(trial.number), trial.number),
            Cell(units.operations(operations(trial)), operations(trial)),
            measured(operations(trial) / start if start else None, "{:.2f} ×".format),
            Cell(phrases.error_of(1 - (trial.accuracy or 0.0), report.run), 1 - (trial.accuracy or 0.0)),
            Cell(units.si(trial.parameters, ""), trial.parameters),
            changes.change(trial),
        )
        for trial in (by_number[number] for number in report.front)
    )
    caption = f"Pareto front: {units.count(len(rows))} of {units.count(len(report.trials))} trials"
    footnote = "No cheaper network was as accurate."
    return Table("front", caption, columns, rows, True, footnote)


def trial_table(report: Report) -> Table:
    """Return the table of the best 200 trials, the most accurate first: accuracy, parent, change, cost, time and outcome."""
    ranked = sorted(
        report.trials, key=lambda trial: (-(-1.0 if trial.accuracy is None else trial.accuracy), trial.number)
    )
    shown, sample = ranked[:MOST_TRIALS], phrases.noun(report)
    columns = (
        Column("trial", True),
        Column("accuracy", True, f"best {phrases.measured(report.run)} {phrases.metric(report.run)}"),
        Column("reported", True, "accuracy reported to the search; predicted in the first rounds"),
        Column("round", True),
        Column("parent", True, "trial whose weights were inherited"),
        Column("change"),
        Column(f"FLOP per {sample.one}", True, "forward and backward"),
        Column("parameters", True),
        Column("batch", True, f"{sample.many} per accelerator and step"),
        Column("epochs", True),
        Column("time", True),
        Column("outcome"),
    )
    left_out = len(report.trials) - len(shown)
    footnote = (
        f"The best {len(shown)} of {units.count(len(report.trials))}; the others are in report.json."
        if left_out
        else ""
    )
    caption = f"Trials, best first ({units.count(len(report.trials))})"
    by_number = {trial.number: trial for trial in report.trials}
    return Table("trials", caption, columns, tuple(_trial(trial, by_number) for trial in shown), True, footnote)


def _trial(trial: TrialFacts, trials: Mapping[int, TrialFacts]) -> tuple[Cell, ...]:
    outcome = phrases.outcome(trial.outcome)
    outcome += "" if trial.attempts < 2 else f", attempt {trial.attempts}"
    lineage = tuple(changes.lineage(trial, trials))
    change = changes.change(trial)
    accuracy = partial(units.share, decimals=2)
    is_complete = len(lineage) == 1 and lineage[0].endswith(f": {change}")
    return row_of(
        Cell(str(trial.number), trial.number),
        measured(trial.accuracy, accuracy),
        measured(trial.reported_accuracy, accuracy),
        Cell(str(trial.round), trial.round),
        Cell("start", -1.0) if trial.parent is None else Cell(str(trial.parent), trial.parent),
        Cell(change, unfolds=() if is_complete else lineage),
        Cell(units.operations(operations(trial)), operations(trial)),
        Cell(units.si(trial.parameters, ""), trial.parameters),
        Cell(str(trial.batch_size), trial.batch_size),
        Cell(str(trial.epochs), trial.epochs),
        Cell(units.duration(trial.seconds), trial.seconds),
        outcome if trial.reason is None else f"{outcome}: {trial.reason}",
    )
