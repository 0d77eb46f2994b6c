"""System of a run, from its journal: groups of equal nodes, differences between nodes, and the site's form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec

from aiperf.errors import BadConfiguration
from aiperf.given_file import read_yaml
from aiperf.journal.events import NodeChecked
from aiperf.journal.options import option_differences
from aiperf.option_limits import hold
from aiperf.system.peaks import check_declared

MOST_NAMED = 8
MOST_PARTS = 5
NOT_THERE = "not there"
FILE = "file"


@dataclass
class SystemForm:
    """Facts of the system that a program cannot read.

    They have no effect on a run. The journal stores them for comparisons of systems. Report and submission list the
    empty fields. Only `peak` affects figures.
    """

    file: str | None = None
    """YAML file with these fields. Values on the command line override the file."""
    name: str | None = None
    """Name of the system."""
    site: str | None = None
    """Operator of the system."""
    location: str | None = None
    """City and country."""
    contact: str | None = None
    """Person or address for questions about the result."""
    segment: str | None = None
    """academic, research, industry, government, vendor, cloud, …"""
    status: str | None = None
    """Availability as defined by MLPerf: available, preview or research."""
    maker: str | None = None
    """Manufacturer."""
    year: int | None = field(default=None, metadata={"least": 0})
    """Year of installation."""
    nodes_total: int | None = field(default=None, metadata={"least": 0})
    """Nodes of the whole system, including nodes that took no part in the run."""
    accelerators_total: int | None = field(default=None, metadata={"least": 0})
    """Accelerators of the whole system. 0 if it has none."""
    interconnect: str | None = None
    """Network between nodes: family, rate and adapters per node, for example 'InfiniBand NDR, 8 × 400 Gb/s'."""
    topology: str | None = None
    """Topology of the network between nodes, for example 'fat tree, 2:1 oversubscribed'."""
    links: str | None = None
    """Links between the accelerators of a node, for example 'NVLink 4, 900 GB/s, all to all'."""
    storage: str | None = None
    """Storage of the data set, for example 'Lustre, 4 OSS, 100 GB/s'."""
    cooling: str | None = None
    """air, direct liquid, immersion, …, with the inlet temperature."""
    power_point: str | None = None
    """Place of the power measurement: nowhere, accelerators by NVML, board, rack PDU, substation, …"""
    power_meter: str | None = None
    """Power meter: maker, model and accuracy. None if only the counters of the devices were used."""
    power_share: float | None = field(default=None, metadata={"least": 0, "most": 1})
    """Measured share of the nodes that took part, 0 to 1."""
    power_includes: str | None = None
    """Parts included in the power measurement in addition to the nodes: switches, storage, cooling, …, or nothing."""
    cost: str | None = None
    """Price or price per hour, with currency and included parts. 'not reported' is a valid value."""
    peak: dict[str, Any] | None = None
    """Dense peak of one accelerator in FLOPS by precision, and the source of these figures, for a model that
    system/peaks.json lacks: {bf16: 2.5e14, source: data sheet of ...}. MFU and losses refer to it and are marked as declared.
    A run with a declared peak has no place in an order by MFU."""
    notes: str | None = None
    """Further remarks."""

    def __post_init__(self) -> None:
        hold(self, "system")
        if self.peak is not None:
            check_declared(self.peak)


OPTIONAL = frozenset({FILE, "notes", "peak"})
"""Fields that may stay empty in a complete form."""
FIELDS = tuple(field.name for field in fields(SystemForm) if field.name != FILE)


def filled(form: SystemForm) -> SystemForm:
    """Complete the form by its YAML file (system.file). A field that has a value keeps it.

    Raise BadConfiguration if the file cannot be read, is no YAML mapping, or has an unknown field or an invalid value.
    """
    if form.file is None:
        return form
    contents = read_yaml(Path(form.file), "system.file is a YAML file of FIELD: value lines", dict[str, object])
    if wrong := [name for name in contents if name not in FIELDS]:
        raise BadConfiguration(
            f"unknown field {wrong[0]!r} in '{form.file}'. Remove it. The fields are {', '.join(FIELDS)}"
        )
    try:
        of_file = msgspec.convert(contents, SystemForm)
    except msgspec.ValidationError as error:
        raise BadConfiguration(
            f"a field of '{form.file}' has a value of the wrong type: {error}. Correct this value"
        ) from error
    missing = {
        name: value for name in FIELDS if getattr(form, name) is None and (value := getattr(of_file, name)) is not None
    }
    return replace(form, **missing)


def unfinished(form: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the empty fields. `form`: values by field as in a journal's configuration, None for an empty form."""
    values = form or {}
    return tuple(name for name in FIELDS if name not in OPTIONAL and values.get(name) is None)


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of the description that differs between nodes."""

    part: str
    """'accelerators.devices.NVIDIA 0.driver'."""
    usual: str
    """Value of most nodes. In a tie the first in sort order."""
    others: tuple[tuple[str, tuple[str, ...]], ...]
    """(other value, nodes with it), most nodes first."""

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(sorted(node for _, nodes in self.others for node in nodes))


def differences(nodes: Mapping[str, Mapping[str, Any]]) -> tuple[Difference, ...]:
    """Return the parts that differ between the descriptions of nodes (by name), sorted."""
    flat: dict[int, dict[str, str]] = {}
    for description in nodes.values():
        if id(description) not in flat:
            flat[id(description)] = dict(flattened(description))
    by_kind: dict[int, list[str]] = {}
    for node, description in nodes.items():
        by_kind.setdefault(id(description), []).append(node)
    parts = sorted({part for each in flat.values() for part in each})
    different = []
    for part in parts:
        who: dict[str, list[str]] = {}
        for kind, names in by_kind.items():
            who.setdefault(flat[kind].get(part, NOT_THERE), []).extend(names)
        if len(who) > 1:
            usual, *others = sorted(who, key=lambda value: (-len(who[value]), value))
            different.append(Difference(part, usual, tuple((value, tuple(sorted(who[value]))) for value in others)))
    return tuple(different)


def _written(_: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == {} else str(value)


def flattened(
    tree: Mapping[str, Any], prefix: str = "", written: Callable[[str, Any], str] = _written
) -> list[tuple[str, str]]:
    """Return rows of (dotted name, text). Items of a list are named by their 'name' if all have one."""
    rows: list[tuple[str, str]] = []
    for name, value in tree.items():
        path = f"{prefix}{name}"
        items = value if isinstance(value, list | tuple) else ()
        if isinstance(value, Mapping) and value:
            rows += flattened(value, f"{path}.", written)
        elif items and all(isinstance(each, Mapping) and each.get("name") for each in items):
            for each in items:
                rest = {part: content for part, content in each.items() if part != "name"}
                rows += flattened(rest, f"{path}.{each['name']}.", written)
        else:
            rows.append((path, written(path, value)))
    return rows


_HARDWARE = re.compile(r"maker\.|processors\.(model|sockets|cores|hardware_threads)$|pci\..+\.(kind|model)$")


def hardware(description: Mapping[str, Any]) -> dict[str, str]:
    """Return maker, processors and devices of a node: equal at all times, whatever its software, memory and disks."""
    rows = dict(flattened(description))
    kept = {
        name: text
        for name, text in rows.items()
        if _HARDWARE.match(name) and rows.get(f"{name.rpartition('.')[0]}.kind") != "storage"
    }
    models = {text for name, text in rows.items() if re.match(r"accelerators\.devices\..+\.model$", name)}
    return {**kept, "accelerators": ", ".join(sorted(models)) or "none"}


def hardware_differences(then: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return texts such as `node.processors.cores (64, here 32)`. `then`, `here`: hardware by name of the node."""
    return [
        f"{each.name} ({NOT_THERE if each.first is None else each.first}, "
        f"here {NOT_THERE if each.second is None else each.second})"
        for each in option_differences(then, here)
    ]


