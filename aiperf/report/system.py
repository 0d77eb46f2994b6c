"""The system that a run was on, for page and terminal: what differs between its nodes, the form, and each kind of node."""

from __future__ import annotations

from collections.abc import Iterator

from aiperf import units
from aiperf.report import words
from aiperf.report.facts import Report
from aiperf.report.tables import Cell, Column, Table
from aiperf.run_warning import RunWarning
from aiperf.system.description.differences import MOST_NAMED, in_words
from aiperf.system.description.of_run import Kind, SystemDescription

MOST_KINDS = 4
MOST_ROWS = 200
"""Rows of differences on the page."""


def system_warnings(system: SystemDescription) -> list[RunWarning]:
    """Which nodes differ from most, a form that was begun and is not finished, and nodes that were not described."""
    alike = (
        "have all nodes set up alike, or leave those that differ out; which they are stands in the report under System"
    )
    found = [RunWarning(text, "note", alike) for text in in_words(system.differences, system.nodes)]
    if any(value is not None for value in system.form.values()) and system.unfinished:
        text = f"the system's form is not finished (system.*): {', '.join(system.unfinished)}"
        found.append(
            RunWarning(text, "note", "fill in what is named, best in a file: system.file=FILE (docs/system.md)")
        )
    if system.not_described and system.kinds:
        names = ", ".join(node for node, _ in system.not_described[:MOST_NAMED])
        text = f"{len(system.not_described)} nodes were not described: {names}"
        found.append(RunWarning(text, "note", "see on these nodes what keeps them from it: python -m aiperf preflight"))
    return found


def tables(report: Report) -> Iterator[Table]:
    """What differs, the form, and one table for each kind of node."""
    system = report.system
    if system.differences:
        yield _differences(system)
    if any(value is not None for value in system.form.values()):
        yield _form(system)
    for index, kind in enumerate(system.kinds[:MOST_KINDS], 1):
        yield _kind(kind, index, system)


def _differences(system: SystemDescription) -> Table:
    rows = tuple(
        (
            Cell(words.part(each.part)),
            Cell(each.usual),
            Cell(value),
            Cell(units.count(len(nodes)), len(nodes)),
            Cell(_named(nodes)),
        )
        for each in system.differences
        for value, nodes in each.others
    )
    columns = (Column("part"), Column("most nodes"), Column("others"), Column("nodes", True), Column("which"))
    footnote = f"{units.count(len(rows) - MOST_ROWS)} more are in report.json." if len(rows) > MOST_ROWS else ""
    return Table("differences", "What differs between nodes", columns, rows[:MOST_ROWS], True, footnote)


def _form(system: SystemDescription) -> Table:
    rows = tuple(
        (Cell(words.part(name)), Cell("not filled in" if value is None else str(value)))
        for name, value in system.form.items()
        if name != "file"
    )
    return Table("form", "The system, as its site describes it", (Column("field"), Column("value")), rows)


def _kind(kind: Kind, index: int, system: SystemDescription) -> Table:
    rows = tuple((Cell(words.part(part)), Cell(value)) for part, value in words.flattened(kind.description))
    caption = f"{units.count(len(kind.nodes))} of {units.count(system.nodes)} nodes: {_named(kind.nodes)}"
    left_out = len(system.kinds) - MOST_KINDS
    footnote = f"As read on the node; SHA-256 {kind.hash[:12]}…"
    if index == MOST_KINDS and left_out > 0:
        footnote += f" {left_out} more kinds of nodes are in report.json."
    return Table(f"kind-{index}", caption, (Column("part"), Column("value")), rows, footnote=footnote)


def _named(nodes: tuple[str, ...]) -> str:
    more = f" and {units.count(len(nodes) - MOST_NAMED)} more" if len(nodes) > MOST_NAMED else ""
    return ", ".join(nodes[:MOST_NAMED]) + more
