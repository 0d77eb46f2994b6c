"""Where workers may go: the places of the nodes that are there, which of them are free, and who stands at one no longer wanted.

What it knows is worked out anew only when a node has come or gone, or was excluded; a look at a cluster where nothing happens
costs no more than asking who is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiperf.drive.ray.slots import Slot, Slots, names_of

Holds = Callable[..., Slots]
"""`slots` with all that the run says of workers; takes the nodes, `excluded` and `held`."""


class Places:
    """The places of one executor's workers."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds
        self._nodes: Sequence[Mapping[str, Any]] = ()
        self._alive: frozenset[str] = frozenset()
        self.held = holds(())
        """What the nodes hold, without those that were excluded here."""
        self.there = self.held
        """What of it may be used now."""
        self._wanted: frozenset[Slot] = frozenset()
        self._taken: dict[Slot, int] = {}
        """Who stands where."""
        self.free: dict[Slot, None] = {}
        """Wanted, and nobody stands there; in their order."""
        self.misplaced: dict[int, Slot] = {}
        """Workers at places that are not wanted any more, though their nodes live."""
        self.placed = 0
        """How many of those that are up stand at wanted places."""
        self._up: set[int] = set()
        self.excluded: dict[str, str] = {}
        """Nodes by identifier, address or host name: why no worker is to be there."""

    def see(self, nodes: Sequence[Mapping[str, Any]]) -> bool:
        """What `ray.nodes()` says; whether it is anything new."""
        alive = frozenset(str(node["NodeID"]) for node in nodes if node["Alive"])
        if alive == self._alive:
            return False
        self._nodes, self._alive = nodes, alive
        self._work_out()
        return True

    def narrow(self, allowed: Slots) -> None:
        """Of what the nodes hold these places alone may be used."""
        if allowed.wanted != self.there.wanted:
            self._settle(allowed)

    def exclude(self, host: str, reason: str) -> None:
        """No worker is to be there from now on; those that stand there are misplaced."""
        self.excluded[host] = reason
        self._work_out()

    def why_excluded(self, slot: Slot) -> str | None:
        """Why no worker is to be at a place, if somebody has said so."""
        names = {name for share in slot.shares for name in (share.node, share.address)}
        for node in self._nodes:
            if node["NodeID"] in names:
                names |= names_of(node)
        return next((reason for host, reason in self.excluded.items() if host in names), None)

    def take(self, slot: Slot, worker: int) -> None:
        """A worker is being brought up at a free place."""
        self._taken[slot] = worker
        self.free.pop(slot, None)

    def came_up(self, slot: Slot, worker: int) -> None:
        """A worker trains from now on."""
        self._up.add(worker)
        self.placed += slot in self._wanted

    def leave(self, slot: Slot, worker: int) -> None:
        """A worker stands there no more. Its nodes, where they are several, make workers with those that stood by."""
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
        """Workers that are to be let go, since better places have come, and a worker is up at one of those; or since their node
        was excluded.

        Until then they go on: accelerators that are there but cannot be used would else leave the run with nothing. One whose
        node is gone is not let go: it is lost.
        """
        if not self.misplaced:
            return []
        if self.placed:
            return list(self.misplaced)
        return [worker for worker, slot in self.misplaced.items() if self.why_excluded(slot) is not None]

    def _work_out(self) -> None:
        self.held = self._holds(self._nodes, excluded=frozenset(self.excluded), held=tuple(self._taken))
        self._settle(self.held)

    def _settle(self, there: Slots) -> None:
        self.there = there
        self._wanted = frozenset(self.there.wanted)
        self.free = {slot: None for slot in self.there.wanted if slot not in self._taken}
        alive = self.there.alive
        self.misplaced = {
            worker: slot for slot, worker in self._taken.items() if slot not in self._wanted and slot.node in alive
        }
        self.placed = sum(slot in self._wanted for slot, worker in self._taken.items() if worker in self._up)
