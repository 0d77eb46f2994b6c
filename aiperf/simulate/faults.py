"""What can go wrong in a cluster: small classes, each with its own seeded draws, that compose in any number.

A fault looks on at certain moments of a simulation (its hooks) and takes a hand through the executor's methods. Parameters have
defaults that hurt a run of some minutes; `parse` reads them from the command line.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from aiperf.events import AnyEvent
from aiperf.messages import Order, Propose, Proposed, Train, Unproposed, Word, WorkerDown, WorkerUp
from aiperf.seeds import derive

if TYPE_CHECKING:
    from aiperf.simulate.attempt import Attempt, Worker
    from aiperf.simulate.executor import SimulatedExecutor


class DriverKilled(Exception):
    """The driver's process is gone, between two instructions; it is thrown away, and the run resumed after a while."""

    def __init__(self, down_seconds: float) -> None:
        super().__init__("the driver was killed")
        self.down_seconds = down_seconds


@dataclass(frozen=True, slots=True)
class Death:
    """How an append goes wrong."""

    whole_lines: int
    """Lines that are written before it."""
    torn_share: float
    """Of the next line."""
    down_seconds: float
    """How long it takes until someone takes the run up again."""
    is_disk_full: bool = False
    """The driver is told, instead of being killed."""


@dataclass(slots=True, eq=False)
class Fault:
    """The hooks; each does nothing here. All times are the driver's seconds."""

    draw: random.Random = field(default_factory=random.Random, init=False, repr=False)

    def seed(self, seed: int, place: int) -> None:
        """Equal seeds, equal faults; two faults of one kind differ by their place in the list."""
        self.draw = random.Random(derive(seed, f"fault {type(self).__name__}", place))

    def began(self, cluster: SimulatedExecutor) -> None:
        """A sitting begins."""

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        """A worker is about to say that it is up."""

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        """For how long no worker may come up in this slot."""
        return 0.0

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        """A worker has taken an order to train."""

    def asked(self, worker: Worker, order: Propose, answer: Proposed | Unproposed) -> Proposed | Unproposed | None:
        """What becomes of the answer to an order to propose; None: there is none."""
        return answer

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        """After which delays a word arrives: none, once, or more often."""
        return (delay,)

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        """The driver is sending an order; it may die of it."""

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> Death | None:
        """Events are about to be written."""
        return None


# --- workers and hosts


@dataclass(slots=True, eq=False)
class WorkerLost(Fault):
    """A worker ends before, during or after a trial; another comes up in its place."""

    rate: float = 0.15
    """Of all attempts."""
    when: str = "any"
    """'before' its module stands, 'during' its epochs, 'after' the last of them, or any of these."""

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        if self.draw.random() >= self.rate:
            return
        when = self.draw.choice(("before", "during", "after")) if self.when == "any" else self.when
        if when == "during":
            number = worker.number

            def lose() -> None:
                if worker.attempt is attempt:
                    cluster.lose(number, "lost while it trained (invented)")

            cluster.after(attempt.due - cluster.now + self.draw.random() * attempt.left_seconds, lose)
        else:
            attempt.fate.is_lost = when


@dataclass(slots=True, eq=False)
class WorkerHung(Fault):
    """A worker falls silent, without a word of it from anybody."""

    rate: float = 0.05
    """Of all attempts."""

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        if self.draw.random() < self.rate:
            number = worker.number
            cluster.after(self.draw.random() * attempt.left_seconds, lambda: cluster.vanish(number))


@dataclass(slots=True, eq=False)
class IdleWorkerHung(Fault):
    """A worker comes up and never says another word."""

    rate: float = 0.1
    """Of all workers."""

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        if self.draw.random() < self.rate:
            worker.is_silent = True


@dataclass(slots=True, eq=False)
class NodeLost(Fault):
    """A host goes down with all its workers, and comes back."""

    every_seconds: float = 200.0
    """On average, somewhere in the cluster."""
    back_seconds: float = 60.0

    def began(self, cluster: SimulatedExecutor) -> None:
        def lose() -> None:
            hosts = sorted({worker.host for worker in cluster.workers.values()})
            if hosts:
                host = self.draw.choice(hosts)
                for number in [worker.number for worker in cluster.workers.values() if worker.host == host]:
                    cluster.lose(number, f"{host} is down (invented)", returns_after=self.back_seconds)
            cluster.after(self.draw.expovariate(1 / self.every_seconds), lose)

        cluster.after(self.draw.expovariate(1 / self.every_seconds), lose)


@dataclass(slots=True, eq=False)
class LateJoin(Fault):
    """Some workers come up long after the others."""

    rate: float = 0.3
    seconds: float = 120.0
    """At most."""
    _late: dict[int, bool] = field(default_factory=dict, init=False, repr=False)

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        if slot in self._late:
            return 0.0
        self._late[slot] = self.draw.random() < self.rate
        return self.draw.random() * self.seconds if self._late[slot] else 0.0


@dataclass(slots=True, eq=False)
class Flap(Fault):
    """Some workers keep going and coming back."""

    rate: float = 0.2
    """Of all workers."""
    up_seconds: float = 60.0
    """On average."""
    away_seconds: float = 15.0

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        number = worker.number
        if self.draw.random() < self.rate:
            cluster.after(
                self.draw.expovariate(1 / self.up_seconds),
                lambda: cluster.lose(number, "flapped (invented)", returns_after=self.away_seconds),
            )


