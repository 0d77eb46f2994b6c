"""Faults of nodes: their measurements compared with limits and with other nodes, also as a table."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from aiperf import units
from aiperf.measure.probe import CLOCK, NodeReadings, ProbeReading, clock_offset
from aiperf.preflight import PreflightConf

T = TypeVar("T", bound=Hashable)
FEWEST = 3
"""Minimum number of nodes of one kind for a median."""
PAIRS, ALL = "pairs", "all nodes"
"""Readings of exchanges: with each partner, and among all nodes."""
FAILED_WITH = "failed_with"
"""Fact of PAIRS: partners of failed exchanges that are blamed on the node, address → reason."""
FILES_SHOWN = 5
_SPEEDS = ("matrix product", "memory")


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    faults: tuple[str, ...]
    slow: tuple[str, ...]
    """Probes with low speed. Another measurement may clear these faults."""
    notes: tuple[str, ...]
    """Measurements that were not judged, with the reason."""


@dataclass(frozen=True, slots=True)
class _Case:
    reading: ProbeReading
    head: NodeReadings | None
    nodes: Sequence[NodeReadings]
    conf: PreflightConf


def judge(nodes: Sequence[NodeReadings], conf: PreflightConf) -> dict[str, NodeVerdict]:
    """Return the verdict by node identifier. Versions and data set are compared with the head's, speeds with the median."""
    head = next((node for node in nodes if node.is_head), None)
    return {node.node: _verdict(node, head, nodes, conf) for node in nodes}


def _verdict(
    node: NodeReadings, head: NodeReadings | None, nodes: Sequence[NodeReadings], conf: PreflightConf
) -> NodeVerdict:
    faults = [
        f"{name}: {reading.failed}"
        for name, reading in node.readings.items()
        if reading.failed is not None and name != ALL
    ]
    slow: list[str] = []
    notes: list[str] = []
    if (together := node.readings.get(ALL)) is not None and together.failed is not None:
        notes.append(
            f"{ALL}: the all-reduce of all nodes failed, and the faulty node cannot be determined: {together.failed}"
        )
    for name, judged in _JUDGED.items():
        if (reading := _good(node, name)) is not None:
            faults += [f"{name}: {fault}" for fault in judged(_Case(reading, head, nodes, conf))]
    if (reading := _good(node, "accelerators")) is not None:
        # on the user's own machine other programs on the accelerators are not a fault
        (faults if node.node else notes).extend(_traces(reading))
        notes.extend(_shared_memory(reading))
    shares = dict.fromkeys(_SPEEDS, conf.slow_share) | {PAIRS: conf.slow_network_share}
    for name, share in shares.items():
        text, is_slow = _speed(node, name, nodes, share)
        if is_slow:
            slow.append(name)
            faults.append(text)
        elif text:
            notes.append(text)
    return NodeVerdict(tuple(faults), tuple(slow), tuple(notes))


def _good(node: NodeReadings, name: str) -> ProbeReading | None:
    reading = node.readings.get(name)
    return None if reading is None or reading.failed is not None else reading


def _versions(case: _Case) -> Iterator[str]:
    here = _flat(case.reading.facts)
    norm, whose = _norm(case.head, case.nodes, "versions", _flat)
    for name in sorted(here.keys() | norm.keys()):
        if here.get(name) != norm.get(name):
            actual, expected = (_shortened(versions.get(name)) for versions in (here, norm))
            yield f"{name} is {actual}, {whose} {expected}"
    # the head of a cluster often has no accelerators and no driver
    drivers = [tuple(each.facts["drivers"]) for one in case.nodes if (each := _good(one, "versions")) is not None]
    own = tuple(case.reading.facts["drivers"])
    if own and own != (usual := _most_common([each for each in drivers if each])):
        yield f"the accelerators' driver is {', '.join(own)}, most nodes have {', '.join(usual)}"


def _flat(facts: Mapping[str, Any]) -> dict[str, str]:
    return {"python": facts["python"], "this program's source": facts["source"], **facts["packages"]}


def _shortened(version: str | None) -> str:
    return "not there" if version is None else version[:12] if len(version) == 64 else version


