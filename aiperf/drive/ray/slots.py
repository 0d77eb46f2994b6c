"""Which workers a Ray cluster's nodes can hold: a function of what ray.nodes() says."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one worker."""

    node: str
    """Ray's identifier of the node."""
    address: str
    index: int
    """Which of the node's workers."""
    accelerators: int
    cores: int

    def bundle(self) -> dict[str, float]:
        """What it takes of its node's resources, and the resource that only this node has."""
        wanted: dict[str, float] = {"CPU": self.cores, f"node:{self.address}": 0.001}
        if self.accelerators:
            wanted["GPU"] = self.accelerators
        return wanted


@dataclass(frozen=True, slots=True)
class Slots:
    """Where workers go, and where none can."""

    wanted: tuple[Slot, ...]
    alive: frozenset[str]
    """Identifiers of the nodes that are alive."""
    too_small: Mapping[str, str]
    """Nodes that hold no worker though they have accelerators, by address: why."""


def slots(
    nodes: Sequence[Mapping[str, Any]],
    accelerators_per_worker: int | None,
    *,
    only_accelerators: bool = False,
    excluded: Collection[str] = frozenset(),
) -> Slots:
    """One place a node, or one for every `accelerators_per_worker` of a node's accelerators.

    Nodes without accelerators hold workers only where no node has any; and then the head only where it is alone: the master
    is to have no other work. They hold none where accelerators are declared, by number or by a plan that was made for them
    (`only_accelerators`): those are still to come. `excluded`: nodes that hold no worker, by identifier, address or host name;
    what the others hold is as if they did.
    """
    there = _of_all(nodes, accelerators_per_worker, only_accelerators)
    if not excluded:
        return there
    out = {str(node["NodeID"]) for node in nodes if not names_of(node).isdisjoint(excluded)}
    return replace(there, wanted=tuple(slot for slot in there.wanted if slot.node not in out))


def names_of(node: Mapping[str, Any]) -> set[str]:
    """What a node can be called: Ray's identifier, its address, its host's name."""
    return {str(node[each]) for each in ("NodeID", "NodeManagerAddress", "NodeManagerHostname") if node.get(each)}


def _of_all(nodes: Sequence[Mapping[str, Any]], accelerators_per_worker: int | None, only_accelerators: bool) -> Slots:
    alive = [node for node in nodes if node["Alive"]]
    names = frozenset(str(node["NodeID"]) for node in alive)
    with_accelerators = [node for node in alive if node["Resources"].get("GPU", 0) >= 1]
    if with_accelerators or only_accelerators or accelerators_per_worker is not None:
        return _with_accelerators(with_accelerators, names, accelerators_per_worker)
    others = [node for node in alive if "node:__internal_head__" not in node["Resources"]]
    wanted = tuple(
        Slot(node["NodeID"], node["NodeManagerAddress"], 0, 0, int(node["Resources"]["CPU"]))
        for node in others or alive
        if node["Resources"].get("CPU", 0) >= 1
    )
    return Slots(wanted, names, {})


def _with_accelerators(nodes: Sequence[Mapping[str, Any]], alive: frozenset[str], wanted: int | None) -> Slots:
    found: list[Slot] = []
    too_small: dict[str, str] = {}
    for node in nodes:
        there, cores = int(node["Resources"]["GPU"]), int(node["Resources"].get("CPU", 0))
        each = wanted or there
        count = there // each
        if not count:
            too_small[node["NodeManagerAddress"]] = (
                f"a worker has {each} accelerators, all on one node; this one shows {there}: "
                "lower accelerators_per_worker, or fix the node"
            )
        for index in range(count):
            found.append(Slot(node["NodeID"], node["NodeManagerAddress"], index, each, max(1, cores // count)))
    return Slots(tuple(found), alive, too_small)
