"""Energy of a run from counters and from power samples, over the measured time. A gap adds no energy."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from aiperf.run_warning import RunWarning
from aiperf.system.meters import Aspect, Level, Measurement, Meter, level, measurement
from aiperf.system.summary import DeviceTelemetry, Telemetry

DISAGREEMENT = 0.05
"""Largest plausible difference between a counter and integrated samples, or between a meter and the sensors behind it."""
CONTRADICTION = "0 plausibility"
SENSORS = "5 sensors inside"
"""Aspect of a meter of whole nodes. Without it the meter is alone: nothing shows that it is behind these nodes."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a group of devices over the run's valid window. None if not measured."""

    scope: str
    """Measured parts: 'accelerators', 'processors' or 'meters'."""
    devices: int
    joules: float | None
    """Energy of the measured time by counters, or by samples without a counter. None if any device has neither."""
    measured_share: float
    """Measured share of the seconds in which the devices were present. Gaps are in no energy value."""
    watts: float | None
    """Mean over the window: mean of each device over its measured time, weighted by its time of presence."""
    counted_joules: float | None
    """Energy by counters alone, over the seconds that counters and samples both cover."""
    sampled_joules: float | None
    """Energy by power samples alone, over the same seconds, by the trapezoidal rule."""
    disagreement: float | None
    """Samples ÷ counters − 1, over the same seconds. None unless both exist."""
    worst_disagreement: float | None
    """Disagreement of the device with the largest difference."""
    worst_device: str | None
    counted_share: float | None
    """Share of the measured seconds that counters cover."""
    counter_restarts: int
    """Number of counter resets. Samples cover the time in between, or it is a gap."""
    flops_per_watt: float | None
    """Score ÷ watts of this scope alone."""


@dataclass(frozen=True, slots=True)
class EnergyFacts:
    """Energy of a run by measured scope, and the EE HPC level of its best measurement."""

    scopes: tuple[Energy, ...]
    """Widest scope first: meters, accelerators, processors."""
    level: Level
    of: str
    """Scope of the level."""

    @property
    def best(self) -> Energy:
        return self.scopes[0]


def energy_facts(
    telemetry: Telemetry | None,
    meters: tuple[Meter, ...],
    nodes: Collection[str],
    flops_per_second: float | None,
    there: Mapping[int, float],
    window_seconds: float,
) -> EnergyFacts | None:
    """Return the energy of a run's valid window and its EE HPC level. None without measured energy.

    `nodes`: hosts of the workers. `there`: seconds of presence in the window, by worker number. Devices of a worker that was
    not present count in no value. A host is present all the time.
    """
    devices = [] if telemetry is None else [one for one in telemetry.devices if one.worker in there]
    accelerators = [one for one in devices if one.device.kind == "accelerator"]
    hosts = _once_a_host([one for one in devices if one.device.kind == "host"])

    def of(scope: str, some: Sequence[DeviceTelemetry], seconds: Sequence[float]) -> Energy | None:
        return _energy(scope, some, seconds, window_seconds, flops_per_second)

    measured = [
        of("meters", [meter.window for meter in meters], [window_seconds] * len(meters)),
        of("accelerators", accelerators, [there[one.worker] for one in accelerators]),
        of("processors", hosts, [window_seconds] * len(hosts)),
    ]
    scopes = tuple(one for one in measured if one is not None)
    if not scopes:
        return None
    if meters:
        reached = level(measurement(meters, len(nodes)))
        inside = _watts_of_hosts([*accelerators, *hosts], there, window_seconds)
        sensors = _sensors_inside(meters, inside, {one.host for one in accelerators if one.power_mean_watts is None})
        reached = Level(min(reached.level, sensors.level), (*reached.aspects, sensors))
        if (contradiction := _contradiction(meters, inside)) is not None:
            scopes = tuple(replace(one, flops_per_watt=None) if one.scope == "meters" else one for one in scopes)
            reached = Level(0, (contradiction, *reached.aspects))
        return EnergyFacts(scopes, reached, "meters")
    return EnergyFacts(scopes, level(_sensors(scopes, [*accelerators, *hosts], nodes)), "sensors inside the nodes")


def _watts_of_hosts(
    devices: Sequence[DeviceTelemetry], there: Mapping[int, float], window_seconds: float
) -> dict[str, float]:
    watts: dict[str, float] = {}
    for one in devices:
        seconds = there[one.worker] if one.device.kind == "accelerator" else window_seconds
        share = seconds / window_seconds if window_seconds > 0 else 0.0
        watts[one.host] = watts.get(one.host, 0.0) + (one.power_mean_watts or 0.0) * share
    return watts


def _sensors_inside(meters: Sequence[Meter], inside: Mapping[str, float], partly: Collection[str]) -> Aspect:
    """Return whether sensors in every metered node show at most the power of the meters. `partly`: hosts that lack sensors."""
    whole = [meter for meter in meters if "nodes" in meter.form.measured]
    nodes, metered = (
        sum(meter.form.nodes for meter in whole),
        sum(meter.window.power_mean_watts or 0.0 for meter in whole),
    )
    watts = sorted(watts for host, watts in inside.items() if watts > 0.0 and host not in partly)
    least = math.fsum(watts[:nodes])
    found = f"sensors in {len(watts)} nodes, {nodes} metered"
    if is_met := len(watts) >= nodes:
        found, is_met = f"meters {metered:.4g} W, sensors {least:.4g} W", metered >= least
    condition = "power by sensors in every metered node, at most that of the meters"
    return Aspect(SENSORS, int(is_met), found, None if is_met else condition)


