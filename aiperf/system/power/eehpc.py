"""Conditions of Level 1 of the EE HPC Working Group's power measurement methodology, by aspect. Sources: docs/report.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Point = Literal["unknown", "inside nodes", "downstream", "upstream"]
"""Point of measurement: on a board behind the power supplies, between the supplies and the node, or before the supplies."""
Loss = Literal["not adjusted", "modelled", "measured"]
"""Method of adding the losses of the power supplies, if the point is behind them."""

WHOLE = 0.999
"""Share of a phase that counts as complete. A sample at each edge may be missing."""
LEAST_NODES, LEAST_WATTS = 15, 2e3


@dataclass(frozen=True, slots=True)
class Measurement:
    """Properties of a power measurement. None if unknown. An unknown property does not meet its condition."""

    interval_seconds: float | None
    is_integrated: bool
    """True if the meter integrates energy itself without a break and its counter was read."""
    core_share: float
    nodes: int
    all_nodes: int
    """Number of nodes that took part in the run."""
    watts: float | None
    measured: frozenset[str]
    """Measured subsystems: 'accelerators', 'processors', 'nodes', 'interconnect', 'storage', 'cooling', …"""
    estimated: frozenset[str]
    point: Point
    loss: Loss


@dataclass(frozen=True, slots=True)
class Aspect:
    name: str
    level: int
    found: str
    missing: str | None


@dataclass(frozen=True, slots=True)
class Level:
    """Level of a measurement: the lowest level of its aspects."""

    level: int
    aspects: tuple[Aspect, ...]


def level(one: Measurement) -> Level:
    """Return the level with the finding for each aspect. Level 1 requires that every aspect meets its condition."""
    is_often = one.is_integrated or (one.interval_seconds is not None and one.interval_seconds <= 1.0)
    is_enough = one.nodes >= max(LEAST_NODES, one.all_nodes / 10) and (one.watts or 0.0) >= LEAST_WATTS
    is_before_supplies = one.point == "upstream" or (one.point == "downstream" and one.loss != "not adjusted")
    estimated = f"; estimated: {', '.join(sorted(one.estimated))}" if one.estimated else ""
    aspects = (
        _aspect(
            "1a granularity",
            "no samples" if one.interval_seconds is None else f"a sample every {one.interval_seconds:.3g} s",
            is_often,
            "a sample each second or more often, or energy that the meter integrates itself",
        ),
        _aspect(
            "1b timing",
            f"{100 * one.core_share:.1f} % of the core phase",
            one.core_share >= WHOLE,
            "samples over the whole core phase, without a gap",
        ),
        _aspect(
            "1c what is reported",
            "no average" if one.watts is None else f"average of the core phase, {one.watts:.4g} W",
            one.watts is not None,
            "average power of the core phase",
        ),
        _aspect(
            "2 machine fraction",
            f"{one.nodes} of {one.all_nodes} nodes",
            one.nodes >= one.all_nodes > 0 or is_enough,
            "the largest of a tenth of the nodes, 15 nodes and 2 kW, or all nodes",
        ),
        _aspect(
            "3 subsystems",
            f"measured: {', '.join(sorted(one.measured)) or 'nothing'}{estimated}",
            "nodes" in one.measured and "interconnect" in one.measured | one.estimated,
            "nodes measured whole (supplies, memory, fans), and the interconnect measured or estimated",
        ),
        _aspect(
            "4 point of measurement",
            f"downstream, losses of the supplies {one.loss}" if one.point == "downstream" else one.point,
            is_before_supplies,
            "upstream of the power supplies, or their losses modelled or measured",
        ),
    )
    return Level(min(aspect.level for aspect in aspects), aspects)


def _aspect(name: str, found: str, is_met: bool, condition: str) -> Aspect:
    return Aspect(name, int(is_met), found, None if is_met else condition)
