"""Comparison in a terminal of 80 columns: differences, figures with tests, parts of the difference, and the verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from aiperf import units
from aiperf.comparison.comparability import RunDifference
from aiperf.comparison.compare import Comparison, RegressionGate, Repeats
from aiperf.comparison.figures import Compared, Figure, SideFigure, by_name
from aiperf.run_warning import RunWarning
from aiperf.sanitize import sanitize
from aiperf.statistics.between_runs import ENOUGH
from aiperf.statistics.difference import RelativeChange
from aiperf.statistics.shares import ScoreDifference, SharesOfSpread
from aiperf.statistics.work_mix import Pairs

WIDTH = 80
MOST_LOSSES = 5
MOST_RUNS = 1000
"""Largest suggested number of runs."""
SMALLEST_LOSS = 0.0005
"""Smallest printed change as a share of the top. --json has all changes."""


def comparison_lines(found: Comparison) -> tuple[str, ...]:
    """Return the lines of a comparison of two sides."""
    return tuple(sanitize(line) for line in _comparison(found))


def repeats_lines(found: Repeats) -> tuple[str, ...]:
    """Return the lines of a comparison of equal runs."""
    return tuple(sanitize(line) for line in _repeats(found))


def _comparison(found: Comparison) -> Iterator[str]:
    yield from _names("A", found.first)
    yield from _names("B", found.second)
    yield ""
    yield from _differing(found.differing)
    yield _columns(("", 16), ("A", -13), ("B", -13), ("B against A (95 %; * significant)", -38))
    for each in found.figures:
        yield from _figure(each)
    if found.made_of is not None:
        yield ""
        yield from _made_of(found.made_of)
    if found.pairs is not None:
        yield ""
        yield from _pairs(found.pairs)
    shown = [each for each in found.losses if abs(each.second - each.first) >= SMALLEST_LOSS][:MOST_LOSSES]
    if shown:
        yield ""
        yield _columns(("losses, of the top", 20), ("A", -15), ("B", -15), ("B − A", -12))
        for loss in shown:
            before, after = units.share(loss.first, 2), units.share(loss.second, 2)
            step = units.change(loss.second - loss.first)
            yield _columns((f"  {loss.name}", 20), (before, -15), (after, -15), (step, -12))
    yield ""
    yield from _warnings(found.warnings)
    if found.gate is not None:
        yield from _gate(found.gate)


def _repeats(found: Repeats) -> Iterator[str]:
    yield from _names(f"{len(found.runs)} runs", found.runs)
    yield ""
    yield _columns(("", 16), ("mean", -14), ("95 % of the mean", -23), ("CV", -9), ("95 % of the CV", -18))
    for name, of_runs in found.figures:
        yield _of_repeats(by_name(name), of_runs, len(found.runs))
    if found.precisions:
        yield ""
        needed = [f"{_runs(each.more_runs)} for ± {units.share(each.share)}" for each in found.precisions]
        yield from _wrapped("", f"further runs needed for a 95 % interval of the mean score: {', '.join(needed)}")
    if found.made_of is not None:
        yield ""
        yield from _shares(found.made_of)
    if found.warnings:
        yield ""
    yield from _warnings(found.warnings)


def _warnings(warnings: Sequence[RunWarning]) -> Iterator[str]:
    for warning in warnings:
        yield from _wrapped(f"{warning.severity}: ", warning.text)
        yield from _wrapped("  to do: ", warning.remedy)


def _names(side: str, names: Sequence[str]) -> Iterator[str]:
    yield from _wrapped(f"{side}  ", ", ".join(names))


def _differing(differing: Sequence[RunDifference]) -> Iterator[str]:
    if not differing:
        yield "configuration, system and versions: equal"
        yield ""
    kind = ""
    for each in differing:
        if each.kind != kind:
            kind = each.kind
            yield f"different {kind}"
        line = f"  {_cut(each.name, 34):34}  {_cut(each.first, 20):20}  {_cut(each.second, 20)}"
        yield line.rstrip()
    if differing:
        yield ""


def _figure(each: Compared) -> Iterator[str]:
    shown = by_name(each.name).shown
    values = ["none" if of.value is None else shown(of.value) for of in (each.first, each.second)]
    yield _columns((each.name, 16), (values[0], -13), (values[1], -13), (_change(each), -38))


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


def _made_of(found: ScoreDifference) -> Iterator[str]:
    divisor, unit = units.scale(max(abs(part.flops_per_second) for part in found.parts), "FLOPS")

    def amount(value: float) -> str:
        return _minus(f"{value / divisor:+.2f} {unit}")

    yield _columns(("parts of B − A", 20), (amount(found.flops_per_second), -18), ("ln(B÷A)", -12), ("± 95 %", -10))
    for part in found.parts:
        error = "" if part.error is None else f"{100 * part.error:.2f} %"
        name, logarithm = f"  {part.name}", units.change(part.log_ratio)
        yield _columns((name, 20), (amount(part.flops_per_second), -18), (logarithm, -12), (error, -10))
    yield _columns(("  sum", 20), ("", -18), (units.change(found.log_ratio), -12))
    yield from _how(found)


def _pairs(found: Pairs) -> Iterator[str]:
    between = ""
    if found.interval is not None:
        low, high = found.interval
        between = f" (95 %: {units.change_interval(low, high)})"
    left_out = f"; {found.left_out} left out because their work differs" if found.left_out else ""
    trials = f"{found.pairs} trial{'' if found.pairs == 1 else 's'}"
    speed = f"{trials} with the same network, batch and work; speed of B against A {units.change(found.relative)}"
    yield from _wrapped("pair by pair: ", speed + between + left_out)


def _how(found: ScoreDifference | SharesOfSpread) -> Iterator[str]:
    part = units.share(found.shared_part)
    cells = f"{found.shared_cells} networks were trained at one batch in several runs ({part} of the time)"
    basis = cells if found.is_direct else f"estimated from the cost of steps of different networks; {cells}"
    yield from _wrapped("  ", f"machine: {basis}")


def _runs(more: int) -> str:
    return str(more) if more <= MOST_RUNS else f"over {MOST_RUNS}"


def _shares(found: SharesOfSpread) -> Iterator[str]:
    yield _columns(("parts of the spread", 20), ("share", -15), ("± 95 %", -12), ("CV, it alone", -15))
    for part in found.parts:
        error = "" if part.error is None else f"{100 * part.error:.1f} %"
        shown, alone = _minus(f"{100 * part.share:.1f} %"), f"{100 * part.deviation:.2f} %"
        yield _columns((f"  {part.name}", 20), (shown, -15), (error, -12), (alone, -15))
    yield f"  search's {_minus(f'{100 * found.of_search:.1f}')} %, machine's {_minus(f'{100 * found.of_machine:.1f}')} %"
    yield from _how(found)


def _of_repeats(figure: Figure, found: SideFigure, runs: int) -> str:
    if found.value is None:
        return _columns((figure.name, 16), ("none", -14))
    between = ""
    if found.estimate is not None and found.estimate.basis == "repeats" and runs < ENOUGH:
        between = f"needs {ENOUGH} runs"  # with two runs: ± 13 standard errors
    elif found.estimate is not None:
        low, high = found.estimate.interval
        between = figure.between(max(0.0, low), high)  # figures are not negative
    line = [(figure.name, 16), (figure.shown(found.value), -14), (_minus(between), -23)]
    if found.spread is not None:
        of_cv = found.spread.variation_interval
        around = "" if of_cv is None else f"{100 * of_cv[0]:.2f} to {100 * of_cv[1]:.2f} %"
        line += [(f"{100 * found.spread.variation:.2f} %", -9), (around, -18)]
    return _columns(*line)


def _gate(gate: RegressionGate) -> Iterator[str]:
    margin = units.share(gate.largest_regression)
    yield from _wrapped(f"{gate.verdict}: ", f"{gate.figure} against a largest regression of {margin}; {gate.why}")


def _columns(*cells: tuple[str, int]) -> str:
    """Return texts in columns. A negative width aligns to the right."""
    return "".join(f"{text:{width}}" if width > 0 else f"{text:>{-width}}" for text, width in cells).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _wrapped(head: str, text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    ) or [head.rstrip()]
