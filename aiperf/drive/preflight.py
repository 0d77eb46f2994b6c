"""Preflight of a run: who is checked and how deep, what becomes of those with a fault, and what the journal is told of it.

The nodes that stand are checked before the plan is made; those that join later by the gate (`drive/ray/gate.py`), before a
worker is started on them. On this machine alone the driver's own process asks, without Ray.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from aiperf.config import RunConf
from aiperf.errors import NoWorkers
from aiperf.journal.events import NodeChecked
from aiperf.journal.messages import Inspected
from aiperf.preflight import clock
from aiperf.preflight.judge import Verdict, judge
from aiperf.preflight.meeting import meeting
from aiperf.preflight.preflight_config import PreflightConf
from aiperf.preflight.prober import Prober
from aiperf.preflight.probes.listed import full, quick
from aiperf.preflight.reading import Measured, Setting
from aiperf.system.describe import System, describe
from aiperf.system.description.differences import in_words
from aiperf.system.description.of_run import HASH, PROBE, stored_once, system_description


class Gate(Protocol):
    """Which nodes may hold a worker: see `drive.ray.gate`, which knows what `nodes` and `there` are."""

    @property
    def excluded(self) -> AbstractSet[str]:
        """Nodes that are to hold no worker, by Ray's identifiers."""
        ...

    def look(self, nodes: Sequence[Mapping[str, Any]], there: Any) -> tuple[Any, list[Inspected]]:
        """The places that may be used now, and what is new of nodes that were checked."""
        ...

    def close(self) -> None:
        """Ends what is under way."""
        ...


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of it."""

    events: tuple[NodeChecked, ...] = ()
    """Each node's line; `at` is 0."""
    excluded: frozenset[str] = frozenset()
    """Ray's identifiers of nodes that are to have no worker."""
    gate: Gate | None = None
    """Checks nodes that join later. None: none is checked."""


def depth(conf: RunConf) -> str:
    """full, quick or none."""
    if conf.preflight.probes != "auto":
        return conf.preflight.probes
    return "quick" if conf.cluster is None else "full"


def check_here(conf: RunConf, parent: Path, *, is_full: bool) -> Measured:
    """What is measured of this machine."""
    system = describe()
    count = len(system.accelerators)
    with meeting(parent) as place:
        temporary = Path(tempfile.gettempdir())
        processors = system.usable_processors
        setting = Setting(
            "127.0.0.1", place.folder, place.mark, temporary, count, processors, conf.dataset, conf.trainer
        )
        with Prober(setting) as prober:
            probes = full() if is_full else quick()
            readings = {probe.name: prober.measure(probe, conf.preflight.seconds) for probe in probes}
    host = socket.gethostname()
    return Measured(node="", address=host, host=host, kind=_kind(system), is_head=True, readings=readings)


def _kind(system: System) -> str:
    return f"{system.usable_processors} × {system.cpu_model or 'processor'}"


def judged(new: Sequence[Measured], known: Sequence[Measured], conf: PreflightConf) -> tuple[NodeChecked, ...]:
    """The lines of nodes that were measured, compared with all that are known.

    Raises:
        NoWorkers: one has a fault, and preflight.broken=stop.
    """
    verdicts = judge(known, conf)
    if conf.broken == "stop" and (faulty := [one for one in new if verdicts[one.node].faults]):
        told = "; ".join(f"{one.host} ({one.address}): {', '.join(verdicts[one.node].faults)}" for one in faulty)
        raise NoWorkers(f"with preflight.broken=stop no run begins on nodes with a fault; found {told}")
    ours = {one.node for one in new}
    described = {hash for one in known if one.node not in ours and (hash := _hash(one)) is not None}
    return tuple(_event(one, verdicts[one.node], conf, described) for one in new)


def _hash(one: Measured) -> str | None:
    """Of the node's description, which stands in the journal where an earlier line brought it there."""
    reading = one.readings.get(PROBE)
    return None if reading is None else reading.facts.get(HASH)


def _event(one: Measured, verdict: Verdict, conf: PreflightConf, described: set[str]) -> NodeChecked:
    """`described`: hashes of descriptions that stand in the journal; this node's is added."""
    told = one.readings.get(clock.NAME)
    off = clock.offset(told) if told is not None and told.failed is None else None
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
    )


def as_word(event: NodeChecked) -> Inspected:
    """What the driver is told of a node that joined."""
    return Inspected(**{name: getattr(event, name) for name in Inspected.__struct_fields__})


def nobody_left(
    places: Mapping[str, str], excluded: Collection[str], events: Sequence[NodeChecked]
) -> NoWorkers | None:
    """What is to be raised where every place for a worker is on an excluded node. `places`: node → address."""
    if not places or not set(places) <= set(excluded):
        return None
    addresses = set(places.values())
    told = "; ".join(f"{event.host}: {', '.join(event.faults)}" for event in events if event.address in addresses)
    return NoWorkers(
        f"a run needs at least one worker; preflight excludes all {len(places)} nodes that could hold one. {told}. "
        "Fix them, or use them as they are: preflight.broken=keep"
    )


def lines(events: Sequence[NodeChecked]) -> Iterator[str]:
    """What is told before a run begins."""
    if not events:
        return
    excluded = sum(event.excluded for event in events)
    yield f"preflight    {len(events)} node{'' if len(events) == 1 else 's'} checked, {excluded} excluded"
    for event in events:
        for fault in event.faults:
            yield f"  {event.host} ({event.address}){'' if event.excluded else ', kept'}: {fault}"
    system = system_description({}, events)
    yield from (f"  {line}" for line in in_words(system.differences, system.nodes))
