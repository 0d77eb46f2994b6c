"""HTML page and text of a roofline: a picture with logarithmic axes, tables, and lines of text about measured programs."""

from __future__ import annotations

import importlib.resources
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from aiperf import units
from aiperf.bops import roofline
from aiperf.bops.networks import NetworkRoofline
from aiperf.bops.peak import MachinePeak
from aiperf.bops.result import ProgramResult, SourceCount
from aiperf.bops.roofline import Label, Roof, RooflinePoint, labels
from aiperf.errors import BadConfiguration
from aiperf.page import html, palette
from aiperf.page.figure import drawn
from aiperf.page.section import (
    Cell,
    Column,
    DrawnFigure,
    Paragraph,
    Part,
    Section,
    Table,
    numbers,
    rows,
    share_bar,
    table,
    texts,
)
from aiperf.statistics.difference import change
from aiperf.statistics.estimate import Estimate, of_repeats
from aiperf.units import IMAGE, change_interval, count, duration, operations, share, si, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT_INCHES = 5.2
_COLOURS = (palette.BLUE, palette.VERMILION, palette.GREEN, palette.PURPLE, palette.AMBER)
_CACHED = "served by a cache"
_NAME_SHARE = 0.25
"""Room for names on the right of the last point, as a share of the axis."""
_LEAST_LABEL_GAP = 0.045
"""Smallest distance of two names, as a share of the picture's height."""


Machine = tuple[Roof, ...]
"""Roofs of one machine."""


