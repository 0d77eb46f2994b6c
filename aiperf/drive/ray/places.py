"""Places for workers: those of the current nodes, the free ones, and workers at places that are no longer wanted.

The places are recomputed only when a node was added, lost or excluded. Without such a change an update costs no more
than the list of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiperf.drive.ray.slots import Slot, Slots, names_of

Holds = Callable[..., Slots]
"""`slots` with the parameters of the run. Arguments: the nodes, `excluded` and `held`."""


class Places:
    """The places of one executor's workers."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds
        self._nodes: Sequence[Mapping[str, Any]] = ()
        self._alive: frozenset[str] = frozenset()
        self.held = holds(())
        """Places on all nodes that were not excluded here."""
        self.slots = self.held
        """Subset of `held` that may be used now."""
        self._wanted: frozenset[Slot] = frozenset()
        self._taken: dict[Slot, int] = {}
        """Worker by place."""
        self.free: dict[Slot, None] = {}
        """Wanted places without a worker, in order."""
        self.misplaced: dict[int, Slot] = {}
        """Workers on living nodes whose places are no longer wanted."""
        self.placed = 0
        """Number of workers that are up at wanted places."""
        self._up: set[int] = set()
        self.excluded: dict[str, str] = {}
        """Reason of the exclusion, by identifier, address or host name of a node."""

    def see(self, nodes: Sequence[Mapping[str, Any]]) -> bool:
        """Update from `ray.nodes()`. Return whether anything changed."""
        alive = frozenset(str(node["NodeID"]) for node in nodes if node["Alive"])
        if alive == self._alive:
            return False
        self._nodes, self._alive = nodes, alive
        self._work_out()
        return True

    def narrow(self, allowed: Slots) -> None:
        """Limit the places to those in `allowed`."""
        if allowed.wanted != self.slots.wanted:
            self._settle(allowed)

    def exclude(self, host: str, reason: str) -> None:
        """Exclude a node. Its workers become misplaced."""
        self.excluded[host] = reason
        self._work_out()

    def why_excluded(self, slot: Slot) -> str | None:
        names = {name for share in slot.shares for name in (share.node, share.address)}
        for node in self._nodes:
            if node["NodeID"] in names:
                names |= names_of(node)
        return next((reason for host, reason in self.excluded.items() if host in names), None)

    def take(self, slot: Slot, worker: int) -> None:
        self._taken[slot] = worker
        self.free.pop(slot, None)

    def came_up(self, slot: Slot, worker: int) -> None:
        self._up.add(worker)
        self.placed += slot in self._wanted

    def leave(self, slot: Slot, worker: int) -> None:
        """Remove a worker from its place.

        If it spanned several nodes, they are grouped again with nodes that were left over.
        """
        is_regrouped = False
        if self._taken.get(slot) == worker:
            del self._taken[slot]
            if slot in self._wanted:
                self.free[slot] = None
            is_regrouped = bool(slot.others or self.held.too_small)
        self.misplaced.pop(worker, None)
        if worker in self._up:
            self._up.discard(worker)
            self.placed -= slot in self._wanted
        if is_regrouped:
            self._work_out()

    def superseded(self) -> list[int]:
        """Return the workers to release: a worker is up at a better place, or their node was excluded.

        Without a worker at a better place they continue, since accelerators that exist but fail would leave the run
        without workers. Workers on lost nodes are not listed.
        """
        if not self.misplaced:
            return []
        if self.placed:
            return list(self.misplaced)
        return [worker for worker, slot in self.misplaced.items() if self.why_excluded(slot) is not None]

    def _work_out(self) -> None:
        self.held = self._holds(self._nodes, excluded=frozenset(self.excluded), held=tuple(self._taken))
        self._settle(self.held)

    def _settle(self, slots: Slots) -> None:
        self.slots = slots
        self._wanted = frozenset(self.slots.wanted)
        self.free = {slot: None for slot in self.slots.wanted if slot not in self._taken}
        alive = self.slots.alive
        self.misplaced = {
            worker: slot for slot, worker in self._taken.items() if slot not in self._wanted and slot.node in alive
        }
        self.placed = sum(slot in self._wanted for slot, worker in self._taken.items() if worker in self._up)
