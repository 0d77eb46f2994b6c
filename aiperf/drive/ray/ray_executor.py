"""Workers as actors of a Ray cluster: the head is the master, each worker a placement group on one node.

Nodes that join later bring workers too; a worker that dies is replaced, under a new number, as long as its node lives.
Ray's own view of trials does not exist: the journal is the truth, and these actors only train and propose.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, assert_never

import ray
from ray.exceptions import RayError

from aiperf.drive.preflight import Gate
from aiperf.drive.ray.actors import OpenGroup, WorkerPlan, open_ranks
from aiperf.drive.ray.daemons import Runtime
from aiperf.drive.ray.failed_starts import StartLaw, Starts
from aiperf.drive.ray.mailbox import Post
from aiperf.drive.ray.ray_worker import Making, RayWorker, bring_up, end_of, last_line, new_generator, remove
from aiperf.drive.ray.slots import Slot, slots, superseded
from aiperf.errors import AiperfError, RuntimeLost
from aiperf.journal.messages import (
    Drop,
    HelperDown,
    NotStarted,
    Order,
    Propose,
    Release,
    Sum,
    Train,
    Unproposed,
    Word,
    WorkerDown,
    WorkerUp,
)
from aiperf.planning.worker_shape import Terms, breach
from aiperf.rules.proposals import Proposer
from searchers.history import Observation, Space

LOOK_SECONDS = 1.0
"""How often dead workers and new nodes are looked for."""
LEAVE_SECONDS = 10.0
"""A worker that was let go may take so long to end by itself."""


class RayExecutor:
    """Carries orders out on the Ray cluster that this process is connected to."""

    def __init__(
        self,
        plan: WorkerPlan,
        proposer: Proposer,
        space: Space,
        *,
        first_worker: int,
        accelerators_per_worker: int | None,
        only_accelerators: bool = False,
        terms: Terms | None = None,
        open_group: OpenGroup = open_ranks,
        law: StartLaw | None = None,
        gate: Gate | None = None,
    ) -> None:
        """`plan` is that of all workers; place and number are filled in for each. Ray must have been initialised.

        `only_accelerators`: nodes without are no places, since the run was planned for accelerators. `terms`: what the plan
        asks of each worker. `gate`: says which nodes may hold one; none: all may.
        """
        self._making = Making(plan, proposer, space, open_group)
        self._law = law or StartLaw()
        self._gate = gate
        self._starts = Starts(self._law, time.monotonic())
        self._next = first_worker
        self._accelerators = accelerators_per_worker
        self._only_accelerators = only_accelerators
        self._terms = terms or Terms(None, None)
        self._workers: dict[int, RayWorker] = {}
        self._leaving: list[tuple[RayWorker, float]] = []
        """Let go and not yet ended, and when that was."""
        self._drops: list[Drop] = []
        """Wait for a worker that is up."""
        self._observations: list[Observation] = []
        self._own: list[Word] = []
        self._looked = 0.0
        self._said_too_small: set[str] = set()
        self._there = slots([], accelerators_per_worker)
        self._runtime = Runtime.of_this_process()
        self._post = Post()

    def start(self) -> None:
        """Asks for a worker at every place there is; each says WorkerUp when its ranks stand."""
        with self._runtime.watched():
            self._look_for_places(time.monotonic())

    def tell(self, observations: Sequence[Observation]) -> None:
        """Kept until a generator is next asked: increments, never the whole history."""
        self._observations += observations

    def send(self, order: Order) -> None:
        """Passes an order on to the actor it is for; one for a worker that is gone is dropped, since its loss is on its way."""
        match order:
            case Propose() if order.worker in self._workers:
                asked = self._workers[order.worker]
                unknown = self._observations[asked.observations_sent :]
                call = asked.generator.propose.remote(unknown, order)
                asked.observations_sent = len(self._observations)
                asked.proposing = (*asked.proposing, (order.number, call))
            case Train() if order.worker in self._workers:
                self._workers[order.worker].host.order.remote(order)
            case Sum() if order.worker in self._workers:
                self._workers[order.worker].host.order.remote(order)
            case Propose() | Train() | Sum():
                pass
            case Drop():
                self._drops.append(order)
                self._drop()
            case Release():
                self._remove(order.worker)
            case _:
                assert_never(order)

    def words(self, timeout: float) -> list[Word]:
        """The words that have come; looks for dead workers and new nodes now and then.

        A worker's death is seen before the mailbox is emptied and said after: all that it had said comes first.

        Raises:
            AiperfError: no worker is there, and none can be had.
            RuntimeLost: one of Ray's own processes has died.
        """
        with self._runtime.watched():
            return self._words(timeout)

    def _words(self, timeout: float) -> list[Word]:
        now = time.monotonic()
        over: dict[int, str | None] = {}
        is_due = now - self._looked > LOOK_SECONDS
        if is_due:
            self._looked = now
            over = self._over(now)
            self._look_at_generators()
        waits = not (over or self._own)
        taken = self._post.take(timeout if waits else 0.0)
        if taken is None:
            # who has died is said when the mailbox answers again, after his words
            taken, over, self._looked = [], {}, 0.0
        said = [word for one in taken for word in self._taken(one, time.monotonic())]
        for number, late in over.items():
            self._bury(number, late, now)
        if is_due:
            self._look_for_places(now)
        own, self._own = self._own, []
        return said + own

    def close(self) -> None:
        """Ends all workers; those of a Ray that is lost have ended with it."""
        with suppress(RuntimeLost):
            self._runtime.check()
            self._close()

    def _close(self) -> None:
        for number in list(self._workers):
            self._let_go(number, time.monotonic())
        lives = [worker.life for worker, _ in self._leaving]
        if lives:
            ray.wait(lives, num_returns=len(lives), timeout=5.0)
        for worker, _ in self._leaving:
            self._runtime.asked(partial(remove, worker))
        self._leaving = []

    # --- words

    def _taken(self, word: Word, now: float) -> list[Word]:
        """What a word of the mailbox becomes: with the first word of a better place's worker, others are let go."""
        if not isinstance(word, WorkerUp):
            return [word]
        worker = self._workers.get(word.worker)
        if worker is None:
            return []  # it was removed meanwhile, and is not to be believed to live
        if (why := breach(self._terms, word, worker.slot.accelerators)) is not None:
            self._not_started(worker.slot, now, f"{word.host} is refused: {why}", None, is_final=True)
            self._remove(word.worker)
            return []
        worker.up = now
        self._starts.up(now)
        self._drop()
        return [*self._let_go_superseded(now), word]

    def _let_go_superseded(self, now: float) -> list[Word]:
        held = {number: worker.slot for number, worker in self._workers.items()}
        said: list[Word] = []
        for number in superseded(held, self._up(), self._there):
            if self._workers[number].up is not None:
                reason = f"let go: workers have better places than {held[number].address} now"
                said.append(WorkerDown(worker=number, reason=reason, released=True))
            self._let_go(number, now)
        return said

    def _up(self) -> list[int]:
        return [number for number, worker in self._workers.items() if worker.up is not None]

    def _drop(self) -> None:
        """Checkpoints lie in the run's shared folder: any worker that is up can remove one."""
        able = next((worker for worker in self._workers.values() if worker.up is not None), None)
        if able is not None:
            for order in self._drops:
                able.host.order.remote(order)
            self._drops = []

    # --- looking

    def _over(self, now: float) -> dict[int, str | None]:
        """Workers that have ended, or whose start is given up, and why. Those that were let go are removed once they ended."""
        lives = {worker.life: number for number, worker in self._workers.items()}
        lives |= {worker.life: -1 for worker, _ in self._leaving}
        places_ = {worker.stands: worker for worker in self._workers.values() if not worker.has_place}
        done = _done([*lives, *places_])
        for standing in done & places_.keys():
            places_[standing].has_place = True
        left = [one for one in self._leaving if one[0].life in done or now - one[1] > LEAVE_SECONDS]
        for worker, _ in left:
            self._runtime.asked(partial(remove, worker))
        self._leaving = [one for one in self._leaving if one not in left]
        over: dict[int, str | None] = {number: None for life, number in lives.items() if life in done and number >= 0}
        for number, worker in self._workers.items():
            if number not in over and (late := self._late(worker, now)) is not None:
                over[number] = late
        return over

    def _late(self, worker: RayWorker, now: float) -> str | None:
        """Why a start is given up that does not say by itself that it failed."""
        where = worker.slot.address
        if worker.up is not None:
            return None
        if worker.slot.node not in self._there.alive:
            return f"{where} was gone before a worker was up there"
        waited = now - worker.began
        if not worker.has_place and waited > self._law.place_seconds:
            return f"no room on {where} in {waited:.0f} s for an actor with {worker.slot.bundle()}"
        if waited > self._law.start_seconds:
            return f"no worker was up on {where} after {waited:.0f} s"
        return None

    def _bury(self, number: int, late: str | None, now: float) -> None:
        """Says that a worker is gone; one that never was up is a start that failed."""
        worker = self._workers.get(number)
        if worker is None or (late is not None and worker.up is not None):
            return  # it was let go, or came up, since it was looked at
        reason, error = (late, None) if late is not None else end_of(worker)
        if worker.up is not None:
            self._own.append(WorkerDown(worker=number, reason=reason))
            self._starts.lost(worker.slot, now, now - worker.up, reason, error)
        else:
            self._not_started(worker.slot, now, reason, error)
        self._remove(number)

    def _not_started(
        self, slot: Slot, now: float, reason: str, error: AiperfError | None, *, is_final: bool = False
    ) -> None:
        failure = self._starts.failed(slot, now, reason, error, is_final=is_final)
        self._own.append(NotStarted(host=slot.address, failures=failure.count, reason=reason))

    def _look_at_generators(self) -> None:
        """A generator that died is replaced. The proposals asked of it fail; the new one is given all observations again."""
        asked = {call: (number, wanted) for number, one in self._workers.items() for wanted, call in one.proposing}
        failed: dict[int, list[tuple[int, str]]] = {}
        done = _done(list(asked))
        for call in done:
            number, wanted = asked[call]
            try:
                ray.get(call)  # the answer itself is a word, in the mailbox
            except RayError as error:
                failed.setdefault(number, []).append((wanted, last_line(error)))
        for number in {asked[call][0] for call in done}:
            worker = self._workers[number]
            worker.proposing = tuple(one for one in worker.proposing if one[1] not in done)
        for number, why in failed.items():
            self._own.append(HelperDown(worker=number, helper="generator", reason=why[0][1]))
            self._replace_generator(self._workers[number], why)

    def _replace_generator(self, worker: RayWorker, failed: list[tuple[int, str]]) -> None:
        failed = sorted([*failed, *((wanted, "its generator died") for wanted, _ in worker.proposing)])
        ray.kill(worker.generator)
        worker.generator = new_generator(self._making, worker.group, self._post.mailbox)
        worker.observations_sent, worker.proposing = 0, ()
        self._own += [Unproposed(number=wanted, reason=f"no proposal: {why}", was_made=False) for wanted, why in failed]

    def _look_for_places(self, now: float) -> None:
        nodes: list[dict[str, Any]] = self._runtime.asked(ray.nodes)
        self._there = slots(nodes, self._accelerators, only_accelerators=self._only_accelerators)
        if self._gate is not None:
            self._there, inspected = self._gate.look(nodes, self._there)
            self._own += inspected
        self._own += self._let_go_superseded(now)
        for address, reason in self._there.too_small.items():
            if address not in self._said_too_small:
                self._said_too_small.add(address)
                self._own.append(NotStarted(host=address, failures=0, reason=reason))
        if self._up():
            self._starts.up(now)
        error = self._starts.hopeless(self._there.wanted, bool(self._workers), now)
        if error is not None:
            if self._own:
                return  # said first: the journal is to have the reasons
            raise error
        taken = {worker.slot for worker in self._workers.values()}
        for slot in self._there.wanted:
            if slot not in taken and self._starts.may(slot, now):
                number, self._next = self._next, self._next + 1
                bringing = partial(bring_up, self._making, number, slot, self._post.mailbox, now)
                self._workers[number] = self._runtime.asked(bringing)

    def _let_go(self, number: int, now: float) -> None:
        """Has a worker end by itself: a checkpoint that is being written is finished."""
        worker = self._workers.pop(number)
        worker.host.end.remote()
        self._leaving.append((worker, now))

    def _remove(self, number: int) -> None:
        worker = self._workers.pop(number, None)
        if worker is not None:
            self._runtime.asked(partial(remove, worker))


def _done(calls: list[ray.ObjectRef[Any]]) -> set[ray.ObjectRef[Any]]:
    """Those of the calls that are over; waits for none."""
    return set(ray.wait(calls, num_returns=len(calls), timeout=0.0)[0]) if calls else set()
