"""Sections of a report about two runs: the difference of their scores, and the trials of a run that follows another."""

from __future__ import annotations

from pathlib import Path

from aiperf import units
from aiperf.comparison.compare import Comparison, compare
from aiperf.comparison.figures import FIGURES, Compared
from aiperf.comparison.followed import Followed, TrialPair, followed
from aiperf.comparison.sides import in_words, side, side_of
from aiperf.report import words
from aiperf.report.beside import Beside
from aiperf.report.document import table, text
from aiperf.report.facts import Report
from aiperf.report.tables import Cell, Column, Table
from aiperf.statistics.pairs import Pairs
from aiperf.statistics.shares import MEANINGS, ScoreDifference

MOST_PAIRS = 200
"""Pairs of trials in the page's table; all of them are in report.json."""
SHOWN = {figure.name: figure.shown for figure in FIGURES}


def against(report: Report, other: str) -> Beside:
    """The section on what makes this run's score another than that of the run that a word names.

    Raises:
        NoSuchRun: there is no such run; CannotCompare: one of the two has no score, or they are not of one benchmark.
    """
    found = compare(side([other]), side_of(report))
    return Beside("against", "Against another run", _against(found), found)


def following(report: Report, folder: Path) -> Beside | None:
    """The section on the run that this one follows; `folder`: of this run. None: it follows none."""
    found = followed(report, folder)
    return (
        None if found is None else Beside("followed", "Beside the run that it follows", _followed(found, report), found)
    )


def _against(found: Comparison) -> tuple[str, ...]:
    other = found.first[0]
    told = [
        f"<p>Differences are of this run (B) from “{text(other)}” (A). A figure’s difference is tested where both have an "
        "interval; one run of each side tells how evenly these ran, not what others would give.</p>",
        table(_figures(found)),
    ]
    if found.made_of is not None:
        told.append(table(_made_of(found.made_of)))
    if found.pairs is not None:
        told.append(f"<p>{text(_speed(found.pairs, 'this run', 'the other'))}</p>")
    if found.losses:
        told.append(table(_losses(found)))
    differing = in_words(found.differing) if found.differing else "nothing in configuration, system and versions"
    told.append(f'<p class="footnote">Different between the two: {text(differing)}. All of it: report.json, or '
                f"<code>python -m aiperf compare</code>.</p>")  # fmt: skip
    told += [
        f'<p class="footnote">Warning: {text(each.text)}. To do: {text(each.remedy)}.</p>' for each in found.warnings
    ]
    return tuple(told)


def _figures(found: Comparison) -> Table:
    columns = (
        Column("figure"), Column("A", True), Column("B", True), Column("B against A", True), Column("95 %", True),
        Column("real"),
    )  # fmt: skip
    return Table("against", "Figures of both runs", columns, tuple(map(_figure, found.figures)))


def _figure(each: Compared) -> tuple[Cell, ...]:
    values = ["none" if of.value is None else SHOWN[each.name](of.value) for of in (each.first, each.second)]
    if each.change is None:
        return (Cell(each.name), *map(Cell, values), Cell("—"), Cell("—"), Cell("—"))
    between = "not tested" if each.change.interval is None else units.change_interval(*each.change.interval)
    real = {None: "not tested", True: "yes", False: "no"}[each.change.is_real]
    return Cell(each.name), *map(Cell, values), Cell(units.change(each.change.relative)), Cell(between), Cell(real)


