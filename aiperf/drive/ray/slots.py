"""Places for workers on the nodes of a Ray cluster, computed from ray.nodes()."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aiperf.config import ALL
from aiperf.drive.ray.spanning import NodeGroups, WorkerNodes, accelerators_of, of_several, one_of_all


@dataclass(frozen=True, slots=True)
class Share:
    """Share of one node that a worker uses."""

    node: str
    """Ray's identifier of the node."""
    address: str
    accelerators: int
    cores: int


@dataclass(frozen=True, slots=True)
class Slot:
    """Place for one worker."""

    node: str
    """Ray's identifier of the node. With several nodes, that of the leading one."""
    address: str
    index: int
    """Index among the workers of the node."""
    accelerators: int
    """Accelerators on this node. `cores` likewise."""
    cores: int
    others: tuple[Share, ...] = ()
    """Shares of other nodes (`spanning.py`)."""

    @property
    def shares(self) -> tuple[Share, ...]:
        """Shares of all nodes, the leading one first."""
        return (Share(self.node, self.address, self.accelerators, self.cores), *self.others)

    def bundle(self) -> dict[str, float]:
        """Return the resources that it takes on its node, with the resource that only this node has."""
        wanted: dict[str, float] = {"CPU": self.cores, f"node:{self.address}": 0.001}
        if self.accelerators:
            wanted["GPU"] = self.accelerators
        return wanted


@dataclass(frozen=True, slots=True)
class Slots:
    """Places for workers, and nodes that hold none."""

    wanted: tuple[Slot, ...]
    alive: frozenset[str]
    """Identifiers of the nodes that are alive."""
    too_small: Mapping[str, str]
    """Reason by address, for nodes with accelerators that hold no worker."""


def slots(
    nodes: Sequence[Mapping[str, Any]],
    accelerators_per_worker: int | str | None,
    *,
    only_accelerators: bool = False,
    held: Collection[Slot] = (),
    excluded: Collection[str] = frozenset(),
) -> Slots:
    """Return the places for workers on these nodes.

    One place per node, or one for every `accelerators_per_worker` of a node's accelerators. If this exceeds a node, or
    is 'all', a place spans several nodes as grouped by `spanning.py`. `held`: places with workers. They keep their
    nodes.

    Nodes without accelerators hold workers only if no node has any. The head then holds one only if it is the only
    node. They hold none if accelerators are declared, by number or by a plan for accelerators (`only_accelerators`).
    `excluded`: Ray's identifiers of nodes that hold no worker. The places on the other nodes do not depend on it.
    """
    found = _of_all(nodes, accelerators_per_worker, only_accelerators, held, excluded)
    allowed = (slot for slot in found.wanted if not any(share.node in excluded for share in slot.shares))
    return replace(found, wanted=tuple(allowed))


def _of_all(
    nodes: Sequence[Mapping[str, Any]],
    accelerators_per_worker: int | str | None,
    only_accelerators: bool,
    held: Collection[Slot],
    excluded: Collection[str],
) -> Slots:
    alive = [node for node in nodes if node["Alive"]]
    names = frozenset(str(node["NodeID"]) for node in alive)
    with_accelerators = [node for node in alive if node["Resources"].get("GPU", 0) >= 1]
    of_all = accelerators_per_worker == ALL
    each = None if of_all else accelerators_per_worker
    assert each is None or isinstance(each, int), "the configuration is checked"
    if with_accelerators or only_accelerators or each is not None:
        if of_all:
            return _spanning(one_of_all(_but(with_accelerators, excluded), tuple(_existing(held))), held, names)
        return _with_accelerators(with_accelerators, names, each, held, excluded)
    others = [node for node in alive if "node:__internal_head__" not in node["Resources"]]
    with_cores = [node for node in others or alive if node["Resources"].get("CPU", 0) >= 1]
    if of_all:
        return _spanning(one_of_all(_but(with_cores, excluded), tuple(_existing(held))), held, names)
    wanted = tuple(
        Slot(node["NodeID"], node["NodeManagerAddress"], 0, 0, int(node["Resources"]["CPU"])) for node in with_cores
    )
    return Slots(wanted, names, {})


def _but(nodes: Sequence[Mapping[str, Any]], excluded: Collection[str]) -> list[Mapping[str, Any]]:
    return [node for node in nodes if node["NodeID"] not in excluded]


def _existing(held: Collection[Slot]) -> dict[WorkerNodes, Slot]:
    return {
        WorkerNodes(tuple(one.node for one in slot.shares), tuple(one.address for one in slot.shares)): slot
        for slot in held
    }


def _spanning(grouped: NodeGroups, held: Collection[Slot], alive: frozenset[str]) -> Slots:
    existing = _existing(held)
    found = [existing[one] for one in grouped.kept]
    for nodes in grouped.new:
        first, *others = (
            Share(node["NodeID"], node["NodeManagerAddress"], accelerators_of(node), _cores(node)) for node in nodes
        )
        found.append(Slot(first.node, first.address, 0, first.accelerators, first.cores, tuple(others)))
    return Slots(tuple(found), alive, grouped.unused)


def _cores(node: Mapping[str, Any]) -> int:
    return max(1, int(node["Resources"].get("CPU", 0)))


def _with_accelerators(
    nodes: Sequence[Mapping[str, Any]],
    alive: frozenset[str],
    wanted: int | None,
    held: Collection[Slot],
    excluded: Collection[str],
) -> Slots:
    found: list[Slot] = []
    smaller = [node for node in nodes if wanted is not None and accelerators_of(node) < wanted]
    for node in nodes:
        accelerators, cores = accelerators_of(node), int(node["Resources"].get("CPU", 0))
        each = wanted or accelerators
        count = accelerators // each
        for index in range(count):
            found.append(Slot(node["NodeID"], node["NodeManagerAddress"], index, each, max(1, cores // count)))
    if not smaller or wanted is None:
        return Slots(tuple(found), alive, {})
    spanning = _spanning(of_several(_but(smaller, excluded), wanted, tuple(_existing(held))), held, alive)
    return Slots((*found, *spanning.wanted), alive, spanning.too_small)
