"""Places for workers: those of the current nodes, the free ones, and workers on excluded nodes.

The places are recomputed only when a node was added, lost or excluded. A worker keeps its place while its node lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiperf.drive.ray.slots import Slot, Slots

Holds = Callable[..., Slots]
"""`slots` with the parameters of the run. Arguments: the nodes, `excluded` and `held`."""


class Places:
    """The places of one executor's workers."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds
        self._nodes: Sequence[Mapping[str, Any]] = ()
        self.held = holds(())
        """Places on all nodes that were not excluded here."""
        self.slots = self.held
        """Subset of `held` that may be used now."""
        self._taken: dict[Slot, int] = {}
        """Worker by place."""
        self.free: dict[Slot, None] = {}
        """Places without a worker, in order."""
        self.excluded: dict[str, str] = {}
        """Reason of the exclusion, by Ray's identifier of a node."""

    def see(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Update the places from the entries of `ray.nodes()`, if other nodes are alive than before."""
        self._nodes = nodes
        if frozenset(str(node["NodeID"]) for node in nodes if node["Alive"]) != self.held.alive:
            self._compute()

    def narrow(self, allowed: Slots) -> None:
        """Limit the places to those in `allowed`."""
        self.slots = allowed
        self.free = {slot: None for slot in allowed.wanted if slot not in self._taken}

    def exclude(self, node: str, reason: str) -> None:
        """Exclude a node by its identifier. Its workers are listed by `to_release`."""
        self.excluded[node] = reason
        self._compute()

    def why_excluded(self, slot: Slot) -> str | None:
        return next((self.excluded[share.node] for share in slot.shares if share.node in self.excluded), None)

    def take(self, slot: Slot, worker: int) -> None:
        self._taken[slot] = worker
        self.free.pop(slot, None)

    def leave(self, slot: Slot, worker: int) -> None:
        """Remove a worker from its place.

        If it spanned several nodes, they are grouped again with nodes that were left over.
        """
        if self._taken.get(slot) != worker:
            return
        del self._taken[slot]
        if slot in self.slots.wanted:
            self.free[slot] = None
        if slot.others or self.held.too_small:
            self._compute()

    def to_release(self) -> list[int]:
        """Return the numbers of the workers that must be released: their node is alive but excluded."""
        return [
            worker
            for slot, worker in self._taken.items()
            if slot.node in self.slots.alive and self.why_excluded(slot) is not None
        ]

    def _compute(self) -> None:
        self.held = self._holds(self._nodes, excluded=frozenset(self.excluded), held=tuple(self._taken))
        self.narrow(self.held)
