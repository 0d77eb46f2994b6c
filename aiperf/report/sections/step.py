"""Sections of the report on training steps: a traced step by class of kernels, and the exchange of gradients between ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiperf import units
from aiperf.accounting.step_breakdown import StepBreakdown, StepPart
from aiperf.page.figure import drawing
from aiperf.page.palette import AMBER, AXIS, BLUE, BLUE_PALE, GREEN, IDLE, MUTED, PURPLE, SKY, VERMILION
from aiperf.page.section import Cell, DrawnFigure, Paragraph, Section, Table, rows, share_bar
from aiperf.report import phrases
from aiperf.report.facts import Report
from aiperf.train.tracing.trace_file import PHASES, SOURCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = tuple(each.light for each in (BLUE, BLUE_PALE, GREEN, AMBER, PURPLE, SKY, VERMILION, IDLE, AXIS, MUTED))
"""Colours of the parts, in their order."""
BAR_INCHES = 1.15
LEGEND_COLUMNS = 5


def step(report: Report) -> Section | None:
    """Return the section with the time of traced training steps by class of kernels. None if no step was traced."""
    breakdown = report.step
    if breakdown is None:
        return None
    return Section("step", "A step", (Paragraph(summary(breakdown)), _bars(breakdown, report), *tables(breakdown)))


def summary(breakdown: StepBreakdown) -> str:
    """Return text on the traced steps, their time, the time for tracing, and the bandwidth of the gradient exchange."""
    last = breakdown.first_step + breakdown.steps - 1
    traced = f"Rank 0 of {breakdown.ranks} traced steps {breakdown.first_step} to {last} of trial {breakdown.trial}"
    change = "" if breakdown.slowdown is None else f", {units.change(breakdown.slowdown)} against the steps before"
    cost = f"Starting, stopping and reading the trace took {units.duration(breakdown.profiler_seconds)}."
    text = f"{traced}: {_milliseconds(breakdown.seconds)} per step{change}. {cost}"
    if breakdown.exchange_bytes_per_second:
        sent, rate = units.size(breakdown.exchange_bytes), units.si(breakdown.exchange_bytes_per_second, "B/s")
        text += f" All ranks together send {sent} of gradients per step, {rate} (ranks · bytes · 2(n−1)/n)."
    return text


def tables(breakdown: StepBreakdown) -> tuple[Table, ...]:
    """Return the tables of kernels, of the gradient exchange (only with several ranks), and of numbers lost in 16-bit types."""
    exchange = [exchange_table(breakdown.exchange, breakdown.exchange_source)] if breakdown.ranks > 1 else []
    return kernel_table(breakdown.kernels, breakdown.device), *exchange, _number_table(breakdown)


def kernel_table(parts: Sequence[StepPart], device: str) -> Table:
    place = "the accelerator, without idle time" if device == "cuda" else "the processor"
    footnote = "Not measured: instructions per cycle, utilization of the memory."
    return _part_table("step-kernels", f"Kernels on {place}", parts, [part.name for part in parts], footnote)


def exchange_table(parts: Sequence[StepPart], source: str) -> Table:
    """Return the table of the exchange in a step by phase. With Horovod every phase of the paper's Table 6 has a row."""
    names = list(PHASES) if source == SOURCE else [part.name for part in parts]
    return _part_table(
        "step-exchange", f"Gradient exchange ({source or 'no record'})", parts, names or ["exchange"], ""
    )


def _part_table(name: str, caption: str, parts: Sequence[StepPart], names: Sequence[str], footnote: str) -> Table:
    """Return a table with a row for each name. A part that is missing was not measured."""
    known = {part.name: part for part in parts}
    heads = ("part", ">per step", ">share")
    return rows(name, caption, heads, [_part_cells(each, known.get(each)) for each in names], footnote)


