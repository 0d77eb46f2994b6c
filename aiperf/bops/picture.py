"""Results as points, roofs and lines of text."""

from __future__ import annotations

import importlib.resources
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from aiperf import units
from aiperf.bops import page, roofline
from aiperf.bops.peak import roofs as roofs_of_peak
from aiperf.bops.roofline import Point, Roof
from aiperf.errors import BadConfiguration
from aiperf.statistics.difference import change
from aiperf.statistics.estimate import of_repeats
from aiperf.units import change_interval, duration, share, si

Result = Mapping[str, Any]
LEAST_DRAWN_INTENSITY = 1e-3
"""Least operations per byte of a layer in the picture. Layers below it are listed in the table only."""


def point(result: Result) -> Point | None:
    """Return the point of a program. None without operations or without memory traffic."""
    if result["bops_per_second"] is None or result["intensity"] is None:
        return None
    low, high = result["bops_per_second_interval"]
    return Point(result["name"], result["intensity"], result["bops_per_second"], (low, high))


def added_roof(text: str) -> Roof:
    """Return the roof of --roof NAME=FIGURE. A figure in B/s is a bandwidth.

    >>> added_roof("without prefetching=13.2e9B/s")
    Roof(name='without prefetching', figure=13200000000.0, origin='given', is_memory=True)
    """
    name, _, figure = text.partition("=")
    try:
        value = float(figure.removesuffix("B/s"))
    except ValueError:
        value = 0.0
    if not name or value <= 0:
        raise BadConfiguration(
            f"--roof is NAME=FIGURE, a positive number, with B/s for a bandwidth. Found {text!r}: 'dram=13.8e9B/s'"
        )
    return Roof(name, value, "given", figure.endswith("B/s"))


def added_ceiling(text: str, peak: Result) -> Roof:
    """Return the ceiling of --ceiling NAME=PORTS,IPC,SIMD by equation (8)."""
    name, _, figures = text.partition("=")
    try:
        ports, ipc, simd = map(float, figures.split(","))
    except ValueError:
        raise BadConfiguration(
            f"--ceiling is NAME=PORT EFFICIENCY,IPC,SIMD SCALE. Found {text!r}: 'ILP=0.5,2,1'"
        ) from None
    if peak["peak_ipc"] is None:
        raise BadConfiguration(f"a ceiling needs the peak IPC. {peak['model']!r} is not in processors.json: use --roof")
    figure = roofline.ceiling(peak["measured"], ports, ipc, peak["peak_ipc"], simd)
    origin = f"peak measured × ports {ports:g} × IPC {ipc:g} ÷ {peak['peak_ipc']:g} × SIMD {simd:g}, given"
    return Roof(name, figure, origin)


def published(names: Sequence[str]) -> list[Point]:
    """Return the programs that the paper measured on its Xeon E5645, pale in the picture."""
    rows = json.loads(importlib.resources.files("aiperf.bops").joinpath("published.json").read_text("utf-8"))
    return [
        Point(f"{row['program']} (E5645)", row["intensity"], row["bops_per_second"], is_published=True)
        for row in rows
        if row["program"].lower() in names
    ]


def program_lines(result: Result) -> list[str]:
    """Return a result as text: count, deviation, rate, and its label under each roof."""
    source, deviation = result["source"], result["deviation"]
    lines = [f"{result['name']}: {' '.join(result['command'])}"]
    if source is not None:
        least = "at least " if source["at_least"] else ""
        lines.append(f"source count: {least}{source['bops']:,} BOPs")
    if result["not_measured"]:
        lines.append(f"hardware counters: {result['not_measured']}")
    if result["instructions"] is not None:
        difference = f"{result['difference']:,}" + (" (negative, so no count)" if result["bops"] is None else "")
        lines.append(
            f"equation (3), {result['origin']}: {result['instructions']:,} instructions − {result['branches']:,} branches − "
            f"{result['loads']:,} loads − {result['stores']:,} stores = {difference}"
            + (
                ""
                if result["own_difference"] is None
                else f", {result['own_difference']:,} of them in the program itself"
            )
            + ("" if deviation is None else f", {units.change(deviation)} against the source")
        )
        lines.append(
            "  instructions by object: "
            + ", ".join(f"{name} {number:,}" for name, number in list(result["by_object"].items())[:6])
        )
    lines += [f"note: {note}" for note in result["notes"]]
    if result["bops_per_second"] is not None:
        low, high = result["bops_per_second_interval"]
        efficiency = "" if result["efficiency"] is None else f", {share(result['efficiency'])} of the measured peak"
        lines.append(
            f"{si(result['bops_per_second'], 'BOPS')} (95 % {si(low, 'BOPS')} to {si(high, 'BOPS')}; "
            f"{len(result['seconds']['runs'])} runs, load {result['load']:.1f}){efficiency}"
        )
    if "read_seconds" in result:
        lines.append(f"of this, reading took {result['read_seconds']:.3f} s")
    if "against" in result:
        against = result["against"]
        interval = change_interval(against["interval"][0] - 1, against["interval"][1] - 1)
        lines.append(f"time with {against['flags']} ÷ time: {against['ratio']:.3f} ({interval}), interleaved pairs")
    own = point(result)
    if own is None or result["peak"] is None:
        return [*lines, "no point in the roofline: without memory traffic there is no intensity"]
    roofs = roofs_of_peak(result["peak"])
    lines.append(
        f"intensity {own.intensity:.3g} BOP per byte (traffic {si(result['traffic_bytes'], 'B')}, {result['origin']})"
    )
    for label in roofline.labels([own], roofs):
        lines.append(
            f"under {label.roof}: bound by {label.bottleneck}, {share(label.share)} of {si(label.bound, 'BOPS')}"
        )
    return lines


