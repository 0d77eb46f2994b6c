"""Workers larger than a node: grouping of nodes, computed from ray.nodes() and from the existing workers.

A worker takes whole nodes, in the order of their addresses. It keeps them while its leading node lives. A node that
joins later, or comes back, is not added to a running worker, since that would require a restart. It is used when a
worker next starts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Node = Mapping[str, Any]
_STANDS_BY = "is in reserve: no node is added to a running worker. It is used when a worker next starts"


@dataclass(frozen=True, slots=True)
class WorkerNodes:
    """Nodes of an existing worker, the leading one first."""

    nodes: tuple[str, ...]
    """Ray's identifiers."""
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """Groups of nodes."""

    kept: tuple[WorkerNodes, ...]
    """Existing groups that stay."""
    new: tuple[tuple[Node, ...], ...]
    """Nodes of each new group, the leading one first."""
    unused: Mapping[str, str]
    """Reason by address, for nodes in no group."""


def one_of_all(nodes: Sequence[Node], existing: Sequence[WorkerNodes]) -> NodeGroups:
    """Return one group of all these nodes."""
    node_ids = {str(node["NodeID"]) for node in nodes}
    kept = tuple(one for one in existing if one.nodes[0] in node_ids)[:1]
    if kept or not nodes:
        return NodeGroups(kept, (), _standing_by(kept, nodes))
    return NodeGroups((), (tuple(_in_order(nodes)),), {})


def of_several(nodes: Sequence[Node], accelerators: int, existing: Sequence[WorkerNodes]) -> NodeGroups:
    """Return groups of `accelerators` accelerators each, on nodes that have fewer each.

    The nodes of a group have equally many accelerators, since its ranks wait for each other in every step.
    """
    node_ids = {str(node["NodeID"]) for node in nodes}
    kept = tuple(one for one in existing if len(one.nodes) > 1 and one.nodes[0] in node_ids)
    addresses = {address for one in kept for address in one.addresses}
    unused = _standing_by(kept, [node for node in nodes if node["NodeManagerAddress"] in addresses])
    free = [node for node in nodes if node["NodeManagerAddress"] not in addresses]
    new: list[tuple[Node, ...]] = []
    for size, alike in groupby(sorted(free, key=accelerators_of), key=accelerators_of):
        ordered = _in_order(list(alike))
        each, rest = divmod(accelerators, size)
        if rest:
            why = (
                f"a worker has {accelerators} accelerators on whole nodes with equally many, but this node has {size}: "
                "lower accelerators_per_worker, declare a multiple of it, or fix the node"
            )
            unused |= {node["NodeManagerAddress"]: why for node in ordered}
            continue
        used = len(ordered) // each * each
        new += [tuple(ordered[first : first + each]) for first in range(0, used, each)]
        why = (
            f"a worker has {accelerators} accelerators on {each} nodes of {size}, but this node has {size} and is left over: "
            "add nodes, or lower accelerators_per_worker"
        )
        unused |= {node["NodeManagerAddress"]: why for node in ordered[used:]}
    return NodeGroups(kept, tuple(new), unused)


def accelerators_of(node: Node) -> int:
    return int(node["Resources"].get("GPU", 0))


def _standing_by(kept: Sequence[WorkerNodes], nodes: Sequence[Node]) -> dict[str, str]:
    taken = {node for one in kept for node in one.nodes}
    return {node["NodeManagerAddress"]: _STANDS_BY for node in nodes if node["NodeID"] not in taken}


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: _number(str(node["NodeManagerAddress"])))


def _number(address: str) -> tuple[int, int, str]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return 9, 0, address
    return parsed.version, int(parsed), address