def picture(
    name: str, points: Sequence[RooflinePoint], machines: Sequence[Machine], unit: str, source: str
) -> tuple[str, bytes, bytes]:
    """Draw the roofline picture and return it as SVG text, PNG bytes and PDF bytes."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        roofs = list(dict.fromkeys(roof for machine in machines for roof in machine))
        low, high = _range([point.intensity for point in points], roofs)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low, high)
        tops = [roof.figure for roof in roofs if not roof.is_memory]
        rates = [point.rate for point in points] + [roof.figure * low for roof in roofs if roof.is_memory]
        axes.set_ylim(min(rates) / 3, max([*tops, *(point.rate for point in points)]) * 3)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: si(value, f"{unit}S"))
        axes.set_xlabel(f"operation intensity ({unit} per byte of memory traffic)")
        axes.set_ylabel(f"{unit}S")
        for machine in machines:
            _draw_roofs(axes, machine, low, high)
        _name_peaks(axes, [roof for roof in roofs if not roof.is_memory], unit, high)
        _draw_points(axes, points)
        _name_points(axes, points, [roof for roof in roofs if roof.is_memory], low)

    return drawn(draw, name, _HEIGHT_INCHES, source)


def _range(intensities: Sequence[float], roofs: Sequence[Roof]) -> tuple[float, float]:
    fastest = max(roof.figure for roof in roofs if roof.is_memory)
    ridges = [roofline.ridge(roof.figure, fastest) for roof in roofs if not roof.is_memory]
    shown = [each for each in (*intensities, *ridges) if each > 0] or [1.0]
    low, high = math.log10(min(shown) / 2), math.log10(max(shown) * 2)
    return 10 ** math.floor(low), 10 ** (high + _NAME_SHARE * (high - math.floor(low)))


def _draw_roofs(axes: Axes, machine: Machine, low: float, high: float) -> None:
    top = max((roof.figure for roof in machine if not roof.is_memory), default=math.inf)
    bandwidth = max((roof.figure for roof in machine if roof.is_memory), default=math.inf)
    for roof in machine:
        if roof.is_memory:
            end = min(high, top / roof.figure)
            axes.plot([low, end], [low * roof.figure, end * roof.figure], color=palette.INK.light, linewidth=1.6)
        else:
            style = "-" if roof.figure == top else "--"
            begin = max(low, roof.figure / bandwidth)
            axes.plot([begin, high], [roof.figure] * 2, style, color=palette.INK.light, linewidth=1.4)


def _name_peaks(axes: Axes, peaks: Sequence[Roof], unit: str, high: float) -> None:
    for roof, place in zip(peaks, _apart([roof.figure for roof in peaks], axes), strict=True):
        axes.annotate(
            f"{roof.name} {si(roof.figure, unit + 'S')} ({roof.origin})", (high, roof.figure), xytext=(high / 1.05, place),
            textcoords="data", ha="right", va="bottom", fontsize=8.5, color=palette.INK.light, annotation_clip=False,
        )  # fmt: skip


def _colour(number: int, point: RooflinePoint) -> str:
    return (palette.LINE if point.is_published else _COLOURS[number % len(_COLOURS)]).light


def _draw_points(axes: Axes, points: Sequence[RooflinePoint]) -> None:
    for number, point in enumerate(points):
        if point.interval is not None:
            axes.plot([point.intensity] * 2, point.interval, color=_colour(number, point), linewidth=2.5)
        axes.plot([point.intensity], [point.rate], "o", color=_colour(number, point), markersize=7)


def _name_points(axes: Axes, points: Sequence[RooflinePoint], bandwidths: Sequence[Roof], low: float) -> None:
    named = [
        (point.intensity, point.rate, point.name, palette.MUTED.light if point.is_published else _colour(number, point))
        for number, point in enumerate(points)
    ]
    for roof in bandwidths:
        name = f"{roof.name} {si(roof.figure, 'B/s')} ({roof.origin})"
        named.append((low, low * roof.figure, name, palette.INK.light))
    places = _apart([height for _, height, _, _ in named], axes, downwards=True)
    for (along, height, name, colour), place in zip(named, places, strict=True):
        axes.annotate(
            name, (along, height), xytext=(along * 1.18, place), textcoords="data", va="center", annotation_clip=False,
            fontsize=8.5, color=colour,
            arrowprops={"arrowstyle": "-", "color": palette.LINE.light, "linewidth": 0.7, "relpos": (0, 0.5)},
        )  # fmt: skip


def _apart(values: Sequence[float], axes: Axes, *, downwards: bool = False) -> list[float]:
    low, high = (math.log(each) for each in axes.get_ylim())
    gap = _LEAST_LABEL_GAP * (high - low)
    sign = -1 if downwards else 1
    places = [0.0] * len(values)
    last = -math.inf
    for index in sorted(range(len(values)), key=lambda index: sign * values[index]):
        last = max(sign * math.log(values[index]) + (gap if downwards else 0.0), last + gap)
        places[index] = math.exp(sign * last)
    return places


def label_table(judged: Sequence[Label], unit: str, *, is_measured: bool = True) -> Table | None:
    """Return the table of the bound of each program or layer under each peak, and of its measured share of it."""
    if not judged:
        return None
    rate = partial(si, unit=f"{unit}S")
    columns = [
        texts("program or layer", [each.point.name for each in judged]),
        numbers(f"{unit} per byte", [each.point.intensity for each in judged], "{:.3g}".format),
        texts("under the roof", [each.roof for each in judged]),
        texts("bound by", [each.bottleneck for each in judged]),
        numbers("bound", [each.bound for each in judged], rate),
    ]
    if is_measured:
        columns += [
            numbers(f"{unit}S", [each.point.rate for each in judged], rate),
            (Column("share of the bound", True), tuple(_share_of_bound(each) for each in judged)),
        ]
    return table("labels", "Bound of each point", columns, is_sortable=True)


def _share_of_bound(judged: Label) -> Cell:
    cached = "" if share(min(1.0, judged.share)) == share(judged.share) else _CACHED
    return replace(share_bar(judged.share), second_line=cached)


def roof_table(machines: Sequence[Machine], unit: str) -> Table:
    roofs = dict.fromkeys(roof for machine in machines for roof in machine)
    cells = [(each.name, si(each.figure, "B/s" if each.is_memory else f"{unit}S"), each.origin) for each in roofs]
    return rows("roofs", "Roofs and ceilings", ("roof", ">figure", "origin"), cells)


def layer_table(network: NetworkRoofline) -> Table:
    """Return the table of a network's kinds of layers with operations, bytes, shortest possible times and measured times."""
    total, kinds = network.floor_seconds, network.kinds
    columns = [
        texts("layer", [each.kind.replace("_", " ") for each in kinds]),
        texts("pass", [each.pass_name for each in kinds]),
        numbers("operations", [each.flops for each in kinds], operations),
        numbers("bytes", [each.bytes_moved for each in kinds], size),
        numbers("FLOP per byte", [each.intensity for each in kinds], "{:.3g}".format),
        numbers("floor", [each.floor_seconds for each in kinds], duration),
        (Column("share of the floor", True), tuple(share_bar(each.floor_seconds / total) for each in kinds)),
    ]
    note = (
        f"Shortest step {total * 1e3:.2f} ms: {count(network.images_per_second)} {IMAGE.many}/s, of which arithmetic alone "
        f"takes {share(network.floor_share)}. Caches are left out. The softmax belongs to the loss."
    )
    if network.step_seconds is not None:
        columns.append(numbers("measured", [network.seconds(each) for each in kinds], duration))
        shown = {each.kind for each in kinds}
        others = ", ".join(
            f"{name.replace('_', ' ')} {duration(seconds)}"
            for name, seconds in sorted(network.measured_seconds.items(), key=lambda each: -each[1])
            if name.partition(" ")[0] not in shown
        )
        note += (
            f" Measured step {duration(network.step_seconds)}, of which the floor is {share(total / network.step_seconds)}. "
            f"Of it outside of the rows above: {others}."
        )
    return table("layers", f"Layers of {network.name}, batch {network.batch}", columns, note)


