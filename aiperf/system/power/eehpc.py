"""Level of a measurement by the EE HPC Working Group's power measurement methodology, by aspect, with the missing conditions.

The Green500 accepts Level 1 and above. Rules and sources: docs/report.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Point = Literal["unknown", "inside nodes", "downstream", "upstream"]
"""Point of measurement: on a board behind the power supplies, between the supplies and the node, or before the supplies."""
Loss = Literal["not adjusted", "modelled", "measured off line", "measured"]
"""Method of adding the losses of the power supplies, if the point is behind them."""

WHOLE = 0.999
"""Share of a phase that counts as complete. A sample at each edge may be missing."""
AVERAGES = 10
"""Equally spaced averages in the core phase, required from Level 2."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Properties of a power measurement. None if unknown. An unknown property reaches no level."""

    interval_seconds: float | None
    """Interval between samples."""
    is_integrated: bool
    """True if the meter integrates energy itself without a break and its counter was read."""
    core_share: float
    """Measured share of the core phase (the run's valid window)."""
    run_share: float | None
    """Measured share of the whole run, including warm-up."""
    averages: int
    """Number of completely measured parts among equal parts of the core phase. 10 are required."""
    idle_watts: float | None
    nodes: int
    """Number of nodes behind the meters."""
    all_nodes: int
    """Number of nodes that took part in the run."""
    watts: float | None
    """Mean over the measured time."""
    measured: frozenset[str]
    """Measured subsystems: 'accelerators', 'processors', 'nodes', 'interconnect', 'storage', 'cooling', …"""
    estimated: frozenset[str]
    participating: frozenset[str] | None
    """All subsystems that took part, as the site reports. None if it does not report them."""
    point: Point
    loss: Loss


@dataclass(frozen=True, slots=True)
class Aspect:
    """One aspect of the methodology."""

    name: str
    level: int
    """0 to 3."""
    found: str
    missing: str | None
    """Condition for the next level. None if there is none above."""


@dataclass(frozen=True, slots=True)
class Level:
    """Level of a measurement: that of its lowest aspect."""

    level: int
    aspects: tuple[Aspect, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Conditions of the next level that are not met, one per aspect."""
        return tuple(
            f"{aspect.name}: {aspect.missing}"
            for aspect in self.aspects
            if aspect.level == self.level and aspect.missing is not None
        )


def level(measured: Measurement) -> Level:
    """Return the level of a measurement: the lowest level of its aspects."""
    aspects = (
        _granularity(measured),
        _timing(measured),
        _reported(measured),
        _fraction(measured),
        _subsystems(measured),
        _location(measured),
    )
    return Level(min(aspect.level for aspect in aspects), aspects)


def _aspect(name: str, found: str, rungs: Sequence[tuple[bool, str]]) -> Aspect:
    """Return the highest level reached. `rungs`: for levels 1, 2 and 3 (condition is met, condition). Levels are cumulative."""
    reached = 0
    for is_there, _ in rungs:
        if not is_there:
            break
        reached += 1
    return Aspect(name, reached, found, rungs[reached][1] if reached < len(rungs) else None)


def _granularity(one: Measurement) -> Aspect:
    interval = one.interval_seconds
    often = one.is_integrated or (interval is not None and interval <= 1.0)
    asks = "a sample each second or more often"
    found = "no samples" if interval is None else f"a sample every {interval:.3g} s"
    if one.is_integrated:
        found += ", energy integrated by the meter"
    return _aspect(
        "1a granularity",
        found,
        [(often, asks), (often, asks), (one.is_integrated, "energy that the meter integrates itself")],
    )


def _timing(one: Measurement) -> Aspect:
    core, run = one.core_share >= WHOLE, one.run_share is not None and one.run_share >= WHOLE
    found = f"{_percent(one.core_share)} of the core phase, "
    found += "of the whole run not known" if one.run_share is None else f"{_percent(one.run_share)} of the whole run"
    asks = "samples over the whole run, warm-up included, without a gap"
    return _aspect(
        "1b timing", found, [(core, "samples over the whole core phase, without a gap"), (run, asks), (run, asks)]
    )


def _reported(one: Measurement) -> Aspect:
    average = one.watts is not None
    idle = one.idle_watts is not None
    more = one.averages >= AVERAGES and one.run_share is not None and idle
    missing = [
        *([f"{AVERAGES} averages of the core phase"] if one.averages < AVERAGES else []),
        *(["the average of the whole run"] if one.run_share is None else []),
        *(["idle power"] if not idle else []),
    ]
    found = ("average of the core phase" if average else "no average") + f", {one.averages} of {AVERAGES} equal parts"
    found += f", idle {one.idle_watts:.4g} W" if one.idle_watts is not None else ", idle power not known"
    return _aspect(
        "1c what is reported",
        found,
        [
            (average, "average power of the core phase"),
            (more, ", ".join(missing)),
            (more and one.is_integrated, "energies instead of averages of power"),
        ],
    )


def _fraction(one: Measurement) -> Aspect:
    """Check the measured part of the machine against the requirements of each level.

    Levels 1 and 2 require a minimum share of the nodes, at least 15 nodes and a minimum power, or all nodes. Level 3
    requires all nodes.
    """
    watts = one.watts or 0.0
    whole = one.nodes >= one.all_nodes > 0

    def largest(share: float, least_watts: float) -> bool:
        return whole or (one.nodes >= max(15.0, share * one.all_nodes) and watts >= least_watts)

    found = f"{one.nodes} of {one.all_nodes} nodes" + (f", {watts:.4g} W" if one.watts is not None else "")
    return _aspect(
        "2 machine fraction",
        found,
        [
            (largest(1 / 10, 2e3), "the largest of a tenth of the nodes, 15 nodes and 2 kW, or all nodes"),
            (largest(1 / 8, 10e3), "the largest of an eighth of the nodes, 15 nodes and 10 kW, or all nodes"),
            (whole, "all nodes"),
        ],
    )


def _subsystems(one: Measurement) -> Aspect:
    all_ = one.participating
    covered = one.measured | one.estimated
    found = "measured: " + (", ".join(sorted(one.measured)) or "nothing")
    if one.estimated:
        found += f"; estimated: {', '.join(sorted(one.estimated))}"
    base = "nodes" in one.measured and "interconnect" in covered
    left = "nodes whole, and the interconnect" if all_ is None else ", ".join(sorted(all_ - covered)) or "nothing"
    return _aspect(
        "3 subsystems",
        found,
        [
            (base, "nodes measured whole (supplies, memory, fans), and the interconnect measured or estimated"),
            (all_ is not None and all_ <= covered, f"all that take part, measured or estimated; left out: {left}"),
            (all_ is not None and all_ <= one.measured, "all that take part, measured"),
        ],
    )


def _location(one: Measurement) -> Aspect:
    up = one.point == "upstream"
    adjusted = one.point == "downstream"
    loss = one.loss
    found = (
        one.point if up or one.point in ("unknown", "inside nodes") else f"downstream, losses of the supplies {loss}"
    )
    return _aspect(
        "4 point of measurement",
        found,
        [
            (up or (adjusted and loss != "not adjusted"), "upstream of the power supplies, or their losses modelled"),
            (
                up or (adjusted and loss in ("measured off line", "measured")),
                "upstream of the power supplies, or their losses measured off line",
            ),
            (
                up or (adjusted and loss == "measured"),
                "upstream of the power supplies, or their losses measured meanwhile",
            ),
        ],
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
