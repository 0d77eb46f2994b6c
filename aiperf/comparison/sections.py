"""Report sections about two runs: the difference of their scores, and the trials of a following run."""

from __future__ import annotations

from pathlib import Path

from aiperf import units
from aiperf.comparison.compare import Comparison, compare
from aiperf.comparison.compared_runs import in_words, side, side_of
from aiperf.comparison.figures import Compared, by_name
from aiperf.comparison.followed import FollowedComparison, TrialPair, followed
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.report.section import Paragraph, Part, Section
from aiperf.report.tables import Cell, Column, Table
from aiperf.statistics.shares import MEANINGS, ScoreDifference
from aiperf.statistics.work_mix import Pairs

MOST_PAIRS = 200
"""Largest number of pairs in the page's table. report.json has all pairs."""


def against(report: Report, other: str) -> Section:
    """Return the section about the difference of this run's score from another run's.

    Raises:
        NoSuchRun: `other` names no run.
        CannotCompare: One of the two has no score, or they have different benchmarks.
    """
    found = compare(side([other]), side_of(report))
    return Section("against", "Against another run", _against(found), facts=found)


def following(report: Report, folder: Path) -> Section | None:
    """Return the section about the followed run. None if this run follows none. `folder`: folder of this run."""
    found = followed(report, folder)
    if found is None:
        return None
    return Section("followed", "Comparison with the run that it follows", _followed(found, report), facts=found)


def _against(found: Comparison) -> tuple[Part | None, ...]:
    introduction = (
        f"Differences of this run (B) from “{found.first[0]}” (A). The difference of the scores is tested with an assumed "
        "spread between runs, given in a warning below. Tests of other figures need repeats."
    )
    differing = in_words(found.differing) if found.differing else "nothing in configuration, system and versions"
    everything = f"Different between the two: {differing}. All differences: report.json, or `python -m aiperf compare`."
    return (
        Paragraph(introduction),
        _figures(found),
        None if found.made_of is None else _made_of(found.made_of),
        None if found.pairs is None else Paragraph(_speed(found.pairs, "this run", "the other")),
        _losses(found) if found.losses else None,
        Paragraph(everything, "footnote"),
        *(Paragraph(f"Warning: {each.text}. To do: {each.remedy}.", "footnote") for each in found.warnings),
    )


def _figures(found: Comparison) -> Table:
    columns = (
        Column("figure"), Column("A", True), Column("B", True), Column("B against A", True), Column("95 %", True),
        Column("real"),
    )  # fmt: skip
    return Table("against", "Figures of both runs", columns, tuple(map(_figure, found.figures)))


def _figure(each: Compared) -> tuple[Cell, ...]:
    values = ["none" if of.value is None else by_name(each.name).shown(of.value) for of in (each.first, each.second)]
    if each.change is None:
        return (Cell(each.name), *map(Cell, values), Cell("—"), Cell("—"), Cell("—"))
    between = "not tested" if each.change.interval is None else units.change_interval(*each.change.interval)
    real = {None: "not tested", True: "yes", False: "no"}[each.change.is_real]
    return Cell(each.name), *map(Cell, values), Cell(units.change(each.change.relative)), Cell(between), Cell(real)


def _made_of(found: ScoreDifference) -> Table:
    columns = (
        Column("part"),
        Column("FLOPS", True, "part of B’s score minus A’s score"),
        Column("ln(B÷A)", True, "the sum of the parts is ln(B÷A) of the scores"),
        Column("± 95 %", True, "uncertainty of the speeds estimated from trials"),
        Column("meaning"),
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
    shared = f"pairs of network and batch size that both trained: {cells}, {part} of the time"
    way = f"from {shared}" if found.is_direct else f"from the cost of steps of different networks ({shared})"
    footnote = f"The part of the machine is estimated {way}. docs/statistics.md defines each part."
    return Table("made-of", "Parts of the difference of the scores", columns, tuple(rows), footnote=footnote)


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
    trials = f"{units.count(found.pairs)} trial{'' if found.pairs == 1 else 's'} with the same network, batch and work"
    left_out = f"; {units.count(found.left_out)} left out because their work differs" if found.left_out else ""
    return f"Pair by pair, over {trials}: speed of {this} against {other} {units.change(found.relative)}{between}{left_out}."


def _followed(found: FollowedComparison, report: Report) -> tuple[Part, ...]:
    if found.why_not is not None:
        return (Paragraph(f"No pairs of trials with “{found.run}”: {found.why_not}.", "empty"),)
    if found.pairs is None:
        speed = "No pair of trials has equal work inside both windows."
    else:
        speed = _speed(found.pairs, "this run", f"“{found.run}”")
    return Paragraph(speed), _pairs(found, report)


def _pairs(found: FollowedComparison, report: Report) -> Table:
    columns = (
        Column("trial", True),
        Column("follows", True, "trial of the followed run"),
        Column("speed here", True, "operations per busy accelerator-second inside the window"),
        Column("speed there", True),
        Column("here against there", True),
        Column("accuracy here", True, f"best {phrases.measured(report.run)} top-1"),
        Column("accuracy there", True),
        Column("work"),
    )
    rows = tuple(map(_pair, found.trials[:MOST_PAIRS]))
    left_out = len(found.trials) - len(rows)
    footnote = (
        "The mean does not include pairs whose work differs by more than 1 %, because the edge of a window cut a trial."
    )
    footnote += f" {units.count(left_out)} more pairs are in report.json." if left_out else ""
    caption = f"Trials of this run and of {found.run!r}, pair by pair ({units.count(len(found.trials))})"
    return Table("pairs", caption, columns, rows, True, footnote)


def _pair(each: TrialPair) -> tuple[Cell, ...]:
    def rate(value: float | None) -> Cell:
        return Cell("—", -1.0) if value is None else Cell(units.flops_per_second(value), value)

    def accuracy(value: float | None) -> Cell:
        return Cell("—", -1.0) if value is None else Cell(units.share(value, 2), value)

    here, other = each.rate_here, each.rate_there
    step = None if here is None or not other else here / other - 1
    return (
        Cell(str(each.here), each.here),
        Cell(str(each.there), each.there),
        rate(here),
        rate(other),
        Cell("—") if step is None else Cell(units.change(step), step),
        accuracy(each.accuracy_here),
        accuracy(each.accuracy_there),
        Cell("equal" if each.is_equal_work else "different in the windows"),
    )
