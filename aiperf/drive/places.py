"""Which workers a Ray cluster's nodes can hold: a function of what ray.nodes() says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Room for one worker."""

    node: str
    """Ray's identifier of the node."""
    address: str
    index: int
    """Which of the node's workers."""
    accelerators: int
    cores: int

    def bundle(self) -> dict[str, float]:
        """The resources of its placement group, tied to its node."""
        wanted: dict[str, float] = {"CPU": self.cores, f"node:{self.address}": 0.001}
        if self.accelerators:
            wanted["GPU"] = self.accelerators
        return wanted


def places(nodes: Sequence[Mapping[str, Any]], accelerators_per_worker: int | None) -> list[Place]:
    """One place a node, or one for every `accelerators_per_worker` of a node's accelerators.

    Nodes without accelerators hold workers only where no node has any; and then the head only where it is alone: the master
    is to have no other work.
    """
    alive = [node for node in nodes if node["Alive"]]
    with_accelerators = [node for node in alive if node["Resources"].get("GPU", 0) >= 1]
    if not with_accelerators:
        others = [node for node in alive if "node:__internal_head__" not in node["Resources"]]
        return [
            Place(node["NodeID"], node["NodeManagerAddress"], 0, 0, int(node["Resources"]["CPU"]))
            for node in others or alive
            if node["Resources"].get("CPU", 0) >= 1
        ]
    found: list[Place] = []
    for node in with_accelerators:
        there, cores = int(node["Resources"]["GPU"]), int(node["Resources"].get("CPU", 0))
        each = accelerators_per_worker or there
        count = there // each
        for index in range(count):
            found.append(Place(node["NodeID"], node["NodeManagerAddress"], index, each, max(1, cores // count)))
    return found