def _made_of(found: ScoreDifference) -> Table:
    columns = (
        Column("part"),
        Column("FLOPS", True, "of B’s score less A’s"),
        Column("ln(B÷A)", True, "the parts add up to that of the scores"),
        Column("± 95 %", True, "by how well trials tell speeds"),
        Column("what it is"),
    )
    rows = [
        (
            Cell(part.name),
            Cell(units.signed(part.flops_per_second, "FLOPS"), part.flops_per_second),
            Cell(units.change(part.log_ratio), part.log_ratio),
            Cell("—" if part.error is None else units.share(part.error, 2)),
            Cell(MEANINGS[part.name]),
        )
        for part in found.parts
    ]
    rows.append(
        (
            Cell("sum"),
            Cell(units.signed(found.flops_per_second, "FLOPS")),
            Cell(units.change(found.log_ratio)),
            Cell(""),
            Cell("the difference of the two scores"),
        )
    )
    cells, part = units.count(found.shared_cells), units.share(found.shared_part)
    shared = f"networks at a batch that both trained: {cells}, {part} of the time"
    way = f"from {shared}" if found.is_direct else f"from what steps of unlike networks hold ({shared})"
    footnote = f"The part of the machine is told {way}. docs/statistics.md says how each part is made."
    return Table("made-of", "What the difference of the scores is made of", columns, tuple(rows), footnote=footnote)


def _losses(found: Comparison) -> Table:
    columns = (
        Column("lost to"),
        Column("A", True, "of the top"),
        Column("B", True, "of the top"),
        Column("B − A", True),
    )
    rows = tuple(
        (
            Cell(each.name),
            Cell(units.share(each.first, 2)),
            Cell(units.share(each.second, 2)),
            Cell(units.change(each.second - each.first), each.second - each.first),
        )
        for each in found.losses
    )
    return Table("against-losses", "Parts of the loss waterfall that changed", columns, rows, True)


def _speed(found: Pairs, this: str, other: str) -> str:
    between = "" if found.interval is None else f" (95 %: {units.change_interval(*found.interval)})"
    trials = f"{units.count(found.pairs)} trial{'' if found.pairs == 1 else 's'} of the same network, batch and work"
    left_out = f"; {units.count(found.left_out)} more did unlike much in their windows" if found.left_out else ""
    return f"Pair by pair, over {trials}: speed of {this} against {other} {units.change(found.relative)}{between}{left_out}."


def _followed(found: Followed, report: Report) -> tuple[str, ...]:
    if found.why_not is not None:
        return (f'<p class="empty">No pairs of trials with “{text(found.run)}”: {text(found.why_not)}.</p>',)
    speed = "No pair of trials did equal work inside both windows." if found.pairs is None else ""
    if found.pairs is not None:
        speed = _speed(found.pairs, "this run", f"“{found.run}”")
    return f"<p>{text(speed)}</p>", table(_pairs(found, report))


def _pairs(found: Followed, report: Report) -> Table:
    columns = (
        Column("trial", True),
        Column("follows", True, "its like in the followed run"),
        Column("speed here", True, "operations in a busy second of an accelerator, inside the window"),
        Column("speed there", True),
        Column("here against there", True),
        Column("accuracy here", True, f"best {words.measured(report.run)} top-1"),
        Column("accuracy there", True),
        Column("work"),
    )
    rows = tuple(map(_pair, found.trials[:MOST_PAIRS]))
    left_out = len(found.trials) - len(rows)
    footnote = (
        "Pairs whose work in the windows differs by more than a hundredth are in no mean: an edge of a window cut them."
    )
    footnote += f" {units.count(left_out)} more pairs are in report.json." if left_out else ""
    caption = f"Trials of this run and of {found.run!r}, pair by pair ({units.count(len(found.trials))})"
    return Table("pairs", caption, columns, rows, True, footnote)


def _pair(each: TrialPair) -> tuple[Cell, ...]:
    def rate(value: float | None) -> Cell:
        return Cell("—", -1.0) if value is None else Cell(units.flops_per_second(value), value)

    def accuracy(value: float | None) -> Cell:
        return Cell("—", -1.0) if value is None else Cell(units.share(value, 2), value)

    here, there = each.rate_here, each.rate_there
    step = None if here is None or not there else here / there - 1
    return (
        Cell(str(each.here), each.here),
        Cell(str(each.there), each.there),
        rate(here),
        rate(there),
        Cell("—") if step is None else Cell(units.change(step), step),
        accuracy(each.accuracy_here),
        accuracy(each.accuracy_there),
        Cell("equal" if each.is_equal_work else "unlike in the windows"),
    )
