"""Faults that no cluster has, or that a user would not simulate: they test the driver, the rules and the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from aiperf.journal.events import AnyEvent, WorkerJoined, WorkerLost
from aiperf.journal.messages import Message, Order, ProposalFailed, ProposalReturned, Train
from aiperf.simulate.faults import KINDS as OF_CLUSTERS
from aiperf.simulate.model.simulated_attempt import SimulatedWorker
from aiperf.simulate.model.simulated_executor import Fault, SimulatedExecutor
from cluster.faults import FaultConf

C = TypeVar("C", bound=FaultConf)
Answer = ProposalReturned | ProposalFailed


class DriverKilled(Exception):
    """The driver's process was killed between two instructions. The run is resumed after `down_seconds`."""

    def __init__(self, down_seconds: float) -> None:
        super().__init__("the driver was killed")
        self.down_seconds = down_seconds


@dataclass(frozen=True, slots=True)
class AppendFailure:
    """Failure of an append."""

    whole_lines: int
    """Lines that are written before the failure."""
    torn_share: float
    """Written share of the next line."""
    down_seconds: float
    """Seconds until the run is resumed."""
    is_disk_full: bool = False
    """True if the driver gets an error instead of being killed."""


class PlantedFault(Fault[C]):
    """Hooks on orders, proposals and the journal, without effect."""

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        """Called when the driver sends an order. Raise DriverKilled to kill the driver."""

    def proposed(self, worker: int, answer: Answer) -> Answer | None:
        """Return the answer to an order to propose. None for no answer."""
        return answer

    def appending(self, events: Sequence[AnyEvent]) -> AppendFailure | None:
        """Called before the driver writes events. Return a failure to stop it while it writes."""
        return None

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        """Return the seconds for which no worker may start in this slot."""
        return 0.0

    def delivery_delays(self, word: Message, delay: float) -> Sequence[float]:
        """Return the delays of a message's deliveries: none, one or several."""
        return (delay,)


@dataclass
class IdleWorkerHungConf(FaultConf):
    """A worker comes up and sends no message afterwards."""

    kind: str = "idle_worker_hung"
    rate: float = 0.1
    """Share of workers."""


class IdleWorkerHung(Fault[IdleWorkerHungConf]):
    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.is_silent = True


@dataclass
class FlapConf(FaultConf):
    """Some workers are lost and return repeatedly."""

    kind: str = "flap"
    rate: float = 0.2
    """Share of workers."""
    up_seconds: float = 60.0
    """Mean time up."""
    away_seconds: float = 15.0
    """Time until another worker replaces it."""


class Flap(Fault[FlapConf]):
    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        number = worker.number
        if self.draw.random() < self.conf.rate:
            cluster.after(
                self.draw.expovariate(1 / self.conf.up_seconds),
                lambda: cluster.lose(number, "flapped (invented)", returns_after=self.conf.away_seconds),
            )


@dataclass
class AllGoneConf(FaultConf):
    """All workers are lost at once, and none comes up for a time."""

    kind: str = "all_gone"
    at_seconds: float = 150.0
    """Time since the run began."""
    seconds: float = 90.0
    """Time until workers are up again."""


class AllGone(PlantedFault[AllGoneConf]):
    def began(self, cluster: SimulatedExecutor) -> None:
        def lose_all() -> None:
            for number in list(cluster.workers):
                cluster.lose(number, "all are gone (invented)")

        if cluster.now < self.conf.at_seconds:
            cluster.after(self.conf.at_seconds - cluster.now, lose_all)

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        return (
            max(0.0, self.conf.at_seconds + self.conf.seconds - cluster.now)
            if cluster.now >= self.conf.at_seconds
            else 0.0
        )


@dataclass
class WrongClockConf(FaultConf):
    """Some workers' clocks run fast or slow."""

    kind: str = "wrong_clock"
    rate: float = 0.4
    """Share of workers."""
    factor: float = 3.0
    """Maximum factor, faster or slower."""


class WrongClock(Fault[WrongClockConf]):
    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.clock_rate = self.conf.factor ** self.draw.uniform(-1.0, 1.0)


@dataclass
class CheckpointsVanishConf(FaultConf):
    """Checkpoints of a trial disappear just before a worker reads them."""

    kind: str = "checkpoints_vanish"
    rate: float = 0.1
    """Share of train orders."""


class CheckpointsVanish(PlantedFault[CheckpointsVanishConf]):
    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        if isinstance(order, Train) and self.draw.random() < self.conf.rate:
            needed = order.trial if order.first_epoch > 1 else order.parent
            if needed is not None:
                cluster.world.checkpoints.drop(needed)


@dataclass
class LateJoinConf(FaultConf):
    """Some workers come up long after the others."""

    kind: str = "late_join"
    rate: float = 0.3
    """Share of places for workers."""
    seconds: float = 120.0
    """Maximum delay."""


class LateJoin(PlantedFault[LateJoinConf]):
    def __init__(self, conf: LateJoinConf) -> None:
        super().__init__(conf)
        self._known: set[int] = set()
        """Slots whose delay was drawn."""

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        if slot in self._known:
            return 0.0
        self._known.add(slot)
        if self.draw.random() >= self.conf.rate:
            return 0.0
        return self.draw.random() * self.conf.seconds