@dataclass(slots=True, eq=False)
class AllGone(Fault):
    """All workers go at once, and nobody comes up for a while."""

    at: float = 150.0
    """Seconds since the run began."""
    seconds: float = 90.0

    def began(self, cluster: SimulatedExecutor) -> None:
        def lose_all() -> None:
            for number in list(cluster.workers):
                cluster.lose(number, "all are gone (invented)")

        if cluster.now < self.at:
            cluster.after(self.at - cluster.now, lose_all)

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        return max(0.0, self.at + self.seconds - cluster.now) if cluster.now >= self.at else 0.0


@dataclass(slots=True, eq=False)
class Straggler(Fault):
    """Some workers are slow."""

    rate: float = 0.25
    """Of all workers."""
    factor: float = 4.0
    """How much longer everything takes them."""

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        if self.draw.random() < self.rate:
            worker.speed /= self.factor


@dataclass(slots=True, eq=False)
class WrongClock(Fault):
    """Some workers' clocks run fast or slow."""

    rate: float = 0.4
    """Of all workers."""
    factor: float = 3.0
    """At most so many times too fast, or too slow."""

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        if self.draw.random() < self.rate:
            worker.clock_rate = self.factor ** self.draw.uniform(-1.0, 1.0)


# --- attempts


@dataclass(slots=True, eq=False)
class Crash(Fault):
    """An attempt crashes, and its worker lives on."""

    rate: float = 0.1
    final: float = 0.2
    """Share of crashes after which another attempt must end the same way."""

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        if self.draw.random() < self.rate:
            attempt.fate.crashes_in = self.draw.randrange(4)
            attempt.fate.crash_can_be_retried = self.draw.random() >= self.final


@dataclass(slots=True, eq=False)
class MemoryRunsOut(Fault):
    """A batch does not fit; the attempt goes on with half of it, from the beginning of the epoch."""

    rate: float = 0.2

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        if self.draw.random() < self.rate and attempt.batch_size > 1:
            attempt.fate.out_of_memory_in = self.draw.randrange(3)


@dataclass(slots=True, eq=False)
class CheckpointsVanish(Fault):
    """Checkpoints of a trial disappear from the folder when somebody is about to need them."""

    rate: float = 0.1

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        if isinstance(order, Train) and self.draw.random() < self.rate:
            needed = order.trial if order.first_epoch > 1 else order.parent
            if needed is not None:
                cluster.world.checkpoints.drop(needed)


# --- messages


@dataclass(slots=True, eq=False)
class Late(Fault):
    """Words are held up, each for itself: those sent later may overtake them."""

    rate: float = 0.2
    seconds: float = 20.0
    """At most."""

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.rate:
            return (delay + self.draw.random() * self.seconds,)
        return (delay,)


@dataclass(slots=True, eq=False)
class Twice(Fault):
    """Words arrive twice."""

    rate: float = 0.2
    apart_seconds: float = 10.0
    """At most."""

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.rate:
            return (delay, delay + self.draw.random() * self.apart_seconds)
        return (delay,)


@dataclass(slots=True, eq=False)
class OutOfOrder(Fault):
    """Words swap places with those sent shortly after them."""

    rate: float = 0.3
    seconds: float = 0.5
    """At most."""

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.rate:
            return (delay + self.draw.random() * self.seconds,)
        return (delay,)


@dataclass(slots=True, eq=False)
class Never(Fault):
    """Words are lost; but for those with which the executor itself tells that a worker is up or gone."""

    rate: float = 0.03

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if not isinstance(word, WorkerUp | WorkerDown) and self.draw.random() < self.rate:
            return ()
        return (delay,)


# --- proposals


@dataclass(slots=True, eq=False)
class GeneratorDead(Fault):
    """Some workers' generators of proposals never answer."""

    rate: float = 0.15
    """Of all workers."""

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        if self.draw.random() < self.rate:
            worker.is_generating = False

    def asked(self, worker: Worker, order: Propose, answer: Proposed | Unproposed) -> Proposed | Unproposed | None:
        return answer if worker.is_generating else None


@dataclass(slots=True, eq=False)
class BadProposal(Fault):
    """A generator answers with what cannot be built, or says that it has nothing to propose."""

    rate: float = 0.1

    def asked(self, worker: Worker, order: Propose, answer: Proposed | Unproposed) -> Proposed | Unproposed | None:
        if self.draw.random() >= self.rate:
            return answer
        if isinstance(answer, Proposed) and self.draw.random() < 0.7:
            if self.draw.random() < 0.3:
                return msgspec.structs.replace(answer, parent=order.number + 1000)
            return msgspec.structs.replace(answer, morphs=({"morph": "invented"},))
        return Unproposed(number=order.number, reason="an invented reason")


# --- the driver


@dataclass(slots=True, eq=False)
class DriverDies(Fault):
    """The driver is killed as it writes or sends; the last line may be torn. The run is resumed after a while."""

    rate: float = 0.01
    """Of all appends, and of all orders."""
    seconds: float = 20.0
    """On average, until the run is resumed."""

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> Death | None:
        if self.draw.random() >= self.rate:
            return None
        whole = self.draw.randint(0, len(events))
        return Death(whole, self.draw.choice((0.0, self.draw.random())), self.draw.expovariate(1 / self.seconds))

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        if self.draw.random() < self.rate:
            raise DriverKilled(self.draw.expovariate(1 / self.seconds))


@dataclass(slots=True, eq=False)
class DiskFull(Fault):
    """The disk takes only a part of what is to be written; somebody makes room, and the run is resumed."""

    rate: float = 0.005
    """Of all appends."""
    seconds: float = 30.0
    """On average, until there is room again."""

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> Death | None:
        if self.draw.random() >= self.rate:
            return None
        whole, torn, down = (
            self.draw.randrange(len(events)),
            self.draw.random(),
            self.draw.expovariate(1 / self.seconds),
        )
        return Death(whole, torn, down, is_disk_full=True)