def _contradiction(meters: Sequence[Meter], inside: Mapping[str, float]) -> Aspect | None:
    """Compare meters of whole nodes with the sensors inside, by the hosts with the lowest power. None if they agree."""
    whole = [meter for meter in meters if "nodes" in meter.form.measured]
    measured = [meter.window.power_mean_watts for meter in whole]
    if not whole or None in measured:
        return None
    nodes = sum(meter.form.nodes for meter in whole)
    metered, least = math.fsum(each or 0.0 for each in measured), math.fsum(sorted(inside.values())[:nodes])
    if metered >= (1 - DISAGREEMENT) * least:
        return None
    found = (
        f"meters behind {nodes} whole nodes read {metered:.4g} W; accelerators and processors inside draw {least:.4g} W"
    )
    return Aspect(CONTRADICTION, 0, found, "meters that read at least what the sensors inside the nodes do")


def energy_warnings(facts: EnergyFacts) -> tuple[RunWarning, ...]:
    contradictions = tuple(
        RunWarning(
            f"the power is contradictory: {aspect.found}",
            "critical",
            "check which nodes and phases each meter is behind, its unit and its factor (docs/report.md)",
        )
        for aspect in facts.level.aspects
        if aspect.name == CONTRADICTION
    )
    return contradictions + tuple(
        RunWarning(
            f"energy of the {one.scope} by counters and by power samples differs by {100 * one.worst_disagreement:+.1f} % "
            f"on {one.worst_device}: one of the two is wrong, or the sensor covers only a part of the time",
            "warning",
            "compare both with an external meter (docs/report.md). Do not publish either before the difference is explained",
        )
        for one in facts.scopes
        if one.worst_disagreement is not None and abs(one.worst_disagreement) > DISAGREEMENT
    )


def _energy(
    scope: str,
    devices: Sequence[DeviceTelemetry],
    there: Sequence[float],
    window_seconds: float,
    flops_per_second: float | None,
) -> Energy | None:
    known = [one for one in devices if one.energy_joules is not None]
    if not known:
        return None
    is_whole = len(known) == len(devices)
    watts = None
    if is_whole and window_seconds > 0:
        joules = ((one.power_mean_watts or 0.0) * seconds for one, seconds in zip(devices, there, strict=True))
        watts = math.fsum(joules) / window_seconds
    both = [one for one in known if one.both_counted_joules is not None and one.both_sampled_joules is not None]
    counted = math.fsum(one.both_counted_joules or 0.0 for one in both) if both else None
    sampled = math.fsum(one.both_sampled_joules or 0.0 for one in both) if both else None
    apart = [(one.energy_disagreement, one) for one in both if one.energy_disagreement is not None]
    worst = max(apart, key=lambda pair: abs(pair[0]), default=None)
    seconds = math.fsum(one.energy_seconds for one in devices)
    whole = math.fsum(there)
    shares = [(one.energy_counted_share or 0.0) * one.energy_seconds for one in known]
    return Energy(
        scope=scope,
        devices=len(devices),
        joules=math.fsum(one.energy_joules or 0.0 for one in known) if is_whole else None,
        measured_share=min(1.0, seconds / whole) if whole > 0 else 0.0,
        watts=watts,
        counted_joules=counted,
        sampled_joules=sampled,
        disagreement=sampled / counted - 1 if counted and sampled is not None else None,
        worst_disagreement=None if worst is None else worst[0],
        worst_device=None if worst is None else f"{worst[1].device.model or worst[1].device.id} on {worst[1].host}",
        counted_share=math.fsum(shares) / seconds if seconds > 0 else None,
        counter_restarts=sum(one.counter_restarts for one in devices),
        flops_per_watt=flops_per_second / watts if flops_per_second is not None and watts else None,
    )


def _once_a_host(hosts: Sequence[DeviceTelemetry]) -> list[DeviceTelemetry]:
    """Keep one recorder per host: the one with the longest measured time. Workers of a host each record the host."""
    best: dict[str, DeviceTelemetry] = {}
    for one in sorted(hosts, key=lambda one: -one.energy_seconds):
        best.setdefault(one.host, one)
    return list(best.values())


def _sensors(scopes: Sequence[Energy], devices: Sequence[DeviceTelemetry], nodes: Collection[str]) -> Measurement:
    """Return the measurement by sensors on boards and in processors. They are behind the node's power supplies."""
    measured = [one for one in devices if one.energy_joules is not None]
    watts = [scope.watts for scope in scopes]
    known = [each for each in watts if each is not None]
    return Measurement(
        interval_seconds=max(one.interval_seconds for one in measured),
        is_integrated=all(scope.counted_share == 1.0 for scope in scopes),
        core_share=min(scope.measured_share for scope in scopes),
        nodes=len({one.host for one in measured}),
        all_nodes=len(nodes),
        watts=math.fsum(known) if known else None,
        measured=frozenset(scope.scope for scope in scopes),
        estimated=frozenset(),
        point="inside nodes",
        loss="not adjusted",
    )
