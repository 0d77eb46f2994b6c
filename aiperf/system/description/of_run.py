"""The system that a run was on, from the lines of its journal: nodes that are alike as one kind, what differs, and the form.

A description stands once in a journal, in the line of the first node that has it; others have its hash alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiperf.journal.events import NodeChecked
from aiperf.system.description.differences import Difference, differences
from aiperf.system.description.form import unfinished

PROBE = "system"
"""Preflight's reading that describes a node."""
HASH, DESCRIPTION = "hash", "description"
"""Facts of that reading."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Nodes with one description."""

    hash: str
    """SHA-256 of the description as JSON, its keys in order."""
    nodes: tuple[str, ...]
    description: Mapping[str, Any]
    """By parts: maker, firmware, processors, memory, accelerators, pci, network, storage, kernel, libraries, container, limits,
    environment. A value is what was read, or 'not readable: ' and why."""


@dataclass(frozen=True, slots=True)
class SystemDescription:
    """All that a run's journal says of the system it was on."""

    form: Mapping[str, Any]
    """What the site said (system.*); None where a field is not filled in."""
    unfinished: tuple[str, ...]
    """Fields of the form that are not filled in."""
    kinds: tuple[Kind, ...]
    """Of the most nodes first."""
    not_described: tuple[tuple[str, str], ...]
    """(node, why)."""
    differences: tuple[Difference, ...]
    """Between the nodes that were described."""

    @property
    def nodes(self) -> int:
        """How many were described."""
        return sum(len(kind.nodes) for kind in self.kinds)


def system_description(config: Mapping[str, Any], checks: Sequence[NodeChecked]) -> SystemDescription:
    """Of a run's configuration and the lines of its nodes; of a node that was checked several times the last."""
    told, why_not = _described(checks)
    by_hash: dict[str, list[str]] = {}
    for node, hash in told.items():
        by_hash.setdefault(hash, []).append(node)
    stored = _stored(checks)
    kinds = [Kind(hash, tuple(sorted(nodes)), stored[hash]) for hash, nodes in by_hash.items() if hash in stored]
    lost = {node: "no line has the description of its hash" for node, hash in told.items() if hash not in stored}
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
    """A node's readings as they are written: without a description that stands in the journal. Its hash is then known."""
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
    """By node its hash, or why it has none."""
    told: dict[str, str] = {}
    why_not: dict[str, str] = {}
    for check in checks:
        node = check.host if check.host == check.address else f"{check.host} ({check.address})"
        hash = _facts(check).get(HASH)
        if isinstance(hash, str):
            told[node] = hash
            why_not.pop(node, None)
        elif node not in told:
            reading = check.readings.get(PROBE)
            failed = reading.get("failed") if isinstance(reading, Mapping) else None
            why_not[node] = str(failed or "this journal describes no nodes")
    return told, why_not


def _stored(checks: Iterable[NodeChecked]) -> dict[str, Mapping[str, Any]]:
    return {
        facts[HASH]: facts[DESCRIPTION]
        for check in checks
        if isinstance((facts := _facts(check)).get(DESCRIPTION), Mapping) and isinstance(facts.get(HASH), str)
    }


def _facts(check: NodeChecked) -> Mapping[str, Any]:
    reading = check.readings.get(PROBE)
    facts = reading.get("facts") if isinstance(reading, Mapping) else None
    return facts if isinstance(facts, Mapping) else {}
