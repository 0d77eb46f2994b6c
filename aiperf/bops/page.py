"""HTML page and text of a roofline: a picture with logarithmic axes, tables, and lines of text about measured programs."""

from __future__ import annotations

import importlib.resources
import itertools
import json
import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aiperf import units
from aiperf.bops import roofline
from aiperf.bops.networks import NetworkRoofline
from aiperf.bops.peak import MachinePeak
from aiperf.bops.result import ProgramResult
from aiperf.bops.roofline import Label, Roof, RooflinePoint, labels
from aiperf.errors import BadConfiguration
from aiperf.page import html, palette
from aiperf.page.figure import drawn
from aiperf.page.section import Cell, Column, DrawnFigure, Paragraph, Part, Section, Table, measured, row_of
from aiperf.statistics.difference import change
from aiperf.statistics.estimate import Estimate, of_repeats
from aiperf.units import change_interval, duration, share, si

_HEIGHT_INCHES = 5.2
_COLOURS = (palette.BLUE, palette.VERMILION, palette.GREEN, palette.PURPLE, palette.AMBER)
_DIAGONAL_STEP = 0.18
"""Distance of the names of two bandwidths, as a share of the diagonal."""
_CACHED = "served by a cache"
_NAME_SHARE = 0.25
"""Room for names on the right of the last point, as a share of the axis."""
_LEAST_LABEL_GAP = 0.045
"""Smallest distance of two names, as a share of the picture's height."""