def _data(case: _Case) -> Iterator[str]:
    norm, whose = _norm(case.head, case.nodes, "data", lambda facts: facts["fingerprint"])
    if case.reading.facts["fingerprint"] != norm:
        yield f"the data set's fingerprint is {_shortened(case.reading.facts['fingerprint'])}, {whose} {_shortened(norm)}"
    contents = case.reading.facts.get("contents")
    norm, whose = _norm(case.head, case.nodes, "data", lambda facts: facts.get("contents"))
    if None not in (contents, norm) and contents != norm:
        yield f"the data set's contents are {_shortened(contents)}, {whose} {_shortened(norm)}"
    if changed := case.reading.facts.get("changed"):
        some = f"{len(changed)} of {case.reading.facts['hashed']} files ({', '.join(map(repr, changed[:FILES_SHOWN]))})"
        yield f"other contents than in the index, {some}: restore them, or run `prepare` again"


def _norm(
    head: NodeReadings | None, nodes: Sequence[NodeReadings], probe: str, value: Callable[[Mapping[str, Any]], Any]
) -> tuple[Any, str]:
    if head is not None and (reading := _good(head, probe)) is not None:
        return value(reading.facts), "the head's"
    known = [value(each.facts) for one in nodes if (each := _good(one, probe)) is not None]
    if known and isinstance(known[0], dict):
        return dict(_most_common([tuple(sorted(each.items())) for each in known])), "that of most nodes"
    return _most_common(known), "that of most nodes"


def _most_common(values: Sequence[T]) -> T:
    return Counter(values).most_common(1)[0][0]


def _space(case: _Case) -> Iterator[str]:
    for name, free in case.reading.series.items():
        if free[-1] < case.conf.free_bytes:
            needed = f"{units.size(case.conf.free_bytes)} are needed (preflight.free_bytes)"
            yield f"{units.size(int(free[-1]))} are free in {case.reading.facts[name]}; {needed}"
    if not case.reading.facts["is_shared"]:
        yield f"{case.reading.facts['run']} is not the driver's folder: the folder of runs must be shared by all nodes (runs=…)"


def _disk(case: _Case) -> Iterator[str]:
    best = max(case.reading.series["run"])
    if best < case.conf.disk_bytes_per_second:
        least = units.si(case.conf.disk_bytes_per_second, "B/s")
        yield f"{units.si(best, 'B/s')} to the run's folder; at least {least} (preflight.disk_bytes_per_second)"


def _clock(case: _Case) -> Iterator[str]:
    off = clock_offset(case.reading)
    if abs(off.seconds) - off.error > case.conf.clock_seconds:
        way = "ahead of" if off.seconds > 0 else "behind"
        yield (
            f"{abs(off.seconds):.3f} s {way} the head's, give or take {off.error:.3f} s; at most {case.conf.clock_seconds:g} s "
            "(preflight.clock_seconds): synchronize all nodes with one time server"
        )


def _accelerators(case: _Case) -> Iterator[str]:
    expected, devices = case.reading.facts["expected"], case.reading.facts["devices"]
    yield from case.reading.facts.get("driver_faults", ())
    count = len(devices) + len(case.reading.facts.get("slices", ()))
    if count < expected:
        unread = "; ".join(f"{library}: {why}" for library, why in case.reading.facts["not_seen_by"].items())
        yield (
            f"{count} of the {expected} that Ray counts can be used{f' ({unread})' if unread else ''}: start Ray with the "
            "right --num-gpus, or repair the driver"
        )
    for device in devices:
        name = f"{device.get('model') or 'accelerator'} {device.get('index', 0)}"
        if device.get("gone"):
            yield f"{name}: {device['gone']}"
        if device.get("ecc_uncorrected_since_boot"):
            errors = device["ecc_uncorrected_since_boot"]
            yield f"{name}: {errors} memory errors that were not corrected, since its driver began"
        held = [reason for reason in device.get("throttle") or () if reason in HARMFUL]
        if held:
            yield f"{name}: its clock is held down by {', '.join(held)}"