def page(
    title: str,
    points: Sequence[RooflinePoint],
    machines: Sequence[Machine],
    unit: str,
    tables: Sequence[Table | None],
    remarks: Sequence[str],
) -> str:
    """Return the page of a roofline as the text of an HTML file: picture, tables and remarks."""
    parts: list[Part | None] = []
    if points and any(roof.is_memory for machine in machines for roof in machine):
        described = "; ".join(
            f"{point.name}: {point.intensity:.3g} {unit}/B, {si(point.rate, unit + 'S')}" for point in points
        )
        caption = "Roofline. A point under the diagonal is bound by memory, one under a horizontal line by calculation."
        drawing = picture("roofline", points, machines, unit, title)
        parts.append(DrawnFigure("roofline", "Roofline", caption, described, *drawing))
    else:
        reason = "No picture: without memory traffic and bandwidth there is no intensity, and no point."
        parts.append(Paragraph(reason, "empty"))
    parts += [*tables, *map(Paragraph, remarks)]
    shown = Section("roofline", "Roofline", tuple(parts))
    return html.page(title, html.header("roofline", title), [shown], "How to read it: docs/bops.md.")


LEAST_DRAWN_INTENSITY = 1e-3
"""Least operations per byte of a layer in the picture. Layers below it are listed in the table only."""


def added_roof(text: str) -> Roof:
    """Return the roof (upper limit) that the text NAME=FIGURE of --roof describes: operations per second.

    A figure that ends in B/s is a memory bandwidth in bytes per second.

    >>> added_roof("without prefetching=13.2e9B/s")
    Roof(name='without prefetching', figure=13200000000.0, origin='given', is_memory=True)

    Raises:
        BadConfiguration: the text has no name, or the figure is not a positive number.
    """
    name, _, figure = text.partition("=")
    try:
        value = float(figure.removesuffix("B/s"))
    except ValueError:
        value = 0.0
    if not name or not 0 < value < math.inf:
        raise BadConfiguration(
            f"--roof is NAME=FIGURE, a positive number, with B/s for a bandwidth, but found {text!r}: write "
            "for example dram=13.8e9B/s"
        )
    return Roof(name, value, "given", figure.endswith("B/s"))


def added_ceiling(text: str, peak: MachinePeak, measured_ipc: float | None) -> Roof:
    """Return the upper limit that the text NAME=PORTS,IPC,SIMD of --ceiling describes, in operations per second.

    It is peak × PORTS × IPC ÷ peak IPC × SIMD, equation (8). PORTS is the share of the execution ports, 0..1. The IPC is a
    number or the word `measured`.
    """
    name, _, figures = text.partition("=")
    if ",measured," in figures and measured_ipc is None:
        raise BadConfiguration(
            f"--ceiling {text!r} needs the measured IPC, but no counters did count the program. Give a number"
        )
    try:
        ports, ipc, simd = map(float, figures.replace(",measured,", f",{measured_ipc},").split(","))
    except ValueError:
        ports = ipc = simd = 0.0
    if not name or not all(0 < each < math.inf for each in (ports, ipc, simd)):
        raise BadConfiguration(
            f"--ceiling is NAME=PORT EFFICIENCY,IPC,SIMD SCALE, numbers above 0, but found {text!r}: write for example "
            "ILP=0.5,2,1 or ILP=0.5,measured,1"
        )
    if peak.peak_ipc is None:
        raise BadConfiguration(
            f"a ceiling needs the peak IPC, but found no {peak.model!r} in processors.json: use --roof"
        )
    figure = roofline.ceiling(peak.measured, ports, ipc, peak.peak_ipc, simd)
    origin = f"peak measured × ports {ports:g} × IPC {ipc:g} ÷ {peak.peak_ipc:g} × SIMD {simd:g}, given"
    return Roof(name, figure, origin)