def picture(
    name: str, points: Sequence[RooflinePoint], roofs: Sequence[Roof], unit: str, source: str
) -> tuple[str, bytes, bytes]:
    """Draw the roofline picture and return it as SVG text, PNG bytes and PDF bytes."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        low, high = _range([point.intensity for point in points], _ridges(roofs))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low, high)
        tops = [roof.figure for roof in roofs if not roof.is_memory]
        rates = [point.rate for point in points] + [roof.figure * low for roof in roofs if roof.is_memory]
        axes.set_ylim(min(rates) / 2, max([*tops, *(point.rate for point in points)]) * 3)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: si(value, f"{unit}S"))
        axes.set_xlabel(f"operation intensity ({unit} per byte of memory traffic)")
        axes.set_ylabel(f"{unit}S")
        _draw_roofs(axes, roofs, unit, low, high)
        _draw_points(axes, points)

    return drawn(draw, name, _HEIGHT_INCHES, source)


def _ridges(roofs: Sequence[Roof]) -> list[float]:
    bandwidths = [roof.figure for roof in roofs if roof.is_memory]
    return [roof.figure / max(bandwidths) for roof in roofs if not roof.is_memory and bandwidths]


def _range(intensities: Sequence[float], ridges: Sequence[float]) -> tuple[float, float]:
    shown = [each for each in (*intensities, *ridges) if each > 0] or [1.0]
    low, high = math.log10(min(shown) / 2), math.log10(max(shown) * 2)
    return 10 ** math.floor(low), 10 ** (high + _NAME_SHARE * (high - math.floor(low)))


def _draw_roofs(axes: Axes, roofs: Sequence[Roof], unit: str, low: float, high: float) -> None:
    top = max((roof.figure for roof in roofs if not roof.is_memory), default=math.inf)
    bandwidth = max((roof.figure for roof in roofs if roof.is_memory), default=math.inf)
    ends = []
    for roof in sorted(roofs, key=lambda each: each.figure):
        if roof.is_memory:
            end = min(high, top / roof.figure)
            axes.plot([low, end], [low * roof.figure, end * roof.figure], color=palette.INK.light, linewidth=1.6)
            label = f"{roof.name} {si(roof.figure, 'B/s')} ({roof.origin})"
            middle = low * (end / low) ** (
                0.9 - _DIAGONAL_STEP * sum(each.is_memory and each.figure < roof.figure for each in roofs)
            )
            axes.annotate(
                label, (middle, middle * roof.figure), xytext=(-6, 6), textcoords="offset points", fontsize=8.5,
                ha="right", color=palette.INK.light, annotation_clip=False,
            )  # fmt: skip
        else:
            begin = max(low, roof.figure / bandwidth)
            style = "-" if roof.figure == top else "--"
            axes.plot([begin, high], [roof.figure] * 2, style, color=palette.INK.light, linewidth=1.4)
            ends.append((roof.figure, f"{roof.name} {si(roof.figure, unit + 'S')} ({roof.origin})"))
    for place, (figure, label) in zip(_apart([each for each, _ in ends], axes), ends, strict=True):
        axes.annotate(
            label, (high, figure), xytext=(high / 1.05, place), textcoords="data", ha="right", va="bottom", fontsize=8.5,
            color=palette.INK.light, annotation_clip=False,
        )  # fmt: skip


def _draw_points(axes: Axes, points: Sequence[RooflinePoint]) -> None:
    places = _apart([point.rate for point in points], axes, downwards=True)
    for number, (point, place) in enumerate(zip(points, places, strict=True)):
        colour = palette.LINE if point.is_published else _COLOURS[number % len(_COLOURS)]
        if point.interval is not None:
            axes.plot([point.intensity] * 2, point.interval, color=colour.light, linewidth=2.5)
        axes.plot([point.intensity], [point.rate], "o", color=colour.light, markersize=7)
        axes.annotate(
            point.name, (point.intensity, point.rate), xytext=(point.intensity * 1.18, place), textcoords="data", va="center",
            annotation_clip=False, fontsize=9, color=palette.MUTED.light if point.is_published else colour.light,
            arrowprops={"arrowstyle": "-", "color": palette.LINE.light, "linewidth": 0.7},
        )  # fmt: skip


def _apart(values: Sequence[float], axes: Axes, *, downwards: bool = False) -> list[float]:
    """Return heights of names near their values, so that no two overlap."""
    low, high = (math.log(each) for each in axes.get_ylim())
    gap = _LEAST_LABEL_GAP * (high - low)
    sign = -1 if downwards else 1
    places = [0.0] * len(values)
    last = -math.inf
    for index in sorted(range(len(values)), key=lambda index: sign * values[index]):
        last = max(sign * math.log(values[index]) + (gap if downwards else 0.0), last + gap)
        places[index] = math.exp(sign * last)
    return places


def label_table(points: Sequence[RooflinePoint], judged: Sequence[Label], unit: str) -> Table:
    """Return the table of the attainable and attained rate of each program or layer under each peak."""
    by_name = {point.name: point for point in points}
    rows = tuple(
        row_of(
            each.point,
            Cell(f"{by_name[each.point].intensity:.3g}", by_name[each.point].intensity),
            Cell(si(by_name[each.point].rate, f"{unit}S"), by_name[each.point].rate),
            each.roof,
            each.bottleneck,
            Cell(si(each.bound, f"{unit}S"), each.bound),
            Cell(
                share(each.share),
                each.share,
                bar=min(1.0, each.share),
                second_line=_CACHED if each.share > 1 else "",
            ),
        )
        for each in judged
    )
    columns = (
        Column("program or layer"),
        Column(f"{unit} per byte", True),
        Column(f"{unit}S", True),
        Column("under the roof"),
        Column("bound by"),
        Column("bound", True),
        Column("share of the bound", True),
    )
    return Table("labels", "Bound of each point", columns, rows, is_sortable=True)


def roof_table(roofs: Sequence[Roof], unit: str) -> Table:
    """Return the table of the peaks and memory bandwidths with their origin."""
    rows = tuple(
        row_of(each.name, si(each.figure, "B/s" if each.is_memory else f"{unit}S"), each.origin) for each in roofs
    )
    return Table("roofs", "Roofs and ceilings", (Column("roof"), Column("figure", True), Column("origin")), rows)


def layer_table(network: NetworkRoofline) -> Table:
    """Return the table of a network's kinds of layers with operations, bytes, shortest possible times and measured times."""
    total = network.floor_seconds
    rows = tuple(
        row_of(
            each.kind.replace("_", " "),
            each.pass_name,
            Cell(si(each.flops, "FLOP"), each.flops),
            Cell(si(each.bytes_moved, "B"), each.bytes_moved),
            Cell(f"{each.intensity:.3g}", each.intensity),
            Cell(duration(each.floor_seconds), each.floor_seconds),
            Cell(share(each.floor_seconds / total), each.floor_seconds / total, bar=each.floor_seconds / total),
            measured(network.seconds(each), duration),
        )
        for each in network.kinds
    )
    names = ("layer", "pass", "operations", "bytes", "FLOP per byte", "floor", "share of the floor", "measured")
    columns = tuple(Column(name, number > 1) for number, name in enumerate(names))
    note = (
        f"Shortest step {duration(total)}: {network.images_per_second:,.0f} images/s, of which arithmetic alone takes "
        f"{share(network.floor_share)}. Caches are left out. The softmax belongs to the loss."
    )
    return Table("layers", f"Layers of {network.name}, batch {network.batch}", columns, rows, footnote=note)