def _traces(reading: ProbeReading) -> Iterator[str]:
    """Yield signs of other use: foreign processes, and errors since boot that a reset may have repaired."""
    for device in reading.facts["devices"]:
        name = f"{device.get('model') or 'accelerator'} {device.get('index', 0)}"
        if device.get("xids"):
            yield f"accelerators: {name}: Xid {', '.join(map(str, device['xids']))} in the kernel's log"
        if device.get("processes"):
            names = device.get("process_names", {})
            others = ", ".join(f"{pid} {names.get(str(pid), '')}".strip() for pid in device["processes"][:4])
            yield f"accelerators: {name}: {len(device['processes'])} other processes compute on it ({others})"


LEAST_SHARED_MEMORY = 10**9
"""Bytes of /dev/shm for several accelerators. Containers have 64 MB by default."""


def _shared_memory(reading: ProbeReading) -> Iterator[str]:
    free = reading.facts.get("shared_memory_bytes")
    if reading.series["usable"][-1] > 1 and free is not None and free < LEAST_SHARED_MEMORY:
        yield (
            f"accelerators: several exchange gradients through /dev/shm, and {units.size(free)} are free there; at least "
            f"{units.size(LEAST_SHARED_MEMORY)} are needed: start the container with --shm-size=8g, or mount a larger one"
        )


HARMFUL = frozenset(
    {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "reliability"}
)
"""Throttle reasons that an idle, healthy accelerator does not have."""


def _pairs(case: _Case) -> Iterator[str]:
    for partner, why in case.reading.facts.get(FAILED_WITH, {}).items():
        yield f"the all-reduce with {partner} failed: {why}"


_JUDGED: dict[str, Callable[[_Case], Iterator[str]]] = {
    "versions": _versions,
    "data": _data,
    "space": _space,
    "disk write": _disk,
    CLOCK: _clock,
    "accelerators": _accelerators,
    PAIRS: _pairs,
}


def _speed(node: NodeReadings, name: str, nodes: Sequence[NodeReadings], share: float) -> tuple[str, bool]:
    reading = _good(node, name)
    own = None if reading is None else _speed_of(name, reading)
    if reading is None or own is None:
        return "", False
    neighbours = sum(one.boot_id is not None and one.boot_id == node.boot_id for one in nodes)
    if neighbours > 1:  # they share processors, memory and links
        return f"{name}: not judged, since {neighbours} nodes are on one host", False
    alike = [
        one
        for one in nodes
        # Gloo and NCCL are different kinds of exchange
        if one.kind == node.kind
        and (theirs := _good(one, name)) is not None
        and theirs.facts.get("over") == reading.facts.get("over")
    ]
    speeds = [speed for one in alike if (speed := _speed_of(name, one.readings[name])) is not None]
    if len(speeds) < FEWEST:
        return (
            f"{name}: not judged, since a median needs at least {FEWEST} nodes of one kind; there are {len(speeds)}",
            False,
        )
    median = statistics.median(speeds)
    if own >= share * median:
        return "", False
    comparison = (
        f"{units.si(own, reading.unit)} is {units.share(own / median)} of the median of {len(speeds)} nodes of its kind"
    )
    return f"{name}: {comparison}; at least {units.share(share, 0)}", True


def _speed_of(name: str, reading: ProbeReading) -> float | None:
    """Return the speed of a node. Network: its best partner, since a slow node is slow with all. Others: the weakest part."""
    if name != PAIRS:
        return reading.best()
    return max((max(values) for values in reading.series.values() if values), default=None)


def blamed(nodes: int, done: Sequence[tuple[int, int]], broken: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    """Return the nodes that are blamed for failed exchanges, each with the sorted partners that it failed with.

    `done`, `broken`: pairs of node indices with a successful and with a failed exchange. A node with a successful exchange is
    not blamed for failures with nodes that have none. Otherwise the faulty node is unknown and both are blamed.
    """
    working = {node for pair in done for node in pair}
    partners: dict[int, list[int]] = {}
    for pair in broken:
        for node, partner in (pair, pair[::-1]):
            if node not in working or partner in working:
                partners.setdefault(node, []).append(partner)
    return {node: sorted(partners[node]) for node in range(nodes) if node in partners}
