"""Backend of a run on Ray: each worker is an actor. Ray holds no state of trials, since the journal is the only record."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from aiperf.drive.ray import ray_worker
from aiperf.drive.ray.cluster.daemons import Runtime
from aiperf.drive.ray.cluster.existing import draining_nodes
from aiperf.drive.ray.generators import Generators, UpdateLog
from aiperf.drive.ray.mailbox import open_mailbox, received
from aiperf.drive.ray.node_admission import NodeAdmission
from aiperf.drive.ray.ray_worker import Call, RayWorker
from aiperf.drive.ray.shared_folder import write_marker
from aiperf.drive.ray.slots import Places, Slot, StartLaw, Starts, slots
from aiperf.drive.ray.worker_host import OpenGroup, WorkerPlan, open_ranks
from aiperf.errors import AiperfError, RuntimeLost
from aiperf.journal.events import ProposalRequested, WorkerJoined, WorkerLost, WorkerNotStarted
from aiperf.journal.messages import Drop, Message, Order, Release, Sum, Train
from aiperf.planning.worker_shape import WorkerRequirements, breach
from aiperf.rules.proposals import Proposer
from searchers.history import Observation, Space

LOOK_SECONDS = 1.0
"""Minimum interval of polls for dead workers and new nodes."""
LOOK_SHARE = 0.05
"""Maximum share of the driver's time for polls. With thousands of nodes polls are less frequent."""
LONGEST_LOOK_SECONDS = 5.0