def _part_cells(name: str, part: StepPart | None) -> tuple[Cell | str, ...]:
    if part is None:
        return name, units.NOT_MEASURED, "—"
    return name, Cell(_milliseconds(part.seconds), part.seconds), share_bar(part.share)


def _number_table(breakdown: StepBreakdown) -> Table:
    heads = [f">{name.replace('_', ' ')}" for name in next(iter(breakdown.numbers.values()), {})]
    cells: list[tuple[Cell | str, ...]] = [
        (
            kind.replace("_", " "),
            *(Cell("—" if each is None else units.share(each, 2), each) for each in shares.values()),
        )
        for kind, shares in breakdown.numbers.items()
    ]
    footnote = (
        "Shares of the gradient elements that are not 0 in FP32, without loss scaling. Lost updates: shares of the updates "
        "below half a last place of a BF16 weight."
    )
    return rows("step-numbers", "Numbers that 16-bit types lose", ("layers", *heads), cells, footnote)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3f} ms"


def _bars(breakdown: StepBreakdown, report: Report) -> DrawnFigure:
    name, title = "step", "Parts of a step"
    both = (("kernels", breakdown.kernels), ("exchange", breakdown.exchange))
    bars = [(label, parts) for label, parts in both if any(part.share for part in parts)]
    if not bars:
        return DrawnFigure(name, title, empty="The trace has no kernels.")

    def draw(figure: Figure) -> None:
        axes = figure.subplots(len(bars), 1, squeeze=False)[:, 0]
        for one, (label, parts) in zip(axes, bars, strict=True):
            _stacked(one, label, parts)
        axes[-1].set_xlabel("% of the parts")

    largest = "; ".join(
        f"most of the {label} is {max(parts, key=lambda part: part.share).name}" for label, parts in bars
    )
    caption, height = "Shares of the time of traced steps.", 0.3 + BAR_INCHES * len(bars)
    return drawing(name, title, caption, height, phrases.source(report), draw, largest)


def _stacked(axes: Axes, label: str, parts: Sequence[StepPart]) -> None:
    left = 0.0
    for part, colour in zip(parts, COLOURS, strict=False):
        if part.share:
            axes.barh(0, 100 * part.share, left=left, height=0.6, color=colour, label=part.name)
            left += 100 * part.share
    axes.set_yticks([0], [label])
    axes.set_xlim(0, 100)
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=LEGEND_COLUMNS, borderaxespad=0.2, handlelength=1.0)


def exchange(report: Report) -> Section | None:
    """Time of the gradient exchange and its minimum. None without work of several ranks in the window, or a bandwidth."""
    facts = report.exchange
    if facts is None:
        return None
    exchanged = facts.visible_seconds - facts.waiting_seconds
    times = (
        ("bound of the links", facts.least_seconds, "bytes · 2(n − 1)/n ÷ bus bandwidth, with nothing hidden"),
        ("visible exchange", exchanged, "communication that the backward pass did not hide, up to the bound"),
        (
            "waiting",
            facts.waiting_seconds,
            "visible communication above the bound: the slowest rank, or the network's load",
        ),
    )
    busy = facts.busy_seconds
    cells = [
        (name, Cell(units.duration(each), each), Cell(units.share(each / busy) if busy else "—", each), meaning)
        for name, each, meaning in times
    ]
    heads = ("part", ">time", ">share of the steps", "meaning")
    footnote = (
        f"Workers of {', '.join(map(str, facts.ranks))} ranks exchanged {units.size(facts.exchanged_bytes)} of gradients a "
        f"rank. Bus bandwidth {units.si(facts.bus_bytes_per_second, 'B/s')}, measured at their start with the gradients of "
        f"the starting network. Transport by NCCL: {'; '.join(facts.transports) or 'not shown'}. Times are of the first rank "
        "of each worker. A slow first rank does not wait. Details: docs/scaling.md."
    )
    return Section(
        "exchange", "Exchange of gradients", (rows("exchange", "Exchange", heads, cells, footnote),), "Exchange"
    )