def in_words(different: Sequence[Difference], nodes: int) -> list[str]:
    """Return lines such as `3 of 64 nodes differ: kernel.release 6.1.0-9 on n7 n8, 6.1.0-8 on n9, else 6.1.0-10`."""
    lines = [
        f"{len(each.nodes)} of {nodes} nodes differ: {each.part} {_others(each)}, else {each.usual}"
        for each in different[:MOST_PARTS]
    ]
    left_out = len(different) - MOST_PARTS
    return lines + ([f"nodes differ in {left_out} more parts, all in the report"] if left_out > 0 else [])


def _others(difference: Difference) -> str:
    return ", ".join(f"{value} on {_named(nodes)}" for value, nodes in difference.others)


def _named(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
    return " ".join(nodes[:MOST_NAMED]) + more


PROBE = "system"
HASH, DESCRIPTION = "hash", "description"


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes with equal descriptions."""

    hash: str
    """SHA-256 of the description as JSON with sorted keys."""
    nodes: tuple[str, ...]
    description: Mapping[str, Any]
    """By part: maker, firmware, processors, memory, accelerators, pci, network, storage, kernel, libraries, container, limits,
    environment. A value is the text that was read, or 'not readable: ' and the reason."""


@dataclass(frozen=True, slots=True)
class SystemDescription:
    """System of a run, as its journal describes it."""

    form: Mapping[str, Any]
    """Form of the site (system.*). None for an empty field."""
    unfinished: tuple[str, ...]
    """Empty fields of the form."""
    kinds: tuple[NodeKind, ...]
    """Kinds of nodes, the most frequent first."""
    not_described: tuple[tuple[str, str], ...]
    """(node, reason)."""
    differences: tuple[Difference, ...]
    """Differences between the described nodes."""

    @property
    def nodes(self) -> int:
        return sum(len(kind.nodes) for kind in self.kinds)


def system_description(config: Mapping[str, Any], checks: Sequence[NodeChecked]) -> SystemDescription:
    """Return the system of a run. `checks`: node checks in the journal. The last description of a node counts."""
    hashes, why_not = _described(checks)
    by_hash: dict[str, list[str]] = {}
    for node, hash in hashes.items():
        by_hash.setdefault(hash, []).append(node)
    stored = stored_descriptions(checks)
    kinds = [NodeKind(hash, tuple(sorted(nodes)), stored[hash]) for hash, nodes in by_hash.items() if hash in stored]
    lost = {node: "no line has the description of its hash" for node, hash in hashes.items() if hash not in stored}
    form = config.get("system")
    form = form if isinstance(form, Mapping) else {}
    return SystemDescription(
        form=form,
        unfinished=unfinished(form),
        kinds=tuple(sorted(kinds, key=lambda kind: (-len(kind.nodes), kind.nodes))),
        not_described=tuple(sorted((why_not | lost).items())),
        differences=differences({node: kind.description for kind in kinds for node in kind.nodes}),
    )


def stored_once(readings: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """Return a node's readings, without its description if `known` has its hash. A new hash is added to `known`."""
    reading = readings.get(PROBE)
    facts = {} if reading is None else reading.get("facts", {})
    hash = facts.get(HASH)
    if reading is None or hash is None:
        return dict(readings)
    if hash in known:
        return {**readings, PROBE: {**reading, "facts": {HASH: hash}}}
    known.add(hash)
    return dict(readings)


def _described(checks: Iterable[NodeChecked]) -> tuple[dict[str, str], dict[str, str]]:
    hashes: dict[str, str] = {}
    why_not: dict[str, str] = {}
    for check in checks:
        node = check.host if check.host == check.address else f"{check.host} ({check.address})"
        hash = probe_facts(check).get(HASH)
        if isinstance(hash, str):
            hashes[node] = hash
            why_not.pop(node, None)
        elif node not in hashes:
            reading = check.readings.get(PROBE)
            failed = reading.get("failed") if isinstance(reading, Mapping) else None
            why_not[node] = str(failed or "this journal describes no nodes")
    return hashes, why_not


def stored_descriptions(checks: Iterable[NodeChecked]) -> dict[str, Mapping[str, Any]]:
    return {
        facts[HASH]: facts[DESCRIPTION]
        for check in checks
        if isinstance((facts := probe_facts(check)).get(DESCRIPTION), Mapping) and isinstance(facts.get(HASH), str)
    }


def probe_facts(check: NodeChecked, probe: str = PROBE) -> Mapping[str, Any]:
    reading = check.readings.get(probe)
    facts = reading.get("facts") if isinstance(reading, Mapping) else None
    return facts if isinstance(facts, Mapping) else {}
