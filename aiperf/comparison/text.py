"""Comparison as text of 80 columns: differences, results with tests, parts of the difference, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiperf import units
from aiperf.comparison.comparability import RunDifference
from aiperf.comparison.compare import Compared, Comparison, RegressionGate, Repeats, SideFigure
from aiperf.page.terminal import columns, cut, warning_lines, wrapped
from aiperf.report.facts import Report
from aiperf.report.figures import Figure, by_name
from aiperf.sanitize import sanitize
from aiperf.statistics.between_runs import ENOUGH
from aiperf.statistics.difference import RelativeChange
from aiperf.statistics.work_mix import FACTORS, Pairs

MOST_LOSSES = 5
MOST_RUNS = 1000
"""Largest suggested number of runs."""
SMALLEST_LOSS = 0.0005
"""Smallest printed change as a share of the top. --json has all changes."""
REPEATS_WIDTHS = (16, -12, -26, -9, -17)
"""Widths of the columns of equal runs, 80 in all. '1 min 50 s to 2 min 43 s' must fit."""


def comparison_lines(found: Comparison) -> tuple[str, ...]:
    """Return the comparison of two sides as lines of text for a terminal: differences, results, losses, warnings, verdict."""
    return tuple(sanitize(line) for line in _comparison(found))


def repeats_lines(found: Repeats) -> tuple[str, ...]:
    """Return mean and spread of equal runs as lines of text for a terminal, with warnings."""
    return tuple(sanitize(line) for line in _repeats(found))


def _comparison(found: Comparison) -> Iterator[str]:
    yield from _names("A", found.first)
    yield from _names("B", found.second)
    yield ""
    yield from _differing(found.differing)
    yield columns(("", 16), ("A", -13), ("B", -13), ("B against A (95 %; * significant)", -38))
    for each in found.figures:
        yield from _figure(each)
    if found.factors:
        yield ""
        yield "factors of the score, B against A"
        for factor in found.factors:
            yield f"{columns((f'  {factor.name}', 20), (units.change(factor.change), -12))}  {FACTORS[factor.name]}"
    if found.pairs is not None:
        yield ""
        yield from _pairs(found.pairs)
    shown = [each for each in found.losses if abs(each.second - each.first) >= SMALLEST_LOSS][:MOST_LOSSES]
    if shown:
        yield ""
        yield columns(("losses, of the top", 20), ("A", -15), ("B", -15), ("B − A", -12))
        for loss in shown:
            before, after = units.share(loss.first, 2), units.share(loss.second, 2)
            step = units.change(loss.second - loss.first)
            yield columns((f"  {loss.name}", 20), (before, -15), (after, -15), (step, -12))
    yield ""
    yield from warning_lines(found.warnings)
    if found.gate is not None:
        yield from _gate(found.gate)


def _repeats(found: Repeats) -> Iterator[str]:
    yield from _names(f"{len(found.runs)} runs", found.runs)
    yield ""
    titles = ("", "mean", "95 % of the mean", "CV", "95 % of the CV")
    yield columns(*zip(titles, REPEATS_WIDTHS, strict=True))
    for name, of_runs in found.figures:
        yield _of_repeats(by_name(name), of_runs, len(found.runs))
    if found.precisions:
        yield ""
        needed = [f"{_runs(each.more_runs)} for ± {units.share(each.share)}" for each in found.precisions]
        yield from wrapped("", f"further runs needed for a 95 % interval of the mean score: {', '.join(needed)}")
    if found.warnings:
        yield ""
    yield from warning_lines(found.warnings)


def _names(side: str, names: Sequence[str]) -> Iterator[str]:
    yield from wrapped(f"{side}  ", ", ".join(names))


def _differing(differing: Sequence[RunDifference]) -> Iterator[str]:
    if not differing:
        yield "configuration, system and versions: equal"
        yield ""
    kind = ""
    for each in differing:
        if each.kind != kind:
            kind = each.kind
            yield f"different {kind}"
        line = f"  {cut(each.name, 34):34}  {cut(each.first, 20):20}  {cut(each.second, 20)}"
        yield line.rstrip()
    if differing:
        yield ""


def _figure(each: Compared) -> Iterator[str]:
    shown = by_name(each.name).shown
    values = ["none" if of.value is None else shown(of.value) for of in (each.first, each.second)]
    yield columns((each.title, 16), (values[0], -13), (values[1], -13), (_change(each), -38))


def _change(each: Compared) -> str:
    if each.change is None:
        return ""
    return f"{units.change(each.change.relative)} {_range(each.change)}"


def _range(found: RelativeChange) -> str:
    if found.interval is None:
        return "(not tested)"
    low, high = found.interval
    return f"({units.change_interval(low, high)}){'*' if found.is_real else ' '}"


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _pairs(found: Pairs) -> Iterator[str]:
    between = ""
    if found.interval is not None:
        low, high = found.interval
        between = f" (95 %: {units.change_interval(low, high)})"
    left_out = f"; {found.left_out} left out because their work differs" if found.left_out else ""
    trials = f"{found.pairs} trial{'' if found.pairs == 1 else 's'}"
    speed = f"{trials} with the same network, batch and work; speed of B against A {units.change(found.relative)}"
    yield from wrapped("pair by pair: ", speed + between + left_out)


def _runs(more: int) -> str:
    return str(more) if more <= MOST_RUNS else f"over {MOST_RUNS}"


def _of_repeats(figure: Figure[Report], found: SideFigure, runs: int) -> str:
    if found.value is None:
        return columns(*zip((figure.title, "none"), REPEATS_WIDTHS, strict=False))
    between = ""
    if found.estimate is not None and found.estimate.basis == "repeats" and runs < ENOUGH:
        between = f"needs {ENOUGH} runs"  # with two runs: ± 13 standard errors
    elif found.estimate is not None:
        low, high = found.estimate.interval
        between = figure.between(max(0.0, low), high)  # figures are not negative
    line = [figure.title, figure.shown(found.value), _minus(between)]
    if found.spread is not None:
        of_cv = found.spread.variation_interval
        around = "" if of_cv is None else f"{100 * of_cv[0]:.2f} to {100 * of_cv[1]:.2f} %"
        line += [f"{100 * found.spread.variation:.2f} %", around]
    return columns(*zip(line, REPEATS_WIDTHS, strict=False))


def _gate(gate: RegressionGate) -> Iterator[str]:
    margin = units.share(gate.largest_regression)
    yield from wrapped(f"{gate.verdict}: ", f"{gate.figure} against a largest regression of {margin}; {gate.why}")
