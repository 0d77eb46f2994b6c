"""System of a run, from its journal: groups of equal nodes, differences between nodes, and the site's form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiperf.journal.events import NodeChecked
from aiperf.journal.options import option_differences
from aiperf.system.form import unfinished

MOST_NAMED = 8
MOST_PARTS = 5
NOT_THERE = "not there"


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
