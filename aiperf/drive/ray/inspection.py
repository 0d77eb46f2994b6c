"""Preflight of a Ray cluster's nodes: sequence of the probes. A slow node is measured again while the others are idle."""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.data.dataset_config import DataSetConf
from aiperf.drive.ray.ray_worker import last_line
from aiperf.files import host_name
from aiperf.measure.all_probes import full, quick
from aiperf.measure.all_reduce import AllReduce, rounds
from aiperf.measure.disk import AT_ONCE, DiskRate, DiskWrite, FreeSpace
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
    meeting,
)
from aiperf.measure.prober import Prober
from aiperf.preflight import PreflightConf
from aiperf.preflight.node_faults import ALL, FAILED_WITH, PAIRS, blamed, judge
from aiperf.system.describe import describe, kind_in_words
from aiperf.train.trainer_config import TrainerConf

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


Node = Mapping[str, Any]
"""Entry of ray.nodes()."""
Probes = Callable[[], Sequence[Probe]]
Show = Callable[[str], None]
"""Function that is called with the name of each probe before it begins."""


def silent(name: str) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class NodeInspection:
    """Measurement of the nodes of a Ray cluster before a run (preflight), with its parameters."""

    conf: PreflightConf
    dataset: DataSetConf
    trainer: TrainerConf
    parent: Path
    """Parent of the folder in which nodes meet: the run's folder, or that of all runs."""
    head: str
    """Identifier of the driver's own node."""
    is_full: bool
    probes: Probes | None = None
    clock: Clock = time.time
    _begun: list[Inspector] = field(default_factory=list)
    """Nodes of the check in progress."""
    _is_over: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Stop the measurement, from another thread. `of` then returns within seconds, with unfinished nodes as lost."""
        self._is_over.set()
        recall(list(self._begun))

    def of(self, nodes: Sequence[Node], show: Show = silent) -> list[NodeReadings]:
        """Measure these nodes and return the measurements of each, in the same sequence. Takes seconds to minutes."""
        with meeting(self.parent) as (folder, mark):
            setting = Setting("", folder, mark, Path(), 0, 1, self.dataset, self.trainer.precision)
            self._begun.extend(
                sent_to(node, setting, self.clock, is_head=node["NodeID"] == self.head) for node in nodes
            )
            try:
                if self._is_over.is_set():
                    recall(self._begun)
                return _Work(self, list(self._begun), show).run()
            finally:
                recall(self._begun)
                self._begun.clear()


class _Work:
    def __init__(self, how: NodeInspection, inspectors: Sequence[Inspector], show: Show) -> None:
        self._how = how
        self._show = show
        self._conf = how.conf
        self._inspectors = inspectors
        self._readings: dict[str, dict[str, ProbeReading]] = {one.node: {} for one in inspectors}

    def run(self) -> list[NodeReadings]:
        self._keep(introduced(self._inspectors, self._conf.seconds))
        self._keep({one.node: clock_of(one, time.time, self._conf.seconds) for one in self._live()})
        usual = full if self._how.is_full else quick
        for probe in self._how.probes() if self._how.probes else usual(len(self._inspectors)):
            self._show(probe.name)
            is_shared = isinstance(probe, DiskRate)
            nodes = [one for one in self._live() if not is_shared or self._reaches_folder(one)]
            probes = {one.node: probe for one in nodes}
            self._keep(measure_all(probes, nodes, self._conf.seconds, AT_ONCE if is_shared else None))
        if self._how.is_full:
            self._in_pairs()
            self._together()
            self._once_more()
        return [one.measured(self._readings[one.node]) for one in self._inspectors]

    def _live(self) -> list[Inspector]:
        return [one for one in self._inspectors if not one.is_silent]

    def _reaches_folder(self, one: Inspector) -> bool:
        """Return False after a failed access to the shared folder, so that a server that hangs delays few groups of nodes."""
        earlier = [self._readings[one.node].get(name) for name in (FreeSpace.name, DiskWrite.name)]
        return all(reading is None or reading.failed is None for reading in earlier)

    def _meeting(self) -> list[Inspector]:
        """Return the nodes that can exchange data: those that see the shared folder."""
        return [
            one
            for one in self._live()
            if (space := self._readings[one.node].get("space")) is not None and space.facts.get("is_shared")
        ]

    def _exchanging(self) -> list[Inspector]:
        """Return the nodes that will train: those with accelerators, or all nodes if none has any."""
        able = self._meeting()
        return [one for one in able if one.accelerators] or able

    def _keep(self, readings: Mapping[str, ProbeReading]) -> None:
        for node, reading in readings.items():
            self._readings[node][reading.probe] = reading

    def _in_pairs(self) -> None:
        able = self._exchanging()
        for number, each in enumerate(pairings := rounds(len(able)), start=1):
            self._show(f"all-reduce of pairs, round {number} of {len(pairings)}")
            self._exchange([[able[a], able[b]] for a, b in each if self._may(able[a]) and self._may(able[b])])
        self._blame(able)

    def _may(self, one: Inspector) -> bool:
        """Return True if a node may exchange data. A node with two failures and no success would only delay the others."""
        reading = self._readings[one.node].get(PAIRS)
        return not one.is_silent and (reading is None or bool(reading.series) or len(reading.facts[FAILED_WITH]) < 2)

    def _exchange(self, groups: Sequence[Sequence[Inspector]]) -> None:
        """Let all pairs exchange at the same time. Add the result to the reading of each end."""
        for group, readings in zip(groups, self._reduced(groups), strict=True):
            for one, other in (group, group[::-1]):
                before = self._readings[one.node].get(PAIRS) or ProbeReading(
                    probe=PAIRS, unit="B/s", facts={FAILED_WITH: {}}
                )
                self._readings[one.node][PAIRS] = _added(before, other.address, readings[one.node])

    def _reduced(self, groups: Sequence[Sequence[Inspector]]) -> list[dict[str, ProbeReading]]:
        limit = self._conf.seconds
        probes: dict[str, Probe] = {}
        for group in groups:
            name, on_host = f"meeting-{secrets.token_hex(8)}", any(not one.accelerators for one in group)
            for rank, one in enumerate(group):
                # they give up on each other before they are given up
                probes[one.node] = AllReduce(rank, len(group), name, limit / 2, on_host)
        readings = measure_all(probes, [one for group in groups for one in group], limit)
        return [{one.node: readings[one.node] for one in group} for group in groups]

    def _blame(self, able: Sequence[Inspector]) -> None:
        """Remove failed exchanges from the readings of nodes that did not cause them."""
        index = {one.address: number for number, one in enumerate(able)}
        done: list[tuple[int, int]] = []
        broken: list[tuple[int, int]] = []
        for number, one in enumerate(able):
            reading = self._readings[one.node].get(PAIRS)
            if reading is not None:
                failed_with = reading.facts[FAILED_WITH]
                broken += [(number, index[address]) for address in failed_with if number < index[address]]
                done += [(number, index[address]) for address in reading.facts["with"] if address not in failed_with]
        whose = blamed(len(able), done, broken)
        for number, one in enumerate(able):
            reading = self._readings[one.node].get(PAIRS)
            if reading is not None and reading.facts[FAILED_WITH]:
                theirs = {able[partner].address for partner in whose.get(number, [])}
                kept = {address: why for address, why in reading.facts[FAILED_WITH].items() if address in theirs}
                facts = reading.facts | {FAILED_WITH: kept}
                self._readings[one.node][PAIRS] = msgspec.structs.replace(reading, facts=facts)

    def _together(self) -> None:
        able = [
            one for one in self._exchanging() if not self._readings[one.node].get(PAIRS, _NONE).facts.get(FAILED_WITH)
        ]
        if len(able) > 1:
            self._show("all-reduce of all nodes")
            (readings,) = self._reduced([able])
            self._keep({node: msgspec.structs.replace(reading, probe=ALL) for node, reading in readings.items()})

    def _once_more(self) -> None:
        """Measure slow nodes again, one after the other. All measured values are kept."""
        measured = [one.measured(self._readings[one.node]) for one in self._inspectors]
        verdicts = judge(measured, self._conf)
        probes_by_name = {probe.name: probe for probe in (self._how.probes or full)()}
        able = self._exchanging()
        for one in self._live():
            for name in verdicts[one.node].slow:
                self._show(f"{name} of {one.host} again")
                before = self._readings[one.node][name]
                if name == PAIRS:
                    partner = next((each for each in able if each is not one and not verdicts[each.node].faults), None)
                    if partner is not None and self._may(one):
                        self._exchange([[one, partner]])
                else:
                    readings = measure_all({one.node: probes_by_name[name]}, [one], self._conf.seconds)[one.node]
                    self._readings[one.node][name] = _joined(before, readings)


_NONE = ProbeReading(probe=PAIRS, unit="")


def _added(before: ProbeReading, partner: str, readings: ProbeReading) -> ProbeReading:
    """Add a pair's exchange to the reading of one of its nodes, with the key 'ADDRESS, 1048576 B' for partner and size."""
    facts = before.facts | {"with": sorted({*before.facts.get("with", []), partner})}
    if readings.failed is not None:
        facts |= {FAILED_WITH: before.facts[FAILED_WITH] | {partner: readings.failed}}
        return msgspec.structs.replace(before, facts=facts, seconds=before.seconds + readings.seconds)
    series = {f"{partner}, {size} B": values for size, values in readings.series.items()}
    merged = {
        name: [*before.series.get(name, []), *series.get(name, [])] for name in before.series.keys() | series.keys()
    }
    facts |= {name: readings.facts[name] for name in ("over", "interface")}
    return msgspec.structs.replace(before, series=merged, facts=facts, seconds=before.seconds + readings.seconds)


def _joined(before: ProbeReading, more: ProbeReading) -> ProbeReading:
    if more.failed is not None:
        return msgspec.structs.replace(before, failed=more.failed)
    series = {name: [*before.series.get(name, []), *more.series[name]] for name in more.series}
    return msgspec.structs.replace(before, series=series, seconds=before.seconds + more.seconds)