def published(names: Sequence[str]) -> list[RooflinePoint]:
    """Points that the paper of Wang et al. measured on a Xeon E5645. Names that it does not have are ignored."""
    rows = json.loads(importlib.resources.files("aiperf.bops").joinpath("published.json").read_text("utf-8"))
    return [
        RooflinePoint(f"{row['program']} (E5645)", row["intensity"], row["bops_per_second"], is_published=True)
        for row in rows
        if row["program"].lower() in names
    ]


def flops_text(source: SourceCount) -> str:
    if source.flops is None:
        return ""
    part = share(source.flops / source.bops) if source.bops else "none"
    return f", of them {count(source.flops)} floating-point operations ({part})"


def program_lines(result: ProgramResult) -> list[str]:
    """Return what no table shows of a measured program as lines of text: counts, times and the origin of the traffic."""
    source, deviation = result.source, result.deviation
    lines = [f"{result.name}: {' '.join(result.command)}"]
    if source is not None:
        least = "at least " if source.at_least else ""
        lines.append(f"source count: {least}{count(source.bops)} BOPs{flops_text(source)}")
    if result.not_measured:
        lines.append(f"hardware counters: {result.not_measured}")
    terms = (result.instructions, result.branches, result.loads, result.stores, result.difference)
    texts = [count(each) for each in terms if each is not None]
    if len(texts) == len(terms):
        instructions, branches, loads, stores, difference = texts
        lines.append(
            f"equation (3), {result.origin}: {instructions} instructions − {branches} branches − {loads} loads − {stores} "
            f"stores = {difference}{' (negative, so no count)' if result.bops is None else ''}"
            + (
                ""
                if result.own_difference is None
                else f", {count(result.own_difference)} of them in the program itself"
            )
            + ("" if deviation is None else f", {units.change(deviation)} against the source")
        )
        if result.instructions_per_cycle is not None:
            lines.append(f"instructions per cycle: {result.instructions_per_cycle:.2f}")
        lines.append(
            "  instructions by object: "
            + ", ".join(f"{name} {count(number)}" for name, number in list(result.by_object.items())[:6])
        )
    lines += [f"note: {note}" for note in result.notes]
    if result.bops_per_second is not None and result.bops_per_second_interval is not None:
        low, high = result.bops_per_second_interval
        efficiency = "" if result.efficiency is None else f", {share(result.efficiency)} of the measured peak"
        lines.append(
            f"{si(result.bops_per_second, 'BOPS')} (95 % {si(low, 'BOPS')} to {si(high, 'BOPS')}; "
            f"{len(result.seconds.runs)} runs, load {result.load:.1f}){efficiency}"
        )
        if source is not None and source.flops:
            lines.append(f"{si(source.flops / result.seconds.median, 'FLOPS')} of floating-point operations")
    if result.start_seconds is not None:
        lines.append(
            f"ranks: {result.ranks}, passes of a run: {result.passes}, each {duration(result.seconds.median)}. "
            f"Start and end of the processes, not in the rate: {duration(result.start_seconds)}"
        )
    if (against := result.against) is not None:
        interval = change_interval(against.interval[0] - 1, against.interval[1] - 1)
        lines.append(f"time with {against.flags} ÷ time: {against.ratio:.3f} ({interval}), interleaved pairs")
    if result.traffic_bytes is not None:
        lines.append(f"memory traffic {si(result.traffic_bytes, 'B')}, {result.traffic_origin}")
    if result.point is None:
        lines.append("no point in the roofline: without memory traffic there is no intensity")
    return lines