class RayExecutor:
    """Backend of the driver (main process of a run) on the Ray cluster that this process is connected to."""

    def __init__(
        self,
        plan: WorkerPlan,
        proposer: Proposer,
        space: Space,
        *,
        first_worker: int,
        accelerators_per_worker: int | str | None,
        only_accelerators: bool = False,
        terms: WorkerRequirements | None = None,
        open_group: OpenGroup = open_ranks,
        law: StartLaw | None = None,
        gate: NodeAdmission | None = None,
    ) -> None:
        """Create an executor. `ray.init` must have been called."""
        self._making = ray_worker.WorkerParameters(
            replace(plan, marker=write_marker(plan.folder)), proposer, space, open_group
        )
        self._law = law or StartLaw()
        self._gate = gate
        self._starts = Starts(self._law, time.monotonic())
        self._next = first_worker
        self._terms = terms or WorkerRequirements(None, None)
        self._workers = ray_worker.ExecutorWorkers()
        self._places = Places(
            partial(slots, accelerators_per_worker=accelerators_per_worker, only_accelerators=only_accelerators)
        )
        self._drops: list[Drop] = []
        """Wait for a worker that is up."""
        self._dropping: dict[Call, Drop] = {}
        """Orders that wait for a worker that is up."""
        self._own: list[Message] = []
        self._next_look = 0.0
        self._said_too_small: set[str] = set()
        self._runtime = Runtime.of_this_process()
        self._mailbox = open_mailbox()
        self._updates = UpdateLog()
        self._generators = Generators(self._making, self._runtime, self._mailbox, self._updates)

    def start(self) -> None:
        """Request a worker at each place (node resources for one worker) that may be used. Return before they are ready."""
        with self._runtime.watched():
            self._look_for_places(time.monotonic())

    def observe(self, observations: Sequence[Observation]) -> None:
        """Store results of trials. Each process that makes proposals receives the new ones with its next request."""
        if observations:
            self._updates.observe(observations)

    def send(self, order: Order) -> None:
        match order:
            case ProposalRequested() if order.worker in self._workers:
                self._generators.propose(self._workers[order.worker].slot.node, order)
            case Train() | Sum() if order.worker in self._workers:
                self._workers[order.worker].host.order.remote(order)
            case ProposalRequested() | Train() | Sum():
                pass
            case Drop():
                self._drops.append(order)
                self._drop()
            case Release():
                self._remove(order.worker)
            case _:
                assert_never(order)

    def messages(self, timeout: float) -> list[Message]:
        try:
            with self._runtime.watched():
                return self._messages(timeout)
        except (RayActorError, GetTimeoutError) as error:
            raise RuntimeLost(
                f"a run needs its mailbox, an actor on the head, but it died or did not answer: {ray_worker.last_line(error)}"
            ) from error

    def _messages(self, timeout: float) -> list[Message]:
        now = time.monotonic()
        over: dict[int, str | None] = {}
        is_due = now >= self._next_look
        if is_due:
            over = self._look_at_calls(now)
        took = time.monotonic() - now
        waits = not (over or self._own)
        arrived = received(self._mailbox, timeout if waits else 0.0)
        messages = [message for one in arrived for message in self._taken(one, time.monotonic())]
        for number, late in over.items():
            self._remove_lost(number, late, now)
        if is_due:
            began = time.monotonic()
            self._look_for_places(now)
            took += time.monotonic() - began
            self._next_look = now + min(max(LOOK_SECONDS, took / LOOK_SHARE), LONGEST_LOOK_SECONDS)
        own, self._own = self._own, []
        return messages + own

    def close(self) -> None:
        """End the check of new nodes, if any, and all workers. If a process of Ray is lost, return without an error."""
        with suppress(RuntimeLost):
            self._runtime.check()
            self._close()

    def _close(self) -> None:
        if self._gate is not None:
            self._gate.close()
        for number in list(self._workers):
            self._let_go(number, time.monotonic())
        self._end(self._workers.await_those_that_leave(5.0))

    # --- words

    def _taken(self, message: Message, now: float) -> list[Message]:
        if not isinstance(message, WorkerJoined):
            return [message]
        worker = self._workers.get(message.worker)
        if worker is None:
            return []  # it was removed meanwhile, and is not to be believed to live
        if (why := breach(self._terms, message, worker.slot.accelerators)) is not None:
            self._not_started(worker.slot, now, f"{message.host} is refused: {why}", None, is_final=True)
            self._remove(message.worker)
            return []
        worker.up = now
        self._starts.up(now)
        self._drop()
        return [message]

    def _release_excluded(self, now: float) -> None:
        for number in self._places.to_release():
            worker = self._workers[number]
            if worker.up is not None:
                why = self._places.why_excluded(worker.slot)
                reason = f"released: {worker.slot.address} is excluded, {why}"
                self._own.append(WorkerLost(worker=number, cause="released", reason=reason))
            self._let_go(number, now)

    def _drop(self) -> None:
        """Send waiting orders to remove checkpoints to any worker that is up. The run's folder is shared."""
        able = next(iter(self._workers.up), None)
        if able is not None:
            for order in self._drops:
                self._dropping[able.host.order.remote(order)] = order
            self._drops = []

    def _look_at_drops(self, done: Collection[Call]) -> None:
        """Repeat orders to remove a checkpoint that were lost with their worker."""
        for call in self._dropping.keys() & done:
            order = self._dropping.pop(call)
            try:
                ray.get(call)
            except RayActorError:
                self._drops.append(order)
            except RayTaskError:
                pass
        if self._drops:
            self._drop()

    # --- looking

    def _look_at_calls(self, now: float) -> dict[int, str | None]:
        """Return the workers that have ended (None) or whose start is given up (reason)."""
        done = _done([*self._workers.calls(), *self._generators.calls, *self._dropping])
        self._look_at_drops(done)
        self._workers.answered(done, now)
        over: dict[int, str | None] = {number: None for number, worker in self._workers.items() if worker.life in done}
        self._end(self._workers.left(done, now))
        self._own += self._generators.look_at(done)
        for number, worker in self._workers.items():
            if worker.up is None and number not in over and (late := self._late(worker, now)) is not None:
                over[number] = late
        return over

    def _late(self, worker: RayWorker, now: float) -> str | None:
        """Return the reason for giving up a start that has not failed by itself, or None."""
        where = worker.slot.address
        if worker.slot.node not in self._places.slots.alive:
            return f"{where} was lost before a worker was up on it"
        waited = self._workers.waited(worker, now)
        if not worker.has_place and waited > self._law.place_seconds:
            room = f"{worker.slot.cores} processors and {worker.slot.accelerators} accelerators"
            return f"no room on {where} in {waited:.0f} s for an actor with {room}"
        waited = now - worker.began
        if waited > self._law.start_seconds:
            return f"no worker was up on {where} after {waited:.0f} s"
        return None

    def _remove_lost(self, number: int, late: str | None, now: float) -> None:
        worker = self._workers.get(number)
        if worker is None or (late is not None and worker.up is not None):
            return  # it was released, or it came up since the poll
        reason, error = (late, None) if late is not None else ray_worker.end_of(worker)
        if worker.up is not None:
            self._own.append(WorkerLost(worker=number, reason=reason))
            self._starts.lost(worker.slot, now, now - worker.up, reason, error)
        else:
            self._not_started(worker.slot, now, reason, error)
        self._remove(number)

    def _not_started(
        self, slot: Slot, now: float, reason: str, error: AiperfError | None, *, is_final: bool = False
    ) -> None:
        failure = self._starts.failed(slot, now, reason, error, is_final=is_final)
        self._own.append(WorkerNotStarted(host=slot.address, failures=failure.count, reason=reason))

    def _look_for_places(self, now: float) -> None:
        nodes: list[dict[str, Any]] = self._runtime.call(ray.nodes, "the list of nodes (ray.nodes)")
        self._places.update(nodes)
        for node in self._runtime.call(draining_nodes, "the list of draining nodes"):
            if node not in self._places.excluded:
                self._places.exclude(node, "Ray is draining this node")
        if self._gate is not None:
            for node in self._gate.excluded - self._places.excluded.keys():
                self._places.exclude(node, "preflight found a fault (docs/preflight.md)")
            allowed, inspected = self._gate.look(nodes, self._places.held)
            self._places.narrow(allowed)
            self._own += inspected
        self._release_excluded(now)
        for address, reason in self._places.slots.too_small.items():
            if address not in self._said_too_small:
                self._said_too_small.add(address)
                self._own.append(WorkerNotStarted(host=address, failures=0, reason=reason))
        if self._workers.up:
            self._starts.up(now)
        error = self._starts.hopeless(self._places.slots.wanted, now)
        if error is not None:
            if self._own:
                return  # report first: the journal needs the reasons
            raise error
        self._bring_up_some(now)

    def _bring_up_some(self, now: float) -> None:
        chosen = [slot for slot in self._places.free if self._starts.may(slot, now)]
        if not chosen:
            return
        numbers = range(self._next, self._next + len(chosen))
        self._next += len(chosen)

        def ask() -> list[RayWorker]:
            return [
                ray_worker.bring_up(self._making, number, slot, self._mailbox, now)
                for number, slot in zip(numbers, chosen, strict=True)
            ]

        for worker in self._runtime.call(ask, f"asking for {len(chosen)} workers"):
            self._workers[worker.number] = worker
            self._places.take(worker.slot, worker.number)
            self._generators.serve(worker.slot.node, worker.number)

    def _let_go(self, number: int, now: float) -> None:
        self._forgotten(self._workers.remove(number, now))

    def _remove(self, number: int) -> None:
        worker = self._workers.pop(number, None)
        if worker is not None:
            self._forgotten(worker)
            self._end([worker])

    def _forgotten(self, worker: RayWorker) -> None:
        self._places.leave(worker.slot, worker.number)
        self._generators.leave(worker.slot.node, worker.number)

    def _end(self, workers: list[RayWorker]) -> None:
        if workers:
            self._runtime.call(partial(ray_worker.remove, workers), f"ending {len(workers)} workers")


def _done(calls: list[Call]) -> set[Call]:
    """Return the finished calls. Does not wait."""
    return set(ray.wait(calls, num_returns=len(calls), timeout=0.0)[0]) if calls else set()