def page(
    title: str,
    points: Sequence[RooflinePoint],
    roofs: Sequence[Roof],
    unit: str,
    remarks: Sequence[str],
    tables: Sequence[Table] = (),
) -> str:
    """Return the page of a roofline as the text of an HTML file: picture, table of bounds, table of peaks, and remarks."""
    parts: list[Part] = []
    if points and any(roof.is_memory for roof in roofs):
        described = "; ".join(
            f"{point.name}: {point.intensity:.3g} {unit}/B, {si(point.rate, unit + 'S')}" for point in points
        )
        caption = "Roofline. A point under the diagonal is bound by memory, one under a horizontal line by calculation."
        own = [point for point in points if not point.is_published]
        parts += [
            DrawnFigure("roofline", "Roofline", caption, described, *picture("roofline", points, roofs, unit, title)),
            label_table(own, labels(own, roofs), unit),
        ]
    else:
        reason = "No picture: without memory traffic and bandwidth there is no intensity, and no point."
        parts.append(Paragraph(reason, "empty"))
    parts += [roof_table(roofs, unit), *tables, *map(Paragraph, remarks)]
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


def added_ceiling(text: str, peak: MachinePeak) -> Roof:
    """Return the upper limit that the text NAME=PORTS,IPC,SIMD of --ceiling describes, in operations per second.

    It is peak × PORTS × IPC ÷ peak IPC × SIMD, equation (8). PORTS is the share of the execution ports, 0..1.
    `peak`: JSON object of the measured peak.

    Raises:
        BadConfiguration: the text has another form, or the processor's largest IPC is not known.
    """
    name, _, figures = text.partition("=")
    try:
        ports, ipc, simd = map(float, figures.split(","))
    except ValueError:
        ports = ipc = simd = 0.0
    if not name or not all(0 < each < math.inf for each in (ports, ipc, simd)):
        raise BadConfiguration(
            f"--ceiling is NAME=PORT EFFICIENCY,IPC,SIMD SCALE, numbers above 0, but found {text!r}: write for example "
            "ILP=0.5,2,1"
        )
    if peak.peak_ipc is None:
        raise BadConfiguration(
            f"a ceiling needs the peak IPC, but found no {peak.model!r} in processors.json: use --roof"
        )
    figure = roofline.ceiling(peak.measured, ports, ipc, peak.peak_ipc, simd)
    origin = f"peak measured × ports {ports:g} × IPC {ipc:g} ÷ {peak.peak_ipc:g} × SIMD {simd:g}, given"
    return Roof(name, figure, origin)


def published(names: Sequence[str]) -> list[RooflinePoint]:
    """Return the points of programs that the paper of Wang et al. measured on a Xeon E5645. They are drawn in a pale colour.

    `names`: names of programs in small letters, such as 'sort'. A name that the paper does not have is ignored.
    """
    rows = json.loads(importlib.resources.files("aiperf.bops").joinpath("published.json").read_text("utf-8"))
    return [
        RooflinePoint(f"{row['program']} (E5645)", row["intensity"], row["bops_per_second"], is_published=True)
        for row in rows
        if row["program"].lower() in names
    ]


