"""Measurement of nodes before a run (preflight): probes to run, nodes to exclude, and events for the journal."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aiperf.config import RunConf
from aiperf.data.errors import OtherData
from aiperf.errors import NoWorkers
from aiperf.files import host_name
from aiperf.journal.events import NodeChecked
from aiperf.measure.all_probes import Data, full, quick
from aiperf.measure.probe import CLOCK, NodeReadings, Setting, clock_offset, meeting
from aiperf.measure.prober import Prober
from aiperf.preflight import PreflightConf
from aiperf.preflight.node_faults import NodeVerdict, judge
from aiperf.system.describe import describe_usable, kind_in_words
from aiperf.system.of_run import HASH, PROBE, in_words, stored_once, system_description
from aiperf.units import counted


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """Result of preflight (measurement of nodes before a run): one event per node, and the excluded nodes."""

    events: tuple[NodeChecked, ...] = ()
    excluded: frozenset[str] = frozenset()
    """Ray's identifiers of nodes that must hold no worker."""
    gate: Any = None
    """`drive.ray.node_admission.NodeAdmission`, which checks nodes that join later. None if no node is checked."""


def depth(conf: RunConf) -> str:
    """Return the extent of preflight: 'full', 'quick' (fewer and shorter probes) or 'none' (no measurement)."""
    if conf.preflight.probes != "auto":
        return conf.preflight.probes
    return "quick" if conf.cluster is None else "full"


def check_here(conf: RunConf, parent: Path, *, is_full: bool) -> NodeReadings:
    system = describe_usable()
    count = len(system.accelerators)
    with meeting(parent) as (folder, mark):
        temporary = Path(tempfile.gettempdir())
        processors = system.usable_processors
        setting = Setting("127.0.0.1", folder, mark, temporary, count, processors, conf.dataset, conf.trainer.precision)
        with closing(Prober(setting)) as prober:
            probes = full() if is_full else quick()
            readings = {probe.name: prober.measure(probe, conf.preflight.seconds) for probe in probes}
    host, kind = host_name(), kind_in_words(system, processors, count)
    return NodeReadings(node="", address=host, host=host, kind=kind, is_head=True, readings=readings)


def node_checks(
    new: Sequence[NodeReadings], known: Sequence[NodeReadings], conf: PreflightConf
) -> tuple[NodeChecked, ...]:
    """Return one event for the journal per node in `new`, in the same sequence, with its measurements and faults."""
    verdicts = judge(known, conf)
    if conf.broken == "stop" and (faulty := [one for one in new if verdicts[one.node].faults]):
        faults = "; ".join(f"{one.host} ({one.address}): {', '.join(verdicts[one.node].faults)}" for one in faulty)
        raise NoWorkers(
            f"with preflight.broken=stop no run begins on nodes with a fault: {faults}. "
            "Fix these nodes, or begin without them: preflight.broken=exclude"
        )
    ours = {one.node for one in new}
    described = {hash for one in known if one.node not in ours and (hash := _hash(one)) is not None}
    return tuple(_event(one, verdicts[one.node], conf, described) for one in new)


def _hash(one: NodeReadings) -> str | None:
    """Return the hash of the node's description. An earlier event may contain the description itself."""
    reading = one.readings.get(PROBE)
    return None if reading is None else reading.facts.get(HASH)


def _event(one: NodeReadings, verdict: NodeVerdict, conf: PreflightConf, described: set[str]) -> NodeChecked:
    measured = one.readings.get(CLOCK)
    off = clock_offset(measured) if measured is not None and measured.failed is None else None
    return NodeChecked(
        at=0.0,
        address=one.address,
        host=one.host,
        readings=stored_once({name: msgspec.to_builtins(reading) for name, reading in one.readings.items()}, described),
        faults=list(verdict.faults),
        notes=list(verdict.notes),
        excluded=bool(verdict.faults) and conf.broken != "keep",
        clock_offset_seconds=None if off is None else off.seconds,
        clock_error_seconds=None if off is None else off.error,
        kind=one.kind,
        is_head=one.is_head,
        boot_id=one.boot_id,
    )


def changed_files(events: Sequence[NodeChecked]) -> OtherData | None:
    """Return the error to raise if the files of a copy differ from the index. A shared copy is no fault of one node."""
    faults = [
        f"{event.host} ({event.address}): {'; '.join(event.faults)}"
        for event in events
        if event.readings.get(Data.name, {}).get("facts", {}).get("changed")
    ]
    return OtherData(f"no run begins on changed files: {'; '.join(faults)}") if faults else None


def nobody_left(
    places: Mapping[str, str], excluded: Collection[str], events: Sequence[NodeChecked]
) -> NoWorkers | None:
    """Return the error to raise if all nodes that could hold a worker are excluded. None if a node is left."""
    if not places or not set(places) <= set(excluded):
        return None
    addresses = set(places.values())
    faults = "; ".join(f"{event.host}: {', '.join(event.faults)}" for event in events if event.address in addresses)
    return NoWorkers(
        f"a run needs at least one worker, but preflight excludes all {len(places)} nodes that could hold one. {faults}. "
        "Fix them, or use them as they are: preflight.broken=keep"
    )


def lines(events: Sequence[NodeChecked]) -> Iterator[str]:
    """Yield the lines that are printed about preflight: a count of nodes, each fault, and differences between nodes."""
    if not events:
        return
    excluded = sum(event.excluded for event in events)
    yield f"preflight    {counted(len(events), 'node')} checked, {excluded} excluded"
    for event in events:
        for fault in event.faults:
            yield f"  {event.host} ({event.address}){'' if event.excluded else ', kept'}: {fault}"
    system = system_description({}, events)
    yield from (f"  {line}" for line in in_words(system.differences, system.nodes))