def compared(results: Sequence[ProgramResult]) -> list[str]:
    """Return a line of text for each two consecutive results of one program: ratio of rates second ÷ first, with 95 % interval.

    Pairs without both rates are left out.
    """
    lines = []
    for first, second in itertools.pairwise(results):
        one, other = first.bops_per_second, second.bops_per_second
        if first.name == second.name and one and other:
            ratio = change(one, other, _rates(first.seconds.runs, one), _rates(second.seconds.runs, other))
            if ratio is not None and ratio.interval is not None:
                lines.append(
                    f"{first.name}: second ÷ first {1 + ratio.relative:.3f} ({change_interval(*ratio.interval)})"
                )
    return lines


def _rates(runs: Sequence[float], mean: float) -> Estimate | None:
    middle = sum(1 / each for each in runs) / len(runs)
    return of_repeats([mean / each / middle for each in runs])


@dataclass(frozen=True, slots=True)
class JudgedPrograms:
    """Measured programs, each judged by the roofs of its own machine."""

    results: Sequence[ProgramResult]
    points: Sequence[RooflinePoint]
    machines: Sequence[Machine]
    """Of several results from one machine the first one's."""
    labels: Sequence[Label]


def judged(results: Sequence[ProgramResult], roofs: Sequence[Roof], ceilings: Sequence[str]) -> JudgedPrograms:
    """`roofs`: further ones, of all machines. `ceilings`: texts of --ceiling, which apply to the peak of each machine."""
    models = {(each.peak.model, each.peak.cores) for each in results if each.peak is not None}
    machines: dict[tuple[str, int] | None, Machine] = {}
    points: list[RooflinePoint] = []
    judged_labels: list[Label] = []
    for each in results:
        on = each.peak
        if on is None and ceilings:
            raise BadConfiguration(
                f"--ceiling needs a peak, but the result of {each.name!r} has none. Measure it with `bops sort` or `bops run`"
            )
        ends = f", {on.model}" if on is not None and len(models) > 1 else ""
        own = (
            ()
            if on is None
            else (*on.roofs, *(added_ceiling(text, on, each.instructions_per_cycle) for text in ceilings))
        )
        own = (*(replace(roof, name=roof.name + ends) for roof in own), *roofs)
        machines.setdefault(None if on is None else (on.model, on.cores), own)
        if each.point is not None:
            points.append(replace(each.point, name=each.point.name + ends))
            judged_labels += labels(points[-1:], own)
    return JudgedPrograms(results, points, [*machines.values()], judged_labels)


def program_page(programs: JudgedPrograms, published_points: Sequence[RooflinePoint]) -> str:
    """Return the roofline page of measured programs as the text of an HTML file."""
    on = {f"{each.peak.model}, {each.peak.cores} cores": None for each in programs.results if each.peak is not None}
    title = f"Roofline of {', '.join(dict.fromkeys(result.name for result in programs.results))}"
    title += f" on {'; '.join(on)}" if on else ""
    remarks = [line for result in programs.results for line in program_lines(result)] + compared(programs.results)
    tables = [label_table(programs.labels, "BOP"), roof_table(programs.machines, "BOP")]
    return page(title, [*published_points, *programs.points], programs.machines, "BOP", tables, remarks)


def network_page(network: NetworkRoofline, roofs: Sequence[Roof]) -> str:
    """Return the roofline page of a network as the text of an HTML file, with one point per kind of layer and pass."""
    is_measured = network.step_seconds is not None
    points, without = [], []
    for each in network.kinds:
        name = f"{each.kind.replace('_', ' ')}, {each.pass_name}"
        seconds = network.seconds(each) if is_measured else each.floor_seconds
        if each.intensity < LEAST_DRAWN_INTENSITY:
            without.append(name)
        elif seconds:
            points.append(RooflinePoint(name, each.intensity, each.flops / seconds))
    machine = (
        Roof(f"{network.precision} peak", network.flops_per_second, network.origin),
        Roof("memory", network.memory_bytes_per_second, network.origin, is_memory=True),
        *roofs,
    )
    remarks = [f"A point is at the {'measured time' if is_measured else 'floor'} of its layers."]
    if without:
        remarks.append(f"Without operations, so that only memory bounds them: {'; '.join(without)}.")
    tables = [
        label_table(labels(points, machine), "FLOP", is_measured=is_measured),
        roof_table([machine], "FLOP"),
        layer_table(network),
    ]
    title = f"Roofline of {network.name}, batch {network.batch}, on {network.device}"
    return page(title, points, [machine], "FLOP", tables, remarks)
