"""One node during preflight (measurement before a run): a Ray actor that runs the probes there."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.drive.ray.ray_worker import last_line
from aiperf.files import host_name
from aiperf.measure.probe import (
    CLOCK,
    ROUND_TRIPS,
    NodeReadings,
    Probe,
    ProbeReading,
    RoundTrip,
    Setting,
    clock_reading,
    failed,
)
from aiperf.measure.prober import Prober
from aiperf.system.describe import describe, kind_in_words

GRACE_SECONDS = 15.0
"""Additional time for an answer, after the probe's own limit on the node."""
CLOCK_SECONDS = 5.0
"""Limit of one round trip. All round trips together have the limit of a probe."""
START = "start"
"""Name of the reading of a node on which preflight could not begin."""

Clock = Callable[[], float]
"""Clock function: time.time, or a module-level function that simulates a wrong clock."""


@ray.remote(num_cpus=0)
class _Actor:
    def __init__(self, setting: Setting, now: Clock) -> None:
        setting = replace(setting, temporary=Path(tempfile.gettempdir()))
        self._prober = Prober(setting)
        self._setting = setting
        self._now = now

    def who(self) -> tuple[str, str, str | None]:
        """Return host name, kind of the node (processors and accelerators), and boot identifier."""
        system = describe()
        kind = kind_in_words(system, self._setting.processors, self._setting.accelerators)
        return host_name(), kind, system.boot_id

    def clock(self) -> tuple[float, float]:
        received = self._now()
        return received, self._now()

    def measure(self, probe: Probe, seconds: float) -> ProbeReading:
        return self._prober.measure(probe, seconds)

    def close(self) -> None:
        self._prober.close()


@dataclass(slots=True)
class Inspector:
    """Node that is being measured before a run, with the Ray actor that runs the probes on it."""

    node: str
    address: str
    accelerators: int
    is_head: bool
    actor: Any
    host: str = ""
    kind: str = ""
    boot_id: str | None = None
    is_silent: bool = False
    """True if it did not answer in time or its actor is lost. It receives no more probes."""

    def measured(self, readings: Mapping[str, ProbeReading]) -> NodeReadings:
        """Return all measurements of this node with its name, address and kind."""
        return NodeReadings(
            node=self.node,
            address=self.address,
            host=self.host or self.address,
            kind=self.kind,
            is_head=self.is_head,
            readings=dict(readings),
            boot_id=self.boot_id,
        )


def sent_to(node: Mapping[str, Any], setting: Setting, now: Clock, *, is_head: bool) -> Inspector:
    """Request a Ray actor for probes (measurements) on a node. Return at once, before the actor runs."""
    identifier, address = str(node["NodeID"]), str(node["NodeManagerAddress"])
    accelerators = int(node["Resources"].get("GPU", 0))
    processors = max(1, int(node["Resources"].get("CPU", 0)))
    its = replace(setting, address=address, accelerators=accelerators, processors=processors)
    actor = _Actor.options(  # type: ignore[attr-defined]
        num_gpus=accelerators, scheduling_strategy=NodeAffinitySchedulingStrategy(identifier, soft=False)
    ).remote(its, now)
    return Inspector(identifier, address, accelerators, is_head, actor)


def introduced(inspectors: Sequence[Inspector], seconds: float) -> dict[str, ProbeReading]:
    """Wait up to `seconds` + 15 s until each node has described itself, and store host name, kind and boot in its inspector."""
    missing: dict[str, ProbeReading] = {}
    for one, answer, why in _answers({one.actor.who.remote(): one for one in inspectors}, seconds + GRACE_SECONDS):
        if why is None:
            one.host, one.kind, one.boot_id = answer
        else:
            busy = f", or its {one.accelerators} accelerators are in use" if one.accelerators else ""
            missing[one.node] = ProbeReading(probe=START, unit="", failed=f"{why}{busy}")
    return missing


def measure_all(
    probes: Mapping[str, Probe], inspectors: Sequence[Inspector], seconds: float, at_once: int | None = None
) -> dict[str, ProbeReading]:
    """Run one probe (measurement) per node, all or `at_once` at the same time."""
    asked = [one for one in inspectors if not one.is_silent and one.node in probes]
    readings: dict[str, ProbeReading] = {}
    size = at_once or max(1, len(asked))
    for first in range(0, len(asked), size):
        calls = {one.actor.measure.remote(probes[one.node], seconds): one for one in asked[first : first + size]}
        for one, answer, why in _answers(calls, seconds + GRACE_SECONDS):
            readings[one.node] = answer if why is None else failed(probes[one.node], why)
    return readings


def _answers(calls: Mapping[Any, Inspector], limit: float) -> Iterator[tuple[Inspector, Any, str | None]]:
    """Yield the answer of each node, or the reason for its silence. A silent node receives no more probes."""
    done = ray.wait([*calls], num_returns=len(calls), timeout=limit)[0] if calls else []
    for call, one in calls.items():
        answer: Any = None
        why: str | None = f"no answer from {one.address} in {limit:g} s: the node hangs, or cannot be reached"
        if call in done:
            try:
                answer, why = ray.get(call), None
            except RayError as error:
                why = f"{one.address} was lost: {last_line(error)}"
        one.is_silent = why is not None
        yield one, answer, why


def clock_of(inspector: Inspector, now: Clock, seconds: float) -> ProbeReading:
    """Measure the offset of a node's clock by up to 8 messages to it and back, one after the other."""
    trips: list[RoundTrip] = []
    deadline = time.monotonic() + seconds
    while len(trips) < ROUND_TRIPS and time.monotonic() < deadline:
        asking = now()
        ((_, times, why),) = _answers({inspector.actor.clock.remote(): inspector}, CLOCK_SECONDS)
        if why is not None:
            return ProbeReading(probe=CLOCK, unit="seconds", failed=why)
        received, answered = times
        trips.append(RoundTrip(asking, received, answered, now()))
    return clock_reading(trips)


def recall(inspectors: Sequence[Inspector]) -> None:
    """Kill the actors for probes on these nodes, including any that hang."""
    for one in inspectors:
        ray.kill(one.actor)  # its process ends with it
