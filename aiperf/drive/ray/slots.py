"""Places for workers (shares of one or several nodes) on a Ray cluster. A failed place is tried again after doubling pauses."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from aiperf.config import ALL
from aiperf.errors import AiperfError, NoWorkers

Node = Mapping[str, Any]
_IN_RESERVE = "is in reserve: no node is added to a running worker. It is used when a worker next starts"


@dataclass(frozen=True, slots=True)
class Share:
    """Resources of one node that a worker uses: accelerators and cores."""

    node: str
    """Ray's identifier of the node."""
    address: str
    accelerators: int
    cores: int


@dataclass(frozen=True, slots=True)
class Slot:
    """Place for one worker (process group that trains networks): resources of one node, or of several nodes."""

    node: str
    """Ray's identifier of the node. With several nodes, that of the leading one."""
    address: str
    index: int
    """Index among the workers of the node."""
    accelerators: int
    """Number of accelerators on this node. `cores` is the number of its cores."""
    cores: int
    others: tuple[Share, ...] = ()

    @property
    def shares(self) -> tuple[Share, ...]:
        """Resources on each node of the place, the leading node first."""
        return (Share(self.node, self.address, self.accelerators, self.cores), *self.others)


@dataclass(frozen=True, slots=True)
class Slots:
    """Places for workers on the nodes of a Ray cluster, and nodes that hold no worker."""

    wanted: tuple[Slot, ...]
    alive: frozenset[str]
    """Identifiers of the nodes that are alive."""
    too_small: Mapping[str, str]
    """Reason by address, for nodes with accelerators that hold no worker."""


def slots(
    nodes: Sequence[Node],
    accelerators_per_worker: int | str | None,
    *,
    only_accelerators: bool = False,
    held: Collection[Slot] = (),
    excluded: Collection[str] = frozenset(),
) -> Slots:
    """Places on those of `nodes` (ray.nodes()) that are alive. `accelerators_per_worker`: None: one with all of a node's."""
    alive = [node for node in nodes if node["Alive"]]
    usable = [node for node in alive if node["NodeID"] not in excluded]
    each, unused = accelerators_per_worker, dict[str, str]()
    if only_accelerators or isinstance(each, int) or any(map(_accelerators, alive)):
        able = [node for node in usable if _accelerators(node)]
    else:
        has_others = any(not _is_head(node) for node in alive)
        able = [node for node in usable if not (has_others and _is_head(node)) and node["Resources"].get("CPU", 0) >= 1]
    if each == ALL:
        places, unused = _one_of_all(able, held)
    else:
        assert each is None or isinstance(each, int), "the configuration is checked"
        places = [slot for node in able for slot in _within(node, each)]
        if each is not None and (smaller := [node for node in able if _accelerators(node) < each]):
            spanning, unused = _of_several(smaller, each, held)
            places += spanning
    wanted = (slot for slot in places if not any(share.node in excluded for share in slot.shares))
    return Slots(tuple(wanted), frozenset(str(node["NodeID"]) for node in alive), unused)


