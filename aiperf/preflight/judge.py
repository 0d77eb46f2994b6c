"""What is wrong with nodes, by what was measured of them and by the limits: a function of values.

Nothing is judged that was not measured, and nobody is called slow by fewer than three nodes of one kind, or by nodes that share
his host: then it is said so.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from aiperf import units
from aiperf.preflight import clock
from aiperf.preflight.preflight_config import PreflightConf
from aiperf.preflight.reading import Measured, Reading

T = TypeVar("T", bound=Hashable)
FEWEST = 3
"""Nodes of one kind that make a median."""
PAIRS, ALL = "pairs", "all nodes"
"""Readings of exchanges: with each partner, and of all together."""
FAILED_WITH = "failed_with"
"""The fact of PAIRS that names the partners for whose failed exchanges the node is blamed: address → why."""
_SPEEDS = ("matrix product", "memory")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one node."""

    faults: tuple[str, ...]
    """Each begins with the probe's name. Empty: nothing is wrong with it, as far as was measured."""
    slow: tuple[str, ...]
    """Probes by which it is slow: of its faults those that another measurement may take back."""
    notes: tuple[str, ...]
    """What was not judged, and why."""


def judge(nodes: Sequence[Measured], conf: PreflightConf) -> dict[str, Verdict]:
    """The verdict on each node, by its identifier. Nodes are compared with the head, and with each other."""
    head = next((node for node in nodes if node.is_head), None)
    return {node.node: _verdict(node, head, nodes, conf) for node in nodes}


def _verdict(node: Measured, head: Measured | None, nodes: Sequence[Measured], conf: PreflightConf) -> Verdict:
    faults = [
        f"{name}: {reading.failed}"
        for name, reading in node.readings.items()
        if reading.failed is not None and name != ALL
    ]
    slow: list[str] = []
    notes: list[str] = []
    if (together := node.readings.get(ALL)) is not None and together.failed is not None:
        notes.append(
            f"{ALL}: the all-reduce of all nodes failed, and whose fault it is cannot be determined: {together.failed}"
        )
    for name, judged in _JUDGED.items():
        if (reading := _good(node, name)) is not None:
            faults += [f"{name}: {fault}" for fault in judged(node, reading, head, nodes, conf)]
    shares = dict.fromkeys(_SPEEDS, conf.slow_share) | {PAIRS: conf.slow_network_share}
    for name, share in shares.items():
        said, is_slow = _speed(node, name, nodes, share)
        if is_slow:
            slow.append(name)
            faults.append(said)
        elif said:
            notes.append(said)
    return Verdict(tuple(faults), tuple(slow), tuple(notes))


def _good(node: Measured, name: str) -> Reading | None:
    reading = node.readings.get(name)
    return None if reading is None or reading.failed is not None else reading


def _versions(
    node: Measured, reading: Reading, head: Measured | None, nodes: Sequence[Measured], conf: PreflightConf
) -> Iterator[str]:
    here = _flat(reading.facts)
    norm, whose = _norm(head, nodes, "versions", _flat)
    for name in sorted(here.keys() | norm.keys()):
        if here.get(name) != norm.get(name):
            found, right = (_shortened(told.get(name)) for told in (here, norm))
            yield f"{name} is {found}, {whose} {right}"
    # the head of a cluster often has no accelerators, and so no driver
    drivers = [tuple(each.facts["drivers"]) for one in nodes if (each := _good(one, "versions")) is not None]
    own = tuple(reading.facts["drivers"])
    if own and own != (usual := _most_common([each for each in drivers if each])):
        yield f"the accelerators' driver is {', '.join(own)}, most nodes have {', '.join(usual)}"


def _flat(facts: Mapping[str, Any]) -> dict[str, str]:
    return {"python": facts["python"], "this program's source": facts["source"], **facts["packages"]}


def _shortened(told: str | None) -> str:
    """A hash by its first 12 digits."""
    return "not there" if told is None else told[:12] if len(told) == 64 else told


def _data(
    node: Measured, reading: Reading, head: Measured | None, nodes: Sequence[Measured], conf: PreflightConf
) -> Iterator[str]:
    norm, whose = _norm(head, nodes, "data", lambda facts: facts["fingerprint"])
    if reading.facts["fingerprint"] != norm:
        yield f"the data set's fingerprint is {_shortened(reading.facts['fingerprint'])}, {whose} {_shortened(norm)}"


def _norm(
    head: Measured | None, nodes: Sequence[Measured], probe: str, told: Callable[[Mapping[str, Any]], Any]
) -> tuple[Any, str]:
    """What is right, and whose it is: the head's where it has told, else what most nodes have."""
    if head is not None and (reading := _good(head, probe)) is not None:
        return told(reading.facts), "the head's"
    known = [told(each.facts) for one in nodes if (each := _good(one, probe)) is not None]
    if known and isinstance(known[0], dict):
        return dict(_most_common([tuple(sorted(each.items())) for each in known])), "that of most nodes"
    return _most_common(known), "that of most nodes"


def _most_common(values: Sequence[T]) -> T:
    return Counter(values).most_common(1)[0][0]


