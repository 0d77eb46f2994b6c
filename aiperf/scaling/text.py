"""Lines of the terminal for the figures of scaling."""

from __future__ import annotations

from typing import Any

from aiperf.units import count, si, size

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
