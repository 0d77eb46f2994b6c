"""Level of a measurement by the EE HPC Working Group's power measurement methodology, by aspect, with the missing conditions.

The Green500 accepts Level 1 and above. Rules and sources: docs/report.md.
"""

from __future__ import annotations

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


def level(one: Measurement) -> Level:
    """Return the level of a measurement: the lowest level of its aspects."""
    integrated, interval = one.is_integrated, one.interval_seconds
    often = integrated or (interval is not None and interval <= 1.0)
    core, run = one.core_share >= WHOLE, one.run_share is not None and one.run_share >= WHOLE
    detailed = one.averages >= AVERAGES and one.run_share is not None and one.idle_watts is not None
    covered, all_ = one.measured | one.estimated, one.participating
    is_base = "nodes" in one.measured and "interconnect" in covered
    left = "nodes whole, and the interconnect" if all_ is None else ", ".join(sorted(all_ - covered)) or "nothing"
    all_nodes = one.nodes >= one.all_nodes > 0

    def is_enough(share: float, least_watts: float) -> bool:
        many = one.nodes >= max(15.0, share * one.all_nodes)
        return all_nodes or (many and (one.watts or 0.0) >= least_watts)

    def is_before_supplies(*losses: Loss) -> bool:
        return one.point == "upstream" or (one.point == "downstream" and one.loss in losses)

    each_second = "a sample each second or more often"
    whole_run = "samples over the whole run, warm-up included, without a gap"
    aspects = (
        _aspect(
            "1a granularity",
            ("no samples" if interval is None else f"a sample every {interval:.3g} s")
            + (", energy integrated by the meter" if integrated else ""),
            (often, each_second),
            (often, each_second),
            (integrated, "energy that the meter integrates itself"),
        ),
        _aspect(
            "1b timing",
            f"{_percent(one.core_share)} of the core phase, "
            + (
                "of the whole run not known" if one.run_share is None else f"{_percent(one.run_share)} of the whole run"
            ),
            (core, "samples over the whole core phase, without a gap"),
            (run, whole_run),
            (run, whole_run),
        ),
        _aspect(
            "1c what is reported",
            ("no average" if one.watts is None else "average of the core phase")
            + f", {one.averages} of {AVERAGES} equal parts"
            + (", idle power not known" if one.idle_watts is None else f", idle {one.idle_watts:.4g} W"),
            (one.watts is not None, "average power of the core phase"),
            (detailed, ", ".join(_not_reported(one))),
            (detailed and integrated, "energies instead of averages of power"),
        ),
        _aspect(
            "2 machine fraction",
            f"{one.nodes} of {one.all_nodes} nodes" + ("" if one.watts is None else f", {one.watts:.4g} W"),
            (is_enough(1 / 10, 2e3), "the largest of a tenth of the nodes, 15 nodes and 2 kW, or all nodes"),
            (is_enough(1 / 8, 10e3), "the largest of an eighth of the nodes, 15 nodes and 10 kW, or all nodes"),
            (all_nodes, "all nodes"),
        ),
        _aspect(
            "3 subsystems",
            f"measured: {', '.join(sorted(one.measured)) or 'nothing'}"
            + (f"; estimated: {', '.join(sorted(one.estimated))}" if one.estimated else ""),
            (is_base, "nodes measured whole (supplies, memory, fans), and the interconnect measured or estimated"),
            (
                all_ is not None and all_ <= covered,
                f"all that take part, measured or estimated; left out: {left}",
            ),
            (all_ is not None and all_ <= one.measured, "all that take part, measured"),
        ),
        _aspect(
            "4 point of measurement",
            f"downstream, losses of the supplies {one.loss}" if one.point == "downstream" else one.point,
            (
                is_before_supplies("modelled", "measured off line", "measured"),
                "upstream of the power supplies, or their losses modelled",
            ),
            (
                is_before_supplies("measured off line", "measured"),
                "upstream of the power supplies, or their losses measured off line",
            ),
            (is_before_supplies("measured"), "upstream of the power supplies, or their losses measured meanwhile"),
        ),
    )
    return Level(min(aspect.level for aspect in aspects), aspects)


def _aspect(name: str, found: str, *conditions: tuple[bool, str]) -> Aspect:
    """Return the highest level reached. `conditions`: (is met, text) of levels 1, 2 and 3. Levels are cumulative."""
    reached = next((index for index, (is_met, _) in enumerate(conditions) if not is_met), len(conditions))
    return Aspect(name, reached, found, conditions[reached][1] if reached < len(conditions) else None)


def _not_reported(one: Measurement) -> list[str]:
    averages = [f"{AVERAGES} averages of the core phase"] if one.averages < AVERAGES else []
    run = ["the average of the whole run"] if one.run_share is None else []
    return averages + run + (["idle power"] if one.idle_watts is None else [])


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