def _within(node: Node, each: int | None) -> Iterator[Slot]:
    accelerators, cores = _accelerators(node), _cores(node)
    if not accelerators:
        yield Slot(node["NodeID"], node["NodeManagerAddress"], 0, 0, cores)
        return
    each = each or accelerators
    count = accelerators // each
    for index in range(count):
        yield Slot(node["NodeID"], node["NodeManagerAddress"], index, each, max(1, cores // count))


def _one_of_all(nodes: Sequence[Node], held: Collection[Slot]) -> tuple[list[Slot], dict[str, str]]:
    node_ids = {node["NodeID"] for node in nodes}
    kept = [slot for slot in held if slot.node in node_ids][:1]
    if kept or not nodes:
        return kept, _in_reserve(kept, nodes)
    return [_spanning(_in_order(nodes))], {}


def _of_several(nodes: Sequence[Node], accelerators: int, held: Collection[Slot]) -> tuple[list[Slot], dict[str, str]]:
    """Return places of `accelerators` accelerators each, on nodes that have fewer each, and the reason for unused nodes."""
    node_ids = {node["NodeID"] for node in nodes}
    kept = [slot for slot in held if slot.others and slot.node in node_ids]
    addresses = {share.address for slot in kept for share in slot.shares}
    unused = _in_reserve(kept, [node for node in nodes if node["NodeManagerAddress"] in addresses])
    free = [node for node in nodes if node["NodeManagerAddress"] not in addresses]
    for size, alike in groupby(sorted(free, key=_accelerators), key=_accelerators):
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
        kept += [_spanning(ordered[first : first + each]) for first in range(0, used, each)]
        why = (
            f"a worker has {accelerators} accelerators on {each} nodes of {size}, but this node has {size} and is left over: "
            "add nodes, or lower accelerators_per_worker"
        )
        unused |= {node["NodeManagerAddress"]: why for node in ordered[used:]}
    return kept, unused


def _spanning(nodes: Sequence[Node]) -> Slot:
    first, *others = (
        Share(node["NodeID"], node["NodeManagerAddress"], _accelerators(node), _cores(node)) for node in nodes
    )
    return Slot(first.node, first.address, 0, first.accelerators, first.cores, tuple(others))


def _in_reserve(kept: Sequence[Slot], nodes: Sequence[Node]) -> dict[str, str]:
    taken = {share.node for slot in kept for share in slot.shares}
    return {node["NodeManagerAddress"]: _IN_RESERVE for node in nodes if node["NodeID"] not in taken}


def _accelerators(node: Node) -> int:
    return int(node["Resources"].get("GPU", 0))


def _cores(node: Node) -> int:
    return max(1, int(node["Resources"].get("CPU", 0)))


def _is_head(node: Node) -> bool:
    return "node:__internal_head__" in node["Resources"]


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: _number(str(node["NodeManagerAddress"])))


def _number(address: str) -> tuple[int, int, str]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return 9, 0, address
    return parsed.version, int(parsed), address


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


@dataclass(frozen=True, slots=True)
class StartLaw:
    """Limits of time and number for the starts of workers (process groups that train networks)."""

    tries: int = 3
    """Tries at each place before a run without workers ends."""
    first_pause_seconds: float = 10.0
    """Pause after the second failure in a row. The first failure is followed by another try at once."""
    longest_pause_seconds: float = 600.0
    long_life_seconds: float = 60.0
    """A worker that was up for this time resets the failures of its place."""
    place_seconds: float = 300.0
    """Limit for a worker's actor to get its place, from its request or from the last start of another actor on its
    node."""
    start_seconds: float = 3600.0
    """Limit for the start of a worker's ranks."""
    alone_seconds: float = 600.0
    """Maximum time of a run without any worker after all are lost."""

    def pause(self, failures: int) -> float:
        """Return the seconds from the last of `failures` consecutive failures at a place to the next try.

        >>> [StartLaw().pause(failures) for failures in (1, 2, 3, 4, 100)]
        [0.0, 10.0, 20.0, 40.0, 600.0]
        """
        if failures < 2:
            return 0.0
        # the exponent is bounded, or it overflows after a thousand failures
        return float(min(self.longest_pause_seconds, self.first_pause_seconds * 2 ** min(failures - 2, 64)))


@dataclass(frozen=True, slots=True)
class Failure:
    """Latest failures to start a worker at one place (node resources for one worker)."""

    count: int
    """Failures in a row."""
    at: float
    reason: str
    error: AiperfError | None
    """Error that the user can fix. None if no such error is known."""
    is_final: bool = False
    """True if the place must never be tried again."""


class Starts:
    """Record of failed starts at each place, for all workers of a run.

    Before the first worker is up the run ends if each place has used its tries or has failed finally: no work is lost then.
    Later a failure at one place never ends the work at others.
    """

    def __init__(self, law: StartLaw, now: float) -> None:
        """`law`: limits. `now`: current time. The time without a worker is counted from it."""
        self._law = law
        self._failures: dict[Slot, Failure] = {}
        self._has_been_up = False
        self._last_up = now
        self._last: Failure | None = None

    def up(self, now: float) -> None:
        """Record that at least one worker is up at time `now`."""
        self._has_been_up = True
        self._last_up = now

    def failed(
        self, slot: Slot, now: float, reason: str, error: AiperfError | None = None, *, is_final: bool = False
    ) -> Failure:
        """`error`: error that the user can fix, else None. `is_final`: the place must never be tried again."""
        before = self._failures.get(slot)
        self._last = Failure((before.count if before else 0) + 1, now, reason, error, is_final)
        self._failures[slot] = self._last
        return self._last

    def lost(self, slot: Slot, now: float, lived: float, reason: str, error: AiperfError | None) -> None:
        """Record the loss of a worker that was up for `lived` seconds. `error`: error that the user can fix, or None."""
        if lived >= self._law.long_life_seconds:
            self._failures.pop(slot, None)
        self.failed(slot, now, reason, error)

    def may(self, slot: Slot, now: float) -> bool:
        """Return True if a worker may be started at the place `slot` at `now`, in seconds of the clock of all calls."""
        failure = self._failures.get(slot)
        if failure is None:
            return True
        failures = failure.count
        if failure.error is not None and not self._has_been_up:
            failures = max(failures, self._law.tries)  # somebody has to fix it, and the others' fate may end the run
        return not failure.is_final and now - failure.at >= self._law.pause(failures)

    def hopeless(self, wanted: Collection[Slot], now: float) -> NoWorkers | None:
        """Return the error that ends the run because no worker can be started. None if the run may continue."""
        if self._has_been_up:
            return self._left_alone(now)
        if not wanted or not all(self._is_given_up(slot) for slot in wanted):
            return None  # a place that has used its tries is still tried again, without delaying others
        failures = [self._failures[slot] for slot in wanted]
        reasons = sorted({failure.reason for failure in failures})
        if len(reasons) == 1 and (error := failures[0].error) is not None:
            return NoWorkers(str(error))
        return NoWorkers(
            f"a run needs at least one worker, but none could be started at {len(failures)} places, in up to {self._law.tries} "
            f"tries at each. {'; '.join(reasons[:3])}{' …' if len(reasons) > 3 else ''}. Remove this cause, then resume the run"
        )

    def _is_given_up(self, slot: Slot) -> bool:
        failure = self._failures.get(slot)
        return failure is not None and (
            failure.is_final or failure.error is not None or failure.count >= self._law.tries
        )

    def _left_alone(self, now: float) -> NoWorkers | None:
        alone = now - self._last_up
        if alone < self._law.alone_seconds:
            return None
        why = "no host can hold one" if self._last is None else f"last failure: {self._last.reason}"
        return NoWorkers(
            f"a run needs at least one worker, but all are lost, and none came up for {alone:.0f} s ({why}). "
            "Remove this cause, then resume the run"
        )
