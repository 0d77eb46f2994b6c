"""Executor (backend of the driver) with simulated workers, which controls the virtual clock of the run."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar, assert_never

import msgspec

from aiperf.data.description import DataSet
from aiperf.journal import events
from aiperf.journal.messages import (
    CheckpointGone,
    Drop,
    Message,
    Order,
    ProposalReturned,
    Release,
    Sum,
    Train,
    TrialDone,
)
from aiperf.rng import derive
from aiperf.rules.followed import Following
from aiperf.rules.proposals import Proposer, make, of_proposal
from aiperf.simulate.model.learning_curves import Learning
from aiperf.simulate.model.machine_state import AcceleratorMemory, Checkpoints, VirtualClock
from aiperf.simulate.model.profile import TrialTiming, pace
from aiperf.simulate.model.simulated_attempt import AttemptFaults, SimulatedAttempt, SimulatedWorker
from cluster.faults import FaultConf
from cluster.simulated import SimulatedConf
from morphism import Cost, Graph, cost, decode_morph
from searchers.history import History, Observation, Space

C = TypeVar("C", bound=FaultConf)


class Fault(Generic[C]):
    """Base class of simulated faults. Its methods do nothing. All times are seconds of the run's clock."""

    def __init__(self, conf: C) -> None:
        self.conf = conf
        self.draw = random.Random()
        """Random numbers. The seed depends on the run's seed, the class of the fault and its position in the list."""

    def began(self, cluster: SimulatedExecutor) -> None:
        """React to a start of the driver (main process of the run), for example by `cluster.after`."""

    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        """React to a new worker, before it sends WorkerJoined. The method may change `worker`. `cluster`: the simulation."""

    def order_taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        """React to a worker that has accepted a command to train, before the training begins."""


@dataclass(slots=True)
class SimulatedWorld:
    """State of a simulation outside of the executor: clock, checkpoints, faults, and the networks that were proposed."""

    conf: SimulatedConf
    dataset: DataSet
    seed: int
    space: Space
    proposer: Proposer
    memory: AcceleratorMemory
    learning: Learning
    clock: VirtualClock
    checkpoints: Checkpoints
    faults: tuple[Fault[Any], ...]
    figures: dict[int, Cost] = field(default_factory=dict)
    """Costs of every proposal."""
    generations: dict[int, int] = field(default_factory=dict)
    """Proposals from the starting graph to each trial's network, counted from 1."""
    floors: dict[int, float] = field(default_factory=dict)
    """Final validation error of every proposal, to which its training converges."""
    follows: Following | None = None
    """List of trials that this run trains. None if this run searches by itself."""
    inherited: dict[int, float] = field(default_factory=dict)
    """Experience at the start of each trial."""

    def speed_of(self, host: int) -> float:
        """Return the speed of host number `host` as a multiple of the configured speed."""
        return speed_of_host(self.seed, host, self.conf.speed_spread)


def speed_of_host(seed: int, host: int, spread: float) -> float:
    """Return the speed of host number `host` as a multiple of the configured speed, at least 0.2."""
    return max(0.2, 1 + spread * random.Random(derive(seed, "host", host)).gauss(0.0, 1.0))


