"""The actors that make proposals: one a node, for all workers on it, ahead of need.

A proposal takes some 50 ms whatever the length of the run, and a worker wants one every few minutes: one process serves all
workers of its node, where each would hold the same history and read the same news.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.drive.ray.actors import Generator
from aiperf.drive.ray.daemons import Runtime
from aiperf.drive.ray.news import News
from aiperf.drive.ray.ray_worker import Making, last_line
from aiperf.journal.messages import HelperDown, Propose, Unproposed, Word

GENERATOR_NICENESS = 10
"""Where ranks and generator share cores training goes first: the next proposal is asked for just when a trial is prepared."""


@dataclass(slots=True)
class _OfNode:
    """A node's generator, and what it has been told and asked."""

    actor: Any
    """A handle; its stubs (Ray 2.60) take every method of an actor for one that never returns."""
    workers: set[int]
    """Those on the node."""
    told: int = 0
    """How many packets of the news it has been given."""
    asked: dict[ray.ObjectRef[Any], Propose] = field(default_factory=dict)


class Generators:
    """Those of all nodes. The answers themselves are words, in the mailbox."""

    def __init__(self, making: Making, runtime: Runtime, mailbox: ActorHandle[Any], news: News) -> None:
        """`news`: what they learn from."""
        self._making = making
        self._runtime = runtime
        self._mailbox = mailbox
        self._news = news
        self._of_node: dict[str, _OfNode] = {}
        self.calls: dict[ray.ObjectRef[Any], str] = {}
        """What is being made, and on which node; to be waited for, and told to `look_at` once it is over."""

    def serve(self, node: str, worker: int) -> None:
        """There is a worker on a node; its proposals are made there. Asks for the generator where there is none yet."""
        if node not in self._of_node:
            self._of_node[node] = _OfNode(self._new(node), set())
        self._of_node[node].workers.add(worker)

    def leave(self, node: str, worker: int) -> None:
        """A worker is gone; with the last of a node its generator goes, and what it was asked for."""
        there = self._of_node.get(node)
        if there is None:
            return
        there.workers.discard(worker)
        if not there.workers:
            del self._of_node[node]
            for call in there.asked:
                self.calls.pop(call, None)
            self._runtime.asked(partial(ray.kill, there.actor), "ending a generator")

    def propose(self, node: str, order: Propose) -> None:
        """Passes an order on, with the news that the generator lacks; returns at once."""
        there = self._of_node[node]
        call = there.actor.propose.remote(self._news.since(there.told), order)
        there.told = self._news.count
        there.asked[call] = order
        self.calls[call] = node

    def look_at(self, done: Collection[ray.ObjectRef[Any]]) -> list[Word]:
        """What is to be said of calls that are over. A generator that died is replaced: all that was asked of it has failed,
        and the new one is told everything again."""
        failed: dict[str, list[tuple[Propose, str]]] = {}
        for call in done:
            node = self.calls.pop(call, None)
            if node is None:
                continue  # with the node's last worker
            order = self._of_node[node].asked.pop(call)
            try:
                ray.get(call)
            except RayError as error:
                failed.setdefault(node, []).append((order, last_line(error)))
        return [word for node, why in failed.items() for word in self._replace(node, why)]

    def _replace(self, node: str, failed: list[tuple[Propose, str]]) -> list[Word]:
        there = self._of_node[node]
        lost = [*failed, *((order, "its generator died") for order in there.asked.values())]
        for call in there.asked:
            self.calls.pop(call, None)
        self._runtime.asked(partial(ray.kill, there.actor), "ending a generator")
        self._of_node[node] = _OfNode(self._new(node), there.workers)
        lost.sort(key=lambda each: each[0].number)
        said: list[Word] = []
        worker = next((order.worker for order, _ in failed if order.worker in there.workers), None)
        if worker is not None:
            said.append(HelperDown(worker=worker, helper="generator", reason=failed[0][1]))
        said += [
            Unproposed(number=order.number, reason=f"no proposal: {why}", was_made=False)
            for order, why in lost
            if order.worker in there.workers
        ]
        return said

    def _new(self, node: str) -> ActorHandle[Any]:
        """One that knows nothing yet."""
        here = NodeAffinitySchedulingStrategy(node, soft=False)
        actor: ActorHandle[Any] = Generator.options(scheduling_strategy=here).remote(  # type: ignore[attr-defined]
            self._making.proposer, self._making.space, self._mailbox, GENERATOR_NICENESS
        )
        return actor