def program_lines(result: ProgramResult) -> list[str]:
    """Return the result of a measured program as lines of text: counts, rate, intensity, and its bottleneck under each peak."""
    source, deviation = result.source, result.deviation
    lines = [f"{result.name}: {' '.join(result.command)}"]
    if source is not None:
        least = "at least " if source.at_least else ""
        lines.append(f"source count: {least}{source.bops:,} BOPs")
    if result.not_measured:
        lines.append(f"hardware counters: {result.not_measured}")
    if result.instructions is not None:
        difference = f"{result.difference:,}" + (" (negative, so no count)" if result.bops is None else "")
        lines.append(
            f"equation (3), {result.origin}: {result.instructions:,} instructions − {result.branches:,} branches − "
            f"{result.loads:,} loads − {result.stores:,} stores = {difference}"
            + ("" if result.own_difference is None else f", {result.own_difference:,} of them in the program itself")
            + ("" if deviation is None else f", {units.change(deviation)} against the source")
        )
        lines.append(
            "  instructions by object: "
            + ", ".join(f"{name} {number:,}" for name, number in list(result.by_object.items())[:6])
        )
    lines += [f"note: {note}" for note in result.notes]
    if result.bops_per_second is not None and result.bops_per_second_interval is not None:
        low, high = result.bops_per_second_interval
        efficiency = "" if result.efficiency is None else f", {share(result.efficiency)} of the measured peak"
        lines.append(
            f"{si(result.bops_per_second, 'BOPS')} (95 % {si(low, 'BOPS')} to {si(high, 'BOPS')}; "
            f"{len(result.seconds.runs)} runs, load {result.load:.1f}){efficiency}"
        )
    if result.read_seconds is not None:
        lines.append(f"of this, reading took {result.read_seconds:.3f} s")
    if (against := result.against) is not None:
        interval = change_interval(against.interval[0] - 1, against.interval[1] - 1)
        lines.append(f"time with {against.flags} ÷ time: {against.ratio:.3f} ({interval}), interleaved pairs")
    own = result.point
    if own is None or result.peak is None or result.traffic_bytes is None:
        return [*lines, "no point in the roofline: without memory traffic there is no intensity"]
    roofs = result.peak.roofs
    lines.append(
        f"intensity {own.intensity:.3g} BOP per byte (traffic {si(result.traffic_bytes, 'B')}, {result.traffic_origin})"
    )
    for label in roofline.labels([own], roofs):
        lines.append(
            f"under {label.roof}: bound by {label.bottleneck}, {share(label.share)} of {si(label.bound, 'BOPS')}"
        )
    return lines


def compared(results: Sequence[ProgramResult]) -> list[str]:
    """Return a line of text for each two consecutive results of one program: ratio of rates second ÷ first, with 95 % interval.

    `results`: JSON objects that `bops --json` prints for programs. Pairs without both rates are left out.
    """
    lines = []
    for first, second in itertools.pairwise(results):
        one, other = first.bops_per_second, second.bops_per_second
        if first.name == second.name and one and other:
            found = change(one, other, _rates(first.seconds.runs, one), _rates(second.seconds.runs, other))
            if found is not None and found.interval is not None:
                lines.append(
                    f"{first.name}: second ÷ first {1 + found.relative:.3f} ({change_interval(*found.interval)})"
                )
    return lines


def _rates(runs: Sequence[float], mean: float) -> Estimate | None:
    middle = sum(1 / each for each in runs) / len(runs)
    return of_repeats([mean / each / middle for each in runs])


def program_page(
    results: Sequence[ProgramResult], extra: Sequence[Roof], published_points: Sequence[RooflinePoint]
) -> str:
    """Return the roofline page of measured programs as the text of an HTML file."""
    points = [each for each in (result.point for result in results) if each is not None]
    peaks = [result.peak for result in results if result.peak is not None]
    roofs = [*(peaks[0].roofs if peaks else ()), *extra]
    remarks = [line for result in results for line in program_lines(result)] + compared(results)
    title = f"Roofline of {', '.join(dict.fromkeys(result.name for result in results))}"
    if peaks:
        title += f" on {peaks[0].model}, {peaks[0].cores} cores"
    return page(title, [*published_points, *points], roofs, "BOP", remarks)


def network_page(network: NetworkRoofline) -> str:
    """Return the roofline page of a network as the text of an HTML file, with one point per kind of layer and pass."""
    points = []
    for each in network.kinds:
        seconds = network.seconds(each) or each.floor_seconds
        if each.intensity >= LEAST_DRAWN_INTENSITY:
            name = f"{each.kind.replace('_', ' ')}, {each.pass_name}"
            points.append(RooflinePoint(name, each.intensity, each.flops / seconds))
    roofs = (
        Roof(f"{network.precision} peak", network.flops_per_second, network.origin),
        Roof("memory", network.memory_bytes_per_second, network.origin, is_memory=True),
    )
    title = f"Roofline of {network.name}, batch {network.batch}, on {network.device}"
    remarks = ["A point is at the floor of its layers."]
    if network.step_seconds is not None:
        shown = {each.kind for each in network.kinds}
        others = ", ".join(
            f"{name.replace('_', ' ')} {duration(seconds)}"
            for name, seconds in network.measured_seconds.items()
            if name.partition(" ")[0] not in shown
        )
        remarks = [
            "A point is at the measured time of its layers.",
            f"Measured step {duration(network.step_seconds)}. Of it outside of the rows above: {others}.",
        ]
    return page(title, points, roofs, "FLOP", remarks, [layer_table(network)])
