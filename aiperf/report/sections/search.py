"""Sections of the report on the search: accuracy against operations, tree of networks, best network, trials."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from aiperf import units
from aiperf.page.section import Cell, Column, DrawnFigure, Paragraph, Section, Steps, Table, numbers, table, texts
from aiperf.report import changes, phrases
from aiperf.report.architecture import graph_of
from aiperf.report.facts import Report, TrialFacts
from aiperf.report.plots.search import accuracy_against_operations, tree_of_architectures
from aiperf.report.trial_facts import operations
from morphism.draw import svg

MOST_TRIALS = 200
"""Number of trials in the page's table, best first. report.json has all of them."""


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
        texts("change", map(changes.change, shown)),
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
    accuracy, best = (
        partial(units.share, decimals=2),
        f"best {phrases.measured(report.run)} {phrases.metric(report.run)}",
    )
    predicted = "accuracy reported to the search; predicted in the first rounds"
    per, work = f"FLOP per {sample.one}", [operations(each) for each in shown]
    columns = (
        numbers("trial", [each.number for each in shown], str),
        numbers("accuracy", [each.accuracy for each in shown], accuracy, best),
        numbers("reported", [each.reported_accuracy for each in shown], accuracy, predicted),
        numbers("round", [each.round for each in shown], str),
        (Column("parent", True, "trial whose weights were inherited"), tuple(map(_parent, shown))),
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
    lineage, change = tuple(changes.lineage(trial, trials)), changes.change(trial)
    is_complete = len(lineage) == 1 and lineage[0].endswith(f": {change}")
    return Cell(change, unfolds=() if is_complete else lineage)


def _outcome(trial: TrialFacts) -> str:
    outcome = phrases.outcome(trial.outcome) + ("" if trial.attempts < 2 else f", attempt {trial.attempts}")
    return outcome if trial.reason is None else f"{outcome}: {trial.reason}"