class SimulatedExecutor:
    def __init__(self, world: SimulatedWorld, first_worker: int, restarts: int = 0) -> None:
        """`world`: state of the simulation."""
        self.world = world
        self.now = world.clock.now()
        """Time of the last simulated action. The clock is advanced to it when the driver polls messages."""
        self.workers: dict[int, SimulatedWorker] = {}
        self.proposals = 0
        self.proposing_seconds = 0.0
        """Processor time for making proposals and counting their networks."""
        self.busy_seconds = 0.0
        """Processor time spent in this executor, proposing included."""
        self._restarts = restarts
        self._next_worker = first_worker
        self._slots: set[int] = set()
        self._heap: list[tuple[float, int, Callable[[], Sequence[Message] | None]]] = []
        """Time, number and action. An action returns the messages that arrive then."""
        self._sequence = 0
        self._history = History(world.space)

    # --- contract of an executor

    def start(self) -> None:
        """Start all workers at random times around `join_seconds`. Each sends WorkerJoined when it is up."""
        draw = random.Random(derive(self.world.seed, "joining", self._restarts))
        for slot in range(self.world.conf.workers):
            self.bring_up(slot, self.world.conf.join_seconds * (0.5 + draw.random()))
        for fault in self.world.faults:
            fault.began(self)

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add results of trials to the searcher's history, in the sequence of the journal."""
        began = time.process_time()
        self._history.observe(observations)
        self.busy_seconds += time.process_time() - began

    def send(self, order: Order) -> None:
        """Give a command (propose, train, report, remove a checkpoint, release) to a worker at once."""
        began = time.process_time()
        self.now = max(self.now, self.world.clock.now())
        match order:
            case events.ProposalRequested():
                self._propose(order)
            case Train():
                self._train(order)
            case Drop():
                self.world.checkpoints.drop(order.trial)
            case Release():
                self.lose(order.worker, is_noticed=False)
            case Sum():
                self._sum(order.worker)
            case _:
                assert_never(order)
        self.busy_seconds += time.process_time() - began

    def messages(self, timeout: float) -> list[Message]:
        """Simulate until the first messages are due, and `turn_seconds` more."""
        began = time.process_time()
        clock, heap, turn = self.world.clock, self._heap, self.world.conf.turn_seconds
        deadline = limit = clock.now() + timeout
        self.now = clock.now()
        messages: list[Message] = []
        while heap and heap[0][0] <= deadline:
            due, _, action = heappop(heap)
            self.now = max(self.now, due)
            messages += action() or ()
            if messages and deadline == limit:
                deadline = min(limit, self.now + turn)
        # Whole microseconds: with all digits of a float a journal is one fifth longer.
        clock.advance(max(clock.now(), round(self.now, 6) if messages else limit))
        self.busy_seconds += time.process_time() - began
        return messages

    def close(self) -> None:
        """End all workers and remove all planned actions. Undelivered messages are lost."""
        for worker in self.workers.values():
            worker.attempt = None
        self.workers.clear()
        self._heap.clear()

    # --- methods for faults

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Plan a call of `call` in `seconds` simulated seconds."""
        self._push(self.now + seconds, call)

    def bring_up(self, slot: int, seconds: float) -> None:
        """Plan the start of a worker in slot number `slot` in `seconds` simulated seconds."""
        self.after(seconds, partial(self._up, slot))

    def lose(
        self, number: int, reason: str = "", *, is_noticed: bool = True, returns_after: float | None = None
    ) -> None:
        """End worker `number` with its training, and plan the start of another worker in its slot."""
        worker = self.workers.pop(number, None)
        if worker is None:
            return
        self._slots.discard(worker.slot)
        worker.attempt = None
        if is_noticed:
            self.post(events.WorkerLost(worker=number, reason=reason), self.world.conf.detection_seconds)
        self.bring_up(worker.slot, self.world.conf.return_seconds if returns_after is None else returns_after)

    def vanish(self, number: int) -> None:
        """Make worker `number` silent and end its training. Nothing if it does not exist."""
        worker = self.workers.get(number)
        if worker is not None:
            worker.attempt = None
            worker.is_silent = True

    def post(self, message: Message, delay: float = 0.0) -> None:
        """Send a message to the driver in `delay` simulated seconds."""
        self._push(self.now + delay, partial(list, (message,)))

    # --- workers

    def _push(self, due: float, action: Callable[[], Sequence[Message] | None]) -> None:
        self._sequence += 1
        heappush(self._heap, (due, self._sequence, action))

    def _up(self, slot: int) -> None:
        if slot in self._slots:
            return
        conf = self.world.conf
        host = slot // conf.workers_per_host
        worker = SimulatedWorker(self._next_worker, slot, f"host{host:04d}", self.world.speed_of(host))
        self._next_worker += 1
        for fault in self.world.faults:
            fault.joined(self, worker)
        self.workers[worker.number] = worker
        self._slots.add(slot)
        self.post(
            events.WorkerJoined(
                worker=worker.number,
                host=worker.host,
                ranks=conf.accelerators,
                device="simulated",
                device_memory_bytes=self.world.memory.usable_bytes,
                collective="simulated",
                machine={},
            )
        )
        if not worker.is_silent:
            family = self.world.space.start.fingerprint
            self.post(events.CeilingMeasured(worker=worker.number, family=family, batch_size=self.world.memory.ceiling))

    def _sum(self, number: int) -> None:
        worker = self.workers.get(number)
        if worker is None or worker.attempt is None or not worker.attempt.epoch:
            return
        self.post(worker.attempt.sums(self.now))

    def _propose(self, order: events.ProposalRequested) -> None:
        worker = self.workers.get(order.worker)
        if worker is None or worker.is_silent:
            return
        self.proposals += 1
        # The proposal is made now with the history of the order, and sent after the time of a real processor.
        began = time.process_time()
        answer = make(self.world.proposer, self._history, order)
        if isinstance(answer, ProposalReturned):
            # Computed now while the graph is in memory. Otherwise it would be rebuilt for the check and at the trial's start.
            morphs = tuple([decode_morph(morph) for morph in answer.morphs])
            self._work_out(order.number, answer.parent, self._history.grown(answer.parent, morphs))
            of_proposal(self._history, answer.parent, morphs)
            # The measured time would make journals of equal seeds differ.
            answer = msgspec.structs.replace(answer, seconds=self.world.conf.proposal_seconds)
        self.proposing_seconds += time.process_time() - began
        self.post(answer, self.world.conf.proposal_seconds)

    def _train(self, order: Train) -> None:
        worker = self.workers.get(order.worker)
        if worker is None or worker.is_silent:
            return
        gone = self._missing(order)
        if gone is not None:
            self.post(gone)
            return
        attempt = self._attempt(order, worker)
        worker.attempt = attempt
        for fault in self.world.faults:
            fault.order_taken(self, worker, attempt)
        if worker.attempt is attempt:
            self._push(attempt.due, partial(self._step, attempt, attempt.due))

    def _missing(self, order: Train) -> CheckpointGone | None:
        stored = self.world.checkpoints
        missing = None
        if order.first_epoch > 1:
            missing = None if stored.holds(order.trial, order.first_epoch - 1) else order.trial
        elif order.parent is not None and stored.newest(order.parent) is None:
            missing = order.parent
        if missing is None:
            return None
        return CheckpointGone(trial=order.trial, attempt=order.attempt, missing=missing, reason="no such file")

    def _work_out(self, number: int, parent: int | None, graph: Graph) -> None:
        """Compute the cost of a proposal's network, its generation, and the error that its training converges to."""
        self.world.generations[number] = 1 if parent is None else self.world.generations[parent] + 1
        self.world.figures[number] = replace(cost(graph), by_kind={})  # less memory
        self.world.floors[number] = self.world.learning.floor(graph)

    def _attempt(self, order: Train, worker: SimulatedWorker) -> SimulatedAttempt:
        world, conf = self.world, self.world.conf
        if order.trial not in world.figures:  # it is of a list, and no searcher proposed it
            self._work_out(order.trial, None, self._history.graph(order.trial))
        figures, generation = world.figures[order.trial], world.generations[order.trial]
        if order.first_epoch == 1:
            inherited = 0.0 if order.parent is None else world.checkpoints.newest(order.parent)
            assert inherited is not None, "_missing has found the parent's weights"
            world.inherited[order.trial] = inherited
        draw = random.Random(derive(order.seed, "preparing", order.attempt))
        weights = 4 * figures.parameters / conf.weights_bytes_per_second
        build = conf.build_seconds * (0.8 + 0.4 * draw.random())
        compiling = conf.compile_seconds * (0.8 + 0.4 * draw.random())
        return SimulatedAttempt(
            order=order,
            worker=worker,
            dataset=world.dataset,
            pace_of=partial(self._pace, figures, generation, worker.speed),
            holds=partial(world.memory.holds, figures),
            curve=world.learning.curve(
                order.seed,
                world.dataset.classes,
                world.floors[order.trial],
                world.inherited[order.trial],
                order.last_epoch,
            ),
            checkpoints=world.checkpoints,
            prepared=events.TrialPrepared(
                trial=order.trial,
                attempt=order.attempt,
                precision="simulated",
                ranks=conf.accelerators,
                compiled=compiling > 0,
                cuda_graphs=False,
                build_seconds=build,
                weights_seconds=weights,
                compile_seconds=compiling,
            ),
            began=self.now,
            fate=AttemptFaults(),
            losses=list(order.losses),
            batch_size=order.batch_size,
        )

    def _pace(self, figures: Cost, generation: int, speed: float, batch_size: int) -> TrialTiming:
        data = self.world.dataset
        images = data.training_images, data.validation_images
        return pace(self.world.conf, figures, batch_size, speed, *images, generation)

    def _step(self, attempt: SimulatedAttempt, due: float) -> list[Message]:
        worker = attempt.worker
        if attempt.due != due or worker.attempt is not attempt:
            return []  # it has ended or was rescheduled since
        messages = attempt.step()
        if attempt.fate.is_lost == "before" and attempt.epoch:
            self.lose(worker.number, "lost before it trained (invented)")
            return []
        if attempt.fate.is_lost == "after" and messages and isinstance(messages[-1], TrialDone):
            del messages[-1]
            self.lose(worker.number, "lost after it had trained (invented)")
        elif attempt.is_over:
            worker.attempt = None
        else:
            self._push(attempt.due, partial(self._step, attempt, attempt.due))
        return messages
