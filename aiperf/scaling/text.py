"""Lines of the terminal and JSON for the figures of scaling."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aiperf.scaling.arrays import ArrayLayer, array_share, most_wasteful
from aiperf.units import count, operations, share, si, size

NO_FORM = "not in closed form"


def topology_lines(name: str, figures: dict[str, Any]) -> list[str]:
    """Return the lines of a network, from the content of its --json."""
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
    """Return what --array adds to the JSON of a network. Without --array nothing."""
    if array is None:
        return {}
    return {
        "array": array,
        "array_share": array_share(layers),
        "array_waste": [asdict(each) | {"share": each.share} for each in most_wasteful(layers)],
    }


def array_lines(layers: tuple[ArrayLayer, ...], array: int | None) -> list[str]:
    """Return the lines that --array adds. Without --array none."""
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
