"""Which level of the EE HPC Working Group's power measurement methodology a measurement reaches, aspect by aspect, and what is
missing for the next. The Green500 takes Level 1 and above. The law, with its sources: docs/energy.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Point = Literal["unknown", "inside nodes", "downstream", "upstream"]
"""Where in the path of the current: on a board behind the power supplies; between them and the node; before them."""
Loss = Literal["not adjusted", "modelled", "measured off line", "measured"]
"""How what the power supplies lose was added, where the point lies behind them."""

WHOLE = 0.999
"""Of a phase: so much of it, sampled, is all of it. A sample at each edge may be missing."""
AVERAGES = 10
"""Equally spaced in the core phase, from Level 2 on."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is known of how power was measured. None = not known, which reaches no level."""

    interval_seconds: float | None
    """Between samples."""
    is_integrated: bool
    """Whether the meter integrates energy itself, without a break, and its counter is what was read."""
    core_share: float
    """Of the core phase (the run's valid window), what was measured."""
    run_share: float | None
    """Of the whole run, warm-up included, what was measured."""
    averages: int
    """Equal parts of the core phase of which each was measured whole; 10 are asked for."""
    idle_watts: float | None
    nodes: int
    """Behind the meters."""
    all_nodes: int
    """That took part in the run."""
    watts: float | None
    """Mean over what was measured."""
    measured: frozenset[str]
    """Subsystems: of 'accelerators', 'processors', 'nodes', 'interconnect', 'storage', 'cooling', …"""
    estimated: frozenset[str]
    participating: frozenset[str] | None
    """All subsystems that took part, as the site says. None: it does not say."""
    point: Point
    loss: Loss


@dataclass(frozen=True, slots=True)
class Aspect:
    """One of the methodology's aspects."""

    name: str
    level: int
    """0 to 3."""
    found: str
    missing: str | None
    """For the next level; None: there is none above."""


@dataclass(frozen=True, slots=True)
class Level:
    """That of the lowest aspect."""

    level: int
    aspects: tuple[Aspect, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """What keeps the measurement from the next level, an aspect each."""
        return tuple(
            f"{aspect.name}: {aspect.missing}"
            for aspect in self.aspects
            if aspect.level == self.level and aspect.missing is not None
        )


def level(measured: Measurement) -> Level:
    """The level of a measurement: the lowest of its aspects, as the methodology has it."""
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
    """`rungs`: of levels 1, 2, 3 whether what it asks for is there, and what that is. A level stands on those below it."""
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
    """Levels 1 and 2 ask for the largest of a share of the system, a power and 15 nodes, or for the whole of a smaller one."""
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
    told = one.measured | one.estimated
    found = "measured: " + (", ".join(sorted(one.measured)) or "nothing")
    if one.estimated:
        found += f"; estimated: {', '.join(sorted(one.estimated))}"
    base = "nodes" in one.measured and "interconnect" in told
    left = "nodes whole, and the interconnect" if all_ is None else ", ".join(sorted(all_ - told)) or "nothing"
    return _aspect(
        "3 subsystems",
        found,
        [
            (base, "nodes measured whole (supplies, memory, fans), and the interconnect measured or estimated"),
            (all_ is not None and all_ <= told, f"all that take part, measured or estimated; left out: {left}"),
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
