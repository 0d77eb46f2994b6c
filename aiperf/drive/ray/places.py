"""Free and used places for workers on the current nodes. A place is the share of one or several nodes for one worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiperf.drive.ray.slots import Slot, Slots

Holds = Callable[..., Slots]
"""`slots` with the parameters of the run. Arguments: the nodes, `excluded` and `held`."""


class Places:
    """Places (node resources for one worker each) of one executor, with the worker at each."""

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

    def update(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Recompute the places if other nodes are alive than at the last call. `nodes`: entries of ray.nodes()."""
        self._nodes = nodes
        if frozenset(str(node["NodeID"]) for node in nodes if node["Alive"]) != self.held.alive:
            self._compute()

    def narrow(self, allowed: Slots) -> None:
        """Allow new workers only at the places in `allowed`, until the places are next computed."""
        self.slots = allowed
        self.free = {slot: None for slot in allowed.wanted if slot not in self._taken}

    def exclude(self, node: str, reason: str) -> None:
        self.excluded[node] = reason
        self._compute()

    def why_excluded(self, slot: Slot) -> str | None:
        """Return the reason why a node of the place `slot` was excluded. None if all its nodes may hold workers."""
        return next((self.excluded[share.node] for share in slot.shares if share.node in self.excluded), None)

    def take(self, slot: Slot, worker: int) -> None:
        """Record that worker number `worker` uses the place `slot`."""
        self._taken[slot] = worker
        self.free.pop(slot, None)

    def leave(self, slot: Slot, worker: int) -> None:
        """Record that worker number `worker` has left the place `slot`. Nothing if this worker is not there."""
        if self._taken.get(slot) != worker:
            return
        del self._taken[slot]
        if slot in self.slots.wanted:
            self.free[slot] = None
        if slot.others or self.held.too_small:
            self._compute()

    def to_release(self) -> list[int]:
        """Return the numbers of the workers that must be ended."""
        return [
            worker
            for slot, worker in self._taken.items()
            if slot.node in self.slots.alive and self.why_excluded(slot) is not None
        ]

    def _compute(self) -> None:
        self.held = self._holds(self._nodes, excluded=frozenset(self.excluded), held=tuple(self._taken))
        self.narrow(self.held)
