"""Comparisons as tables and texts: differences, results with tests, parts of the difference, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from aiperf import units
from aiperf.comparison.comparability import RunDifference
from aiperf.comparison.compare import Compared, Comparison, LossChange, Repeats, SideFigure
from aiperf.page.section import Column, Group, Items, Paragraph, Part, Table, numbers, row_of, rows, table, texts
from aiperf.report.figures import by_name, half_width
from aiperf.statistics.difference import ENOUGH, RelativeChange
from aiperf.statistics.machine_ratio import MachineRatio
from aiperf.statistics.work_mix import FACTORS, Pairs

MOST_LOSSES = 5
MOST_RUNS = 1000
"""Largest suggested number of runs."""
SMALLEST_LOSS = 0.0005
"""Smallest printed change as a share of the top. --json has all changes."""


def comparison(compared: Comparison) -> tuple[Part | None, ...]:
    """Return the comparison of two sides: differences, results, losses, warnings, verdict."""
    lost = [each for each in compared.losses if abs(each.second - each.first) >= SMALLEST_LOSS][:MOST_LOSSES]
    gate = None
    if compared.gate is not None:
        margin = units.share(compared.gate.largest_regression)
        against = f"{compared.gate.figure} against a largest regression of {margin}"
        gate = Paragraph(f"{compared.gate.verdict}: {against}; {compared.gate.why}")
    return (
        Items((f"A  {', '.join(compared.first)}", f"B  {', '.join(compared.second)}")),
        _differing(compared.differing),
        _figures(compared.figures),
        Items(tuple(filter(None, map(_sampled, compared.figures)))),
        _factors(compared) if compared.factors else None,
        None if compared.pairs is None else _pairs(compared.pairs),
        None if compared.machines is None else _machines(compared.machines),
        _losses(lost) if lost else None,
        Items(compared.warnings),
        gate,
    )


def repeats(group: Repeats) -> tuple[Part | None, ...]:
    """Return mean and spread of equal runs, with warnings."""
    return (
        Paragraph(f"{len(group.runs)} runs  {', '.join(group.runs)}"),
        _spreads(group),
        _needed(group) if group.precisions else None,
        Items(group.warnings),
    )


def _differing(differing: Sequence[RunDifference]) -> Group | Paragraph:
    if not differing:
        return Paragraph("configuration, system and versions: equal")
    heads = (Column("", longest=34), Column("", longest=20), Column("", longest=20))
    kinds = groupby(differing, lambda each: each.kind)
    tables = (
        rows("", f"different {kind}", heads, [(each.name, each.first, each.second) for each in of_kind])
        for kind, of_kind in kinds
    )
    return Group(tuple(tables))


def _figures(figures: Sequence[Compared]) -> Table:
    columns = (
        texts("", [each.title for each in figures]),
        (Column("A", True), row_of(*(_value(each.name, each.first) for each in figures))),
        (Column("B", True), row_of(*(_value(each.name, each.second) for each in figures))),
        (Column("B against A (95 %; * significant)", True), row_of(*(_change(each.change) for each in figures))),
    )
    return table("figures", "", columns)


def _sampled(figure: Compared) -> str:
    sides = {"A": figure.first, "B": figure.second}
    halves = [f"{side} {half_width(of.value, of.sampled)}" for side, of in sides.items() if of.sampled is not None]
    return f"{figure.title}, sampling alone: {', '.join(halves)} (95 %)" if halves else ""


def _value(figure: str, side: SideFigure) -> str:
    return "none" if side.value is None else by_name(figure).shown(side.value)


def _change(change: RelativeChange | None) -> str:
    if change is None:
        return ""
    if change.interval is None:
        return f"{units.change(change.relative)} (not tested)"
    return (
        f"{units.change(change.relative)} ({units.change_interval(*change.interval)}){'*' if change.is_real else ' '}"
    )


def _factors(compared: Comparison) -> Table:
    names = [each.name for each in compared.factors]
    changes = numbers("", [each.change for each in compared.factors], units.change)
    return table(
        "factors",
        "factors of the score, B against A",
        (texts("", names), changes, texts("", map(FACTORS.__getitem__, names))),
    )


def _losses(lost: Sequence[LossChange]) -> Table:
    columns = (
        texts("losses, of the top", [each.name for each in lost]),
        numbers("A", [each.first for each in lost], lambda part: units.share(part, 2)),
        numbers("B", [each.second for each in lost], lambda part: units.share(part, 2)),
        numbers("B − A", [each.second - each.first for each in lost], units.change),
    )
    return table("losses", "", columns)


def _pairs(pairs: Pairs) -> Paragraph:
    between = "" if pairs.interval is None else f" (95 %: {units.change_interval(*pairs.interval)})"
    left_out = f"; {pairs.left_out} left out because their work differs" if pairs.left_out else ""
    trials = units.counted(pairs.pairs, "trial")
    speed = f"{trials} with the same network, batch and work; speed of B against A {units.change(pairs.relative)}"
    return Paragraph(f"pair by pair: {speed}{between}{left_out}")


def _machines(found: MachineRatio) -> Paragraph:
    low, high = found.interval or (None, None)
    between = " (no interval: too few trials)" if low is None else f" (95 %: {low:.3f} to {high:.3f})"
    of = f"{found.trials} trials of their list in {found.blocks} blocks"
    return Paragraph(f"machine B ÷ machine A: speed {found.ratio:.3f}{between}, {of}")


def _needed(group: Repeats) -> Paragraph:
    more = (
        (each, str(each.more_runs) if each.more_runs <= MOST_RUNS else f"over {MOST_RUNS}") for each in group.precisions
    )
    needed = ", ".join(f"{runs} for ± {units.share(each.share)}" for each, runs in more)
    of_score = group.figures[0][1].spread
    assert of_score is not None, "there are no precisions without a spread"
    first = f"s = {by_name('score').shown(of_score.deviation)} of these {len(group.runs)} runs"
    return Paragraph(f"further runs needed for a 95 % interval of the mean score with {first}: {needed}")


def _spreads(group: Repeats) -> Table:
    cells = [
        (by_name(name).title, _value(name, side), _mean(name, side, len(group.runs)), *_variation(side))
        for name, side in group.figures
    ]
    return rows("repeats", "", ("", ">mean", ">95 % of the mean", ">CV", ">95 % of the CV"), cells)


def _mean(figure: str, side: SideFigure, runs: int) -> str:
    if side.value is None or side.estimate is None:
        return ""
    if side.estimate.basis == "repeats" and runs < ENOUGH:
        return f"needs {ENOUGH} runs"  # with two runs: ± 13 standard errors
    low, high = side.estimate.interval
    return by_name(figure).between(max(0.0, low), high).replace("-", "−")  # figures are not negative


def _variation(side: SideFigure) -> tuple[str, str]:
    if side.value is None or side.spread is None:
        return "", ""
    of_cv = side.spread.variation_interval
    around = "" if of_cv is None else f"{100 * of_cv[0]:.2f} to {100 * of_cv[1]:.2f} %"
    return f"{100 * side.spread.variation:.2f} %", around
