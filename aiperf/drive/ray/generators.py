"""Ray actors that make proposals of networks in advance (generators), one for all workers of a node."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.drive.ray.cluster.daemons import Runtime
from aiperf.drive.ray.mailbox import Sender
from aiperf.drive.ray.ray_worker import WorkerParameters, last_line
from aiperf.journal.events import HelperLost, ProposalRequested
from aiperf.journal.messages import Message, ProposalFailed
from aiperf.rules.proposals import Proposer, make
from searchers.history import History, Observation, Space

GENERATOR_NICENESS = 10
MOST_LOOSE = 1000
"""Maximum number of packets that a new generator receives with its first order."""


class UpdateLog:
    """Log of all results of trials (observations), in packets of bytes for the generators. Each packet is encoded once."""

    def __init__(self, put: Callable[[list[bytes]], Any] = ray.put) -> None:
        """`put`: stores a list of packets and returns a reference to it. Default: Ray's object store."""
        self._put = put
        self._packets: list[bytes] = []
        self._stored: tuple[int, Any] = (0, [])
        """Number of stored packets, and the reference to them."""

    @property
    def count(self) -> int:
        return len(self._packets)

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add results of trials as one packet of bytes."""
        self._packets.append(pickle.dumps(list(observations), protocol=pickle.HIGHEST_PROTOCOL))

    def since(self, known: int) -> tuple[Any, list[bytes]]:
        """Return the packets after the first `known` ones, as (stored, others), in sequence."""
        if known or self.count <= MOST_LOOSE:
            return [], self._packets[known:]
        if self.count - self._stored[0] > MOST_LOOSE:
            self._stored = self.count, self._put(self._packets.copy())
        stored, reference = self._stored
        return reference, self._packets[stored:]


def observed(packets: Iterable[bytes]) -> list[Observation]:
    """Return the results of trials that the packets of an UpdateLog contain, decoded and in sequence."""
    return [observation for packet in packets for observation in pickle.loads(packet)]


@ray.remote(num_cpus=0)
class Generator:
    """Ray actor that makes proposals of networks on one node, before they are needed."""

    def __init__(self, proposer: Proposer, space: Space, mailbox: ActorHandle[Any], niceness: int) -> None:
        """`mailbox`: actor that receives the proposals. `niceness`: increment of the process's nice value."""
        os.nice(niceness)
        self._proposer = proposer
        self._history = History(space)
        self._sender = Sender(mailbox)

    def propose(self, stored: list[bytes], loose: list[bytes], order: ProposalRequested) -> None:
        """Add new results of trials to the history, make one proposal, and send it to the mailbox."""
        self._history.observe(observed([*stored, *loose]))
        self._sender.put([make(self._proposer, self._history, order)])
        self._sender.flush()


@dataclass(slots=True)
class _OfNode:
    actor: Any
    """Actor handle. Typed Any, since Ray's stubs (2.60) declare every method of an actor as never returning."""
    workers: set[int]
    sent: int = 0
    """Number of history packets that it has received."""
    asked: dict[ray.ObjectRef[Any], ProposalRequested] = field(default_factory=dict)


class Generators:
    """Generators (Ray actors that make proposals of networks) of all nodes. Their proposals arrive in the mailbox."""

    def __init__(
        self, making: WorkerParameters, runtime: Runtime, mailbox: ActorHandle[Any], updates: UpdateLog
    ) -> None:
        """`making`: proposer and search space."""
        self._making = making
        self._runtime = runtime
        self._mailbox = mailbox
        self._updates = updates
        self._of_node: dict[str, _OfNode] = {}
        self.calls: dict[ray.ObjectRef[Any], str] = {}
        """Node by open call. Pass finished calls to `look_at`."""

    def serve(self, node: str, worker: int) -> None:
        """Assign worker number `worker` to the generator of its node. Start the generator if the node has none."""
        if node not in self._of_node:
            self._of_node[node] = _OfNode(self._new(node), set())
        self._of_node[node].workers.add(worker)

    def leave(self, node: str, worker: int) -> None:
        """Remove worker number `worker` from the generator of its node."""
        generator = self._of_node.get(node)
        if generator is None:
            return
        generator.workers.discard(worker)
        if not generator.workers:
            del self._of_node[node]
            for call in generator.asked:
                self.calls.pop(call, None)
            self._runtime.call(partial(ray.kill, generator.actor), "ending a generator")

    def propose(self, node: str, order: ProposalRequested) -> None:
        """Send a request for a proposal to a node's generator, with the results of trials that it does not have."""
        generator = self._of_node[node]
        call = generator.actor.propose.remote(*self._updates.since(generator.sent), order)
        generator.sent = self._updates.count
        generator.asked[call] = order
        self.calls[call] = node

    def look_at(self, done: Collection[ray.ObjectRef[Any]]) -> list[Message]:
        failed: dict[str, list[tuple[ProposalRequested, str]]] = {}
        for call in done:
            node = self.calls.pop(call, None)
            if node is None:
                continue  # with the node's last worker
            order = self._of_node[node].asked.pop(call)
            try:
                ray.get(call)
            except RayError as error:
                failed.setdefault(node, []).append((order, last_line(error)))
        return [message for node, why in failed.items() for message in self._replace(node, why)]

    def _replace(self, node: str, failed: list[tuple[ProposalRequested, str]]) -> list[Message]:
        generator = self._of_node[node]
        lost = [*failed, *((order, "its generator died") for order in generator.asked.values())]
        for call in generator.asked:
            self.calls.pop(call, None)
        self._runtime.call(partial(ray.kill, generator.actor), "ending a generator")
        self._of_node[node] = _OfNode(self._new(node), generator.workers)
        lost.sort(key=lambda each: each[0].number)
        messages: list[Message] = []
        worker = next((order.worker for order, _ in lost if order.worker in generator.workers), None)
        if worker is not None:
            messages.append(HelperLost(worker=worker, helper="generator", reason=failed[0][1]))
        messages += [
            ProposalFailed(number=order.number, reason=f"no proposal: {why}", was_made=False)
            for order, why in lost
            if order.worker in generator.workers
        ]
        return messages

    def _new(self, node: str) -> ActorHandle[Any]:
        here = NodeAffinitySchedulingStrategy(node, soft=False)
        actor: ActorHandle[Any] = Generator.options(scheduling_strategy=here).remote(  # type: ignore[attr-defined]
            self._making.proposer, self._making.space, self._mailbox, GENERATOR_NICENESS
        )
        return actor