@dataclass
class LateConf(FaultConf):
    """Messages are delayed independently, so later messages may overtake them."""

    kind: str = "late"
    rate: float = 0.2
    """Share of messages."""
    seconds: float = 20.0
    """Maximum delay."""


class Late(PlantedFault[LateConf]):
    def delivery_delays(self, word: Message, delay: float) -> Sequence[float]:
        if self.draw.random() < self.conf.rate:
            return (delay + self.draw.random() * self.conf.seconds,)
        return (delay,)


@dataclass
class TwiceConf(FaultConf):
    """Messages arrive twice."""

    kind: str = "twice"
    rate: float = 0.2
    """Share of messages."""
    apart_seconds: float = 10.0
    """Maximum time between the two."""


class Twice(PlantedFault[TwiceConf]):
    def delivery_delays(self, word: Message, delay: float) -> Sequence[float]:
        if self.draw.random() < self.conf.rate:
            return (delay, delay + self.draw.random() * self.conf.apart_seconds)
        return (delay,)


@dataclass
class NeverConf(FaultConf):
    """Messages are lost, except the executor's own messages that a worker is up or lost."""

    kind: str = "never"
    rate: float = 0.03
    """Share of messages."""


class Never(PlantedFault[NeverConf]):
    def delivery_delays(self, word: Message, delay: float) -> Sequence[float]:
        if not isinstance(word, WorkerJoined | WorkerLost) and self.draw.random() < self.conf.rate:
            return ()
        return (delay,)


@dataclass
class GeneratorDeadConf(FaultConf):
    """The generators of some workers never answer."""

    kind: str = "generator_dead"
    rate: float = 0.15
    """Share of workers."""


class GeneratorDead(PlantedFault[GeneratorDeadConf]):
    def __init__(self, conf: GeneratorDeadConf) -> None:
        super().__init__(conf)
        self._dead: set[int] = set()

    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        if self.draw.random() < self.conf.rate:
            self._dead.add(worker.number)

    def proposed(self, worker: int, answer: Answer) -> Answer | None:
        return None if worker in self._dead else answer


@dataclass
class BadProposalConf(FaultConf):
    """A generator proposes a network that cannot be built, or reports that it has no proposal."""

    kind: str = "bad_proposal"
    rate: float = 0.1
    """Share of answers."""


class BadProposal(PlantedFault[BadProposalConf]):
    def proposed(self, worker: int, answer: Answer) -> Answer | None:
        if self.draw.random() >= self.conf.rate:
            return answer
        if isinstance(answer, ProposalReturned) and self.draw.random() < 0.7:
            if self.draw.random() < 0.3:
                return msgspec.structs.replace(answer, parent=answer.number + 1000)
            return msgspec.structs.replace(answer, morphs=({"morph": "invented"},))
        return ProposalFailed(number=answer.number, reason="an invented reason")


@dataclass
class DriverDiesConf(FaultConf):
    """The driver is killed while it writes or sends. The last line may be torn. The run is resumed later."""

    kind: str = "driver_dies"
    rate: float = 0.01
    """Share of writes to the journal, and of orders."""
    seconds: float = 20.0
    """Mean time until the run is resumed."""


class DriverDies(PlantedFault[DriverDiesConf]):
    def appending(self, events: Sequence[AnyEvent]) -> AppendFailure | None:
        if self.draw.random() >= self.conf.rate:
            return None
        whole = self.draw.randint(0, len(events))
        return AppendFailure(
            whole, self.draw.choice((0.0, self.draw.random())), self.draw.expovariate(1 / self.conf.seconds)
        )

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        if self.draw.random() < self.conf.rate:
            raise DriverKilled(self.draw.expovariate(1 / self.conf.seconds))


@dataclass
class DiskFullConf(FaultConf):
    """The disk accepts only a part of a write to the journal. Space is freed later, and the run is resumed."""

    kind: str = "disk_full"
    rate: float = 0.005
    """Share of writes to the journal."""
    seconds: float = 30.0
    """Mean time until space is free."""


class DiskFull(PlantedFault[DiskFullConf]):
    def appending(self, events: Sequence[AnyEvent]) -> AppendFailure | None:
        if self.draw.random() >= self.conf.rate:
            return None
        whole, torn, down = (
            self.draw.randrange(len(events)),
            self.draw.random(),
            self.draw.expovariate(1 / self.conf.seconds),
        )
        return AppendFailure(whole, torn, down, is_disk_full=True)


_PLANTED: dict[type[FaultConf], Callable[[Any], Fault[Any]]] = {
    IdleWorkerHungConf: IdleWorkerHung,
    FlapConf: Flap,
    AllGoneConf: AllGone,
    WrongClockConf: WrongClock,
    CheckpointsVanishConf: CheckpointsVanish,
    LateJoinConf: LateJoin,
    LateConf: Late,
    TwiceConf: Twice,
    NeverConf: Never,
    GeneratorDeadConf: GeneratorDead,
    BadProposalConf: BadProposal,
    DriverDiesConf: DriverDies,
    DiskFullConf: DiskFull,
}
KINDS = OF_CLUSTERS | _PLANTED
"""All faults by their configurations, with those of a cluster."""