def _space(
    node: Measured, reading: Reading, head: Measured | None, nodes: Sequence[Measured], conf: PreflightConf
) -> Iterator[str]:
    for name, free in reading.series.items():
        if free[-1] < conf.free_bytes:
            needed = f"{units.size(conf.free_bytes)} are needed (preflight.free_bytes)"
            yield f"{units.size(int(free[-1]))} are free in {reading.facts[name]}; {needed}"
    if not reading.facts["is_shared"]:
        yield f"{reading.facts['run']} is not the folder that the driver sees: where runs are kept is to be shared (runs=…)"


def _disk(
    node: Measured, reading: Reading, head: Measured | None, nodes: Sequence[Measured], conf: PreflightConf
) -> Iterator[str]:
    best = max(reading.series["run"])
    if best < conf.disk_bytes_per_second:
        least = units.si(conf.disk_bytes_per_second, "B/s")
        yield f"{units.si(best, 'B/s')} to the run's folder; at least {least} (preflight.disk_bytes_per_second)"


def _clock(
    node: Measured, reading: Reading, head: Measured | None, nodes: Sequence[Measured], conf: PreflightConf
) -> Iterator[str]:
    off = clock.offset(reading)
    if abs(off.seconds) - off.error > conf.clock_seconds:
        way = "ahead of" if off.seconds > 0 else "behind"
        yield (
            f"{abs(off.seconds):.3f} s {way} the head's, give or take {off.error:.3f} s; at most {conf.clock_seconds:g} s "
            "(preflight.clock_seconds): let all nodes take their time from one server"
        )


def _accelerators(
    node: Measured, reading: Reading, head: Measured | None, nodes: Sequence[Measured], conf: PreflightConf
) -> Iterator[str]:
    expected, devices = reading.facts["expected"], reading.facts["devices"]
    if expected and not devices and not reading.series["usable"][-1] and _is_blind(reading):
        return  # nothing shows accelerators here: that is a note of the report, and no fault of the node
    if len(devices) < expected:
        yield f"{len(devices)} of the {expected} that Ray counts can be used"
    for device in devices:
        name = f"{device.get('model') or 'accelerator'} {device.get('index', 0)}"
        if device.get("gone"):
            yield f"{name}: {device['gone']}"
        if device.get("ecc_uncorrected_since_boot"):
            errors = device["ecc_uncorrected_since_boot"]
            yield f"{name}: {errors} memory errors that were not corrected, since its driver began"
        if device.get("xids"):
            yield f"{name}: Xid {', '.join(map(str, device['xids']))} in the kernel's log"
        held = [reason for reason in device.get("throttle") or () if reason in HARMFUL]
        if held:
            yield f"{name}: its clock is held down by {', '.join(held)}"
        if device.get("processes"):
            others = ", ".join(map(str, device["processes"][:4]))
            yield f"{name}: {len(device['processes'])} other processes compute on it ({others})"


HARMFUL = frozenset(
    {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "reliability"}
)
"""Reasons for a clock that is held down which an idle, healthy accelerator does not have."""


def _is_blind(reading: Reading) -> bool:
    """Whether no vendor's library could be asked at all."""
    return {"nvml", "amdsmi"} <= set(reading.facts["not_seen_by"])


def _pairs(
    node: Measured, reading: Reading, head: Measured | None, nodes: Sequence[Measured], conf: PreflightConf
) -> Iterator[str]:
    for partner, why in reading.facts.get(FAILED_WITH, {}).items():
        yield f"the all-reduce with {partner} failed: {why}"


_JUDGED: dict[str, Callable[[Measured, Reading, Measured | None, Sequence[Measured], PreflightConf], Iterator[str]]] = {
    "versions": _versions,
    "data": _data,
    "space": _space,
    "disk write": _disk,
    clock.NAME: _clock,
    "accelerators": _accelerators,
    PAIRS: _pairs,
}


def _speed(node: Measured, name: str, nodes: Sequence[Measured], share: float) -> tuple[str, bool]:
    """What is to be said of a speed, and whether it is a fault."""
    reading = _good(node, name)
    own = None if reading is None else _speed_of(name, reading)
    if reading is None or own is None:
        return "", False
    beside = sum(one.boot_id is not None and one.boot_id == node.boot_id for one in nodes)
    if beside > 1:  # they share processors, memory and links: what one has the others lack
        return f"{name}: not judged, since {beside} nodes are on one host", False
    alike = [
        one
        for one in nodes
        # over Gloo and over NCCL are two kinds of exchange
        if one.kind == node.kind
        and (theirs := _good(one, name)) is not None
        and theirs.facts.get("over") == reading.facts.get("over")
    ]
    speeds = [speed for one in alike if (speed := _speed_of(name, one.readings[name])) is not None]
    if len(speeds) < FEWEST:
        return (
            f"{name}: not judged, since a median is of {FEWEST} nodes of one kind at least; there are {len(speeds)}",
            False,
        )
    median = statistics.median(speeds)
    if own >= share * median:
        return "", False
    found = (
        f"{units.si(own, reading.unit)} is {units.share(own / median)} of the median of {len(speeds)} nodes of its kind"
    )
    return f"{name}: {found}; at least {units.share(share, 0)}", True


def _speed_of(name: str, reading: Reading) -> float | None:
    """Of a network the best of a node's partners: who is slow with all is slow himself. Of all else the weakest part."""
    if name != PAIRS:
        return reading.best()
    return max((max(values) for values in reading.series.values() if values), default=None)
