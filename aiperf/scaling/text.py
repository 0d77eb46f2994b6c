"""Lines of the terminal and JSON for figures of networks of links, of matrix units, and of places in published lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiperf.scaling.arrays import ArrayLayer, array_share, most_wasteful
from aiperf.units import count, operations, share, si, size

if TYPE_CHECKING:
    from aiperf.scaling.standing import ListedSystem, Place, Standing

NO_FORM = "not in closed form"


def topology_lines(name: str, figures: dict[str, Any]) -> list[str]:
    links, one_way = figures["bisection_links"], figures["bisection_bytes_per_second"]
    lines = [
        f"{name}: {count(figures['nodes'])} nodes, {count(figures['links'])} links, diameter {figures['diameter']}",
        f"bisection: {NO_FORM if links is None else f'{count(links)} links'}"
        + ("" if one_way is None else f", {si(one_way, 'B/s')} one way, {si(2 * one_way, 'B/s')} both ways"),
    ]
    times = figures["all_reduce_seconds"]
    if times is None:
        return [*lines, "all-reduce: needs --link, and --bytes or --network"]
    lines.append(f"all-reduce of {size(figures['bytes'])}, modelled:")
    for key, meaning in (
        ("ring", "ring"),
        ("torus", "torus, by dimensions"),
        ("tree", "double binary tree"),
        ("bound_links", "bound of the links"),
        ("bound_bisection", "bound of the bisection"),
    ):
        seconds = times[key]
        missing = "for tori alone" if key == "torus" else NO_FORM
        lines.append(f"  {meaning:<23} {missing if seconds is None else f'{seconds * 1e3:.3f} ms'}")
    return lines


def array_json(layers: tuple[ArrayLayer, ...], array: int | None) -> dict[str, Any]:
    """Return the members that --array adds to the JSON object: edge, filled share (0..1), and the layers with most waste."""
    if array is None:
        return {}
    return {
        "array": array,
        "array_share": array_share(layers),
        "array_waste": [asdict(each) | {"share": each.share} for each in most_wasteful(layers)],
    }


def array_lines(layers: tuple[ArrayLayer, ...], array: int | None) -> list[str]:
    """Return the lines of text that --array adds: share of the matrix unit that is filled, and the layers with most waste."""
    if array is None:
        return []
    lines = [
        f"array of {array} × {array}: {share(array_share(layers), 2)} of it filled in the forward pass, by shapes alone"
    ]
    for each in most_wasteful(layers):
        unused = each.occupied_flops - each.flops
        lines.append(
            f"  {each.layer:<24} {f'{each.rows} × {each.columns}':>13} {share(each.share):>8}, "
            f"{operations(unused)} unused per image"
        )
    return lines


def note(precision: str | None) -> str:
    """Return the sentence for each place in a list: the list (HPL in FP64) and this run differ in precision and problem."""
    if precision is None:
        return (
            "the list has HPL (a dense system of equations in FP64): the figure has a place in it if it is one of HPL"
        )
    return (
        f"precision and problem differ: the list has HPL (a dense system of equations in FP64), this run trains in "
        f"{precision}. The place is a comparison of rates, and no rank of the list"
    )


def standing_json(path: str, entries: Sequence[ListedSystem], runs: Sequence[Standing]) -> dict[str, Any]:
    return {
        "list": path,
        "entries": len(entries),
        "runs": [asdict(each) | {"note": note(each.precision)} for each in runs],
    }


def standing_lines(found: Standing, to: str | None) -> list[str]:
    """`to`: name of the system to which a ratio is given, None for no ratio."""
    if found.lacks or found.place is None or found.flops_per_second is None:
        return [f"{found.run}: no place, because {found.lacks}"]
    lines = [f"{found.run}: {si(found.flops_per_second, 'FLOPS')}, {_place(found.place)}"]
    if found.precision is not None and found.flops_per_watt is None:
        lines.append("  FLOPS/W: not given, since power was not measured")
    elif found.flops_per_watt is not None:
        place = "the list has no power" if found.efficiency_place is None else _place(found.efficiency_place)
        lines.append(
            f"  {si(found.flops_per_watt, 'FLOPS/W')}, {place}. Power of {found.power_scope}, EEHPC level {found.eehpc_level}"
        )
    if found.ratio is not None:
        lines.append(f"  {found.ratio:.3g} times {to}")
    return [*lines, f"  {note(found.precision)}"]


def _place(place: Place) -> str:
    if place.place is None:
        return f"below all {place.of} entries of the list (the last: {place.above})"
    neighbours = [f"after {place.above}"] * (place.above is not None) + [f"before {place.below}"]
    return f"place {place.place} of {place.of} entries, {' and '.join(neighbours)}"
