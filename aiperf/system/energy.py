"""What a run's energy came to, by each way that it was measured: counters and samples side by side, over what was measured.

A gap adds nothing and is told: power is the mean of the time that was measured, and how much of the window that is stands
beside it. FLOPS/W is the score ÷ that power.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from aiperf.run_warning import RunWarning
from aiperf.system.eehpc import Level, Measurement, level
from aiperf.system.meters import Meter, measurement
from aiperf.system.summary import DeviceTelemetry, Telemetry

DISAGREEMENT = 0.05
"""Between a counter and the integral of power samples: beyond it one of them is wrong."""


@dataclass(frozen=True, slots=True)
class Energy:
    """Of some devices together, over the run's valid window. None = not measured."""

    scope: str
    """'accelerators', 'processors' or 'meters': what is behind the figures."""
    devices: int
    joules: float | None
    """Counters, and samples where there is none. Of the time that was measured; None when any device gives none."""
    measured_share: float
    """Of the seconds in the window that the devices were there; the rest are gaps, and in no figure of energy."""
    watts: float | None
    """Mean over the window: of each device its mean over the time that it was measured, for as long as it was there."""
    counted_joules: float | None
    """By counters alone, over the seconds that both tell."""
    sampled_joules: float | None
    """By power samples alone, over the same seconds: the trapezoidal rule."""
    disagreement: float | None
    """Samples ÷ counters − 1, over those seconds. None: not both were there."""
    worst_disagreement: float | None
    """Of the device whose two figures differ most."""
    worst_device: str | None
    counted_share: float | None
    """Of the seconds that energy was measured in, those that the counters told."""
    counter_restarts: int
    """Times a counter began anew: the time in between is told by samples, or is a gap."""
    flops_per_watt: float | None
    """Score ÷ watts: of this scope alone, and of no more."""


@dataclass(frozen=True, slots=True)
class EnergyFacts:
    """All that was measured of a run's energy, and the level that its best measurement reaches."""

    scopes: tuple[Energy, ...]
    """The widest first: meters, accelerators, processors."""
    level: Level
    of: str
    """The scope whose level it is."""

    @property
    def best(self) -> Energy:
        """The one that is shown beside the score: the widest."""
        return self.scopes[0]


def energy_facts(
    telemetry: Telemetry | None,
    meters: tuple[Meter, ...],
    nodes: Collection[str],
    flops_per_second: float | None,
    there: Mapping[int, float],
    window_seconds: float,
) -> EnergyFacts | None:
    """Of a run's valid window; None where no power was measured at all.

    `nodes`: the hosts of its workers; `flops_per_second`: its score; `there`: seconds in the window that each worker was there.
    A worker that was not there has no device in any figure. A host stands there all the time.
    """
    devices = [] if telemetry is None else [one for one in telemetry.devices if one.worker in there]
    accelerators = [one for one in devices if one.device.kind == "accelerator"]
    hosts = _once_a_host([one for one in devices if one.device.kind == "host"])

    def of(scope: str, some: Sequence[DeviceTelemetry], seconds: Sequence[float]) -> Energy | None:
        return _energy(scope, some, seconds, window_seconds, flops_per_second)

    found = [
        of("meters", [meter.window for meter in meters], [window_seconds] * len(meters)),
        of("accelerators", accelerators, [there[one.worker] for one in accelerators]),
        of("processors", hosts, [window_seconds] * len(hosts)),
    ]
    scopes = tuple(one for one in found if one is not None)
    if not scopes:
        return None
    if meters:
        return EnergyFacts(scopes, level(measurement(meters, len(nodes))), "meters")
    return EnergyFacts(scopes, level(_sensors(scopes, [*accelerators, *hosts], nodes)), "sensors inside the nodes")


def energy_warnings(facts: EnergyFacts) -> tuple[RunWarning, ...]:
    """Where counters and samples tell unlike stories of the same seconds."""
    return tuple(
        RunWarning(
            f"energy of the {one.scope} by counters and by power samples differs by {100 * one.worst_disagreement:+.1f} % "
            f"on {one.worst_device}: one of the two is wrong, or the sensor sees a part of the time",
            "warning",
            "hold both against an external meter (docs/energy.md), and publish neither before one of them is explained",
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
    """`there`: of each device the seconds in the window that it was there."""
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
    """Workers that share a host have each recorded it: the one that saw most of it stands for it."""
    best: dict[str, DeviceTelemetry] = {}
    for one in hosts:
        if one.host not in best or one.energy_seconds > best[one.host].energy_seconds:
            best[one.host] = one
    return list(best.values())


def _sensors(scopes: Sequence[Energy], devices: Sequence[DeviceTelemetry], nodes: Collection[str]) -> Measurement:
    """Sensors on boards and in processors: they see no whole node, and lie behind its power supplies."""
    measured = [one for one in devices if one.energy_joules is not None]
    watts = [scope.watts for scope in scopes]
    known = [each for each in watts if each is not None]
    return Measurement(
        interval_seconds=max(one.interval_seconds for one in measured),
        is_integrated=all(scope.counted_share == 1.0 for scope in scopes),
        core_share=min(scope.measured_share for scope in scopes),
        run_share=None,
        averages=0,
        idle_watts=None,
        nodes=len({one.host for one in measured}),
        all_nodes=len(nodes),
        watts=math.fsum(known) if known else None,
        measured=frozenset(scope.scope for scope in scopes),
        estimated=frozenset(),
        participating=None,
        point="inside nodes",
        loss="not adjusted",
    )
