"""Lines of the terminal and JSON for figures of networks of links, of matrix units, and of places in published lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiperf.page.section import Items, Paragraph, rows
from aiperf.scaling.arrays import ArrayLayer, array_share, most_wasteful
from aiperf.units import IMAGE, count, operations, share, si, size

if TYPE_CHECKING:
    from aiperf.page.section import Part, Table
    from aiperf.scaling.standing import ListedSystem, Place, Standing

NO_FORM = "not in closed form"
_TIMES = (
    ("ring", "ring", NO_FORM),
    ("torus", "torus, by dimensions", "for tori alone"),
    ("tree", "double binary tree", NO_FORM),
    ("bound_links", "bound of the links", NO_FORM),
    ("bound_bisection", "bound of the bisection", NO_FORM),
)
"""Key in the JSON object, meaning, and text of a missing time."""


def topology_parts(name: str, figures: dict[str, Any]) -> tuple[Part, ...]:
    links, one_way = figures["bisection_links"], figures["bisection_bytes_per_second"]
    lines = (
        f"{name}: {count(figures['nodes'])} nodes, {count(figures['links'])} links, diameter {figures['diameter']}",
        f"bisection: {NO_FORM if links is None else f'{count(links)} links'}"
        + ("" if one_way is None else f", {si(one_way, 'B/s')} one way, {si(2 * one_way, 'B/s')} both ways"),
    )
    times = figures["all_reduce_seconds"]
    if times is None:
        return (Items((*lines, "all-reduce: needs --link, and --bytes or --network")),)
    cells = [
        (meaning, missing if times[key] is None else f"{times[key] * 1e3:.3f} ms") for key, meaning, missing in _TIMES
    ]
    return Items(lines), rows("all-reduce", f"all-reduce of {size(figures['bytes'])}, modelled:", ("", ""), cells)


def array_json(layers: tuple[ArrayLayer, ...], array: int | None) -> dict[str, Any]:
    """Return the members that --array adds to the JSON object: edge, filled share (0..1), and the layers with most waste."""
    if array is None:
        return {}
    return {
        "array": array,
        "array_share": array_share(layers),
        "array_waste": [asdict(each) | {"share": each.share} for each in most_wasteful(layers)],
    }


def array_table(layers: tuple[ArrayLayer, ...], array: int | None) -> Table | None:
    """Return the table that --array adds: share of the matrix unit that is filled, and the layers with most waste."""
    if array is None:
        return None
    return rows(
        "array",
        f"array of {array} × {array}: {share(array_share(layers), 2)} of it filled in the forward pass, by shapes alone",
        ("layer", ">matrix", ">filled", f">unused per {IMAGE.one}"),
        [
            (
                each.layer,
                f"{each.rows} × {each.columns}",
                share(each.share),
                operations(each.occupied_flops - each.flops),
            )
            for each in most_wasteful(layers)
        ],
    )


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


def standing_part(placed: Standing, to: str | None) -> Part:
    """`to`: name of the system to which a ratio is given, None for no ratio."""
    if placed.lacks or placed.place is None or placed.flops_per_second is None:
        return Paragraph(f"{placed.run}: no place, because {placed.lacks}")
    cells = [(si(placed.flops_per_second, "FLOPS"), _place(placed.place))]
    if placed.flops_per_watt is not None:
        place = "the list has no power" if placed.efficiency_place is None else _place(placed.efficiency_place)
        power = f"{place}. Power of {placed.power_scope}, EEHPC level {placed.eehpc_level}"
        cells.append((si(placed.flops_per_watt, "FLOPS/W"), power))
    elif placed.precision is not None:
        cells.append(("FLOPS/W", "not given, since power was not measured"))
    if placed.ratio is not None:
        cells.append(("", f"{placed.ratio:.3g} times {to}"))
    return rows("standing", placed.run, ("", ""), cells, note(placed.precision))


def _place(place: Place) -> str:
    if place.place is None:
        return f"below all {place.of} entries of the list (the last: {place.above})"
    neighbours = [f"after {place.above}"] * (place.above is not None) + [f"before {place.below}"]
    return f"place {place.place} of {place.of} entries, {' and '.join(neighbours)}"