def compared(results: Sequence[Result]) -> list[str]:
    """Return the ratio of the rates of the results of one program, with their intervals."""
    lines = []
    for first, second in itertools.pairwise(results):
        if first["name"] == second["name"] and first["bops_per_second"] and second["bops_per_second"]:
            rates = [[1 / each for each in result["seconds"]["runs"]] for result in (first, second)]
            scaled = [result["bops_per_second"] for result in (first, second)]
            found = change(scaled[0], scaled[1], *(_scaled(each, to) for each, to in zip(rates, scaled, strict=True)))
            if found is not None and found.interval is not None:
                lines.append(
                    f"{first['name']}: second ÷ first {1 + found.relative:.3f} ({change_interval(*found.interval)})"
                )
    return lines


def _scaled(rates: Sequence[float], to: float) -> Any:
    middle = sum(rates) / len(rates)
    return of_repeats([each / middle * to for each in rates])


def program_page(results: Sequence[Result], extra: Sequence[Roof], published_points: Sequence[Point]) -> str:
    """Return the page of programs of one machine."""
    points = [each for each in map(point, results) if each is not None]
    peaks = [result["peak"] for result in results if result["peak"] is not None]
    roofs = [*(roofs_of_peak(peaks[0]) if peaks else ()), *extra]
    remarks = [line for result in results for line in program_lines(result)] + compared(results)
    title = f"Roofline of {', '.join(dict.fromkeys(result['name'] for result in results))}"
    if peaks:
        title += f" on {peaks[0]['model']}, {peaks[0]['cores']} cores"
    return page.page(title, [*published_points, *points], roofs, "BOP", remarks)


def network_page(result: Result) -> str:
    """Return the page of a network: one point per kind of layer and pass, at its floor or at its measured time."""
    measured = result.get("measured_seconds", {})
    points = []
    for each in result["kinds"]:
        seconds = measured.get(f"{each['kind']} {each['pass']}", each["floor_seconds"])
        if each["intensity"] >= LEAST_DRAWN_INTENSITY and seconds:
            points.append(
                Point(f"{each['kind'].replace('_', ' ')}, {each['pass']}", each["intensity"], each["flops"] / seconds)
            )
    roofs = (
        Roof(f"{result['precision']} peak", result["flops_per_second"], result["origin"]),
        Roof("memory", result["memory_bytes_per_second"], result["origin"], is_memory=True),
    )
    title = f"Roofline of {result['name']}, batch {result['batch']}, on {result['device']}"
    remark = (
        "A point is at the floor of its layers." if not measured else "A point is at the measured time of its layers."
    )
    remarks = [remark]
    if measured:
        others = {name: seconds for name, seconds in measured.items() if name.partition(" ")[0] not in _kinds(result)}
        lines = ", ".join(f"{name.replace('_', ' ')} {duration(seconds)}" for name, seconds in others.items())
        remarks.append(f"Measured step {duration(result['step_seconds'])}. Of it outside of the rows above: {lines}.")
    return page.page(title, points, roofs, "FLOP", remarks, [page.layer_table(result)])


def _kinds(result: Result) -> set[str]:
    return {each["kind"] for each in result["kinds"]}
