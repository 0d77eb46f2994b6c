"""Faults of a simulated cluster: workers and hosts, training, messages, proposal generators, the driver and its disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from aiperf.journal import events
from aiperf.journal.events import AnyEvent, ProposalRequested
from aiperf.journal.messages import Order, ProposalFailed, ProposalReturned, Train, Word
from aiperf.option_limits import hold
from aiperf.simulate.model.fault import AppendFailure, DriverKilled, Fault
from cluster import faults
from cluster.faults import AnyFault

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_attempt import SimulatedAttempt, SimulatedWorker
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor


@dataclass(slots=True, eq=False)
class WorkerLost(Fault):
    """Loss of a worker before, during or after a trial. Another starts in its place."""

    conf: faults.WorkerLostConf

    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        if self.draw.random() >= self.conf.rate:
            return
        when = self.draw.choice(("before", "during", "after")) if self.conf.when == "any" else self.conf.when
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
    """Silent hang of a training worker."""

    conf: faults.WorkerHungConf

    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        if self.draw.random() < self.conf.rate:
            number = worker.number
            cluster.after(self.draw.random() * attempt.left_seconds, lambda: cluster.vanish(number))


@dataclass(slots=True, eq=False)
class IdleWorkerHung(Fault):
    """Silent hang of a worker after its start."""

    conf: faults.IdleWorkerHungConf

    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.is_silent = True


@dataclass(slots=True, eq=False)
class NodeLost(Fault):
    """Loss and return of a host with all its workers."""

    conf: faults.NodeLostConf

    def began(self, cluster: SimulatedExecutor) -> None:
        def lose() -> None:
            hosts = sorted({worker.host for worker in cluster.workers.values()})
            if hosts:
                host = self.draw.choice(hosts)
                for number in [worker.number for worker in cluster.workers.values() if worker.host == host]:
                    cluster.lose(number, f"{host} is down (invented)", returns_after=self.conf.back_seconds)
            cluster.after(self.draw.expovariate(1 / self.conf.every_seconds), lose)

        cluster.after(self.draw.expovariate(1 / self.conf.every_seconds), lose)


@dataclass(slots=True, eq=False)
class LateJoin(Fault):
    """Late start of some workers."""

    conf: faults.LateJoinConf
    _late: dict[int, bool] = field(default_factory=dict, init=False, repr=False)

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        if slot in self._late:
            return 0.0
        self._late[slot] = self.draw.random() < self.conf.rate
        return self.draw.random() * self.conf.seconds if self._late[slot] else 0.0


@dataclass(slots=True, eq=False)
class Flap(Fault):
    """Repeated loss and return of some workers."""

    conf: faults.FlapConf

    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        number = worker.number
        if self.draw.random() < self.conf.rate:
            cluster.after(
                self.draw.expovariate(1 / self.conf.up_seconds),
                lambda: cluster.lose(number, "flapped (invented)", returns_after=self.conf.away_seconds),
            )


@dataclass(slots=True, eq=False)
class AllGone(Fault):
    """Loss of all workers at once, without new ones for a while."""

    conf: faults.AllGoneConf

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


@dataclass(slots=True, eq=False)
class Straggler(Fault):
    """Slow workers."""

    conf: faults.StragglerConf

    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.speed /= self.conf.factor


@dataclass(slots=True, eq=False)
class WrongClock(Fault):
    """Workers whose clocks run fast or slow."""

    conf: faults.WrongClockConf

    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.clock_rate = self.conf.factor ** self.draw.uniform(-1.0, 1.0)


@dataclass(slots=True, eq=False)
class Crash(Fault):
    """Crash of an attempt. Its worker survives."""

    conf: faults.CrashConf

    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        if self.draw.random() < self.conf.rate:
            attempt.fate.crashes_in = self.draw.randrange(4)
            attempt.fate.crash_can_be_retried = self.draw.random() >= self.conf.final


@dataclass(slots=True, eq=False)
class MemoryRunsOut(Fault):
    """Lack of memory during an epoch, which restarts with the next smaller batch or fails if there is none."""

    conf: faults.MemoryRunsOutConf

    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        if self.draw.random() < self.conf.rate:
            attempt.fate.out_of_memory_in = self.draw.randrange(3)


@dataclass(slots=True, eq=False)
class CheckpointsVanish(Fault):
    """Loss of a trial's checkpoints from the folder just before they are needed."""

    conf: faults.CheckpointsVanishConf

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        if isinstance(order, Train) and self.draw.random() < self.conf.rate:
            needed = order.trial if order.first_epoch > 1 else order.parent
            if needed is not None:
                cluster.world.checkpoints.drop(needed)


@dataclass(slots=True, eq=False)
class CheckpointsUnwritten(Fault):
    """Failed writes of all checkpoints of an attempt."""

    conf: faults.CheckpointsUnwrittenConf

    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        if self.draw.random() < self.conf.rate:
            attempt.fate.has_no_disk = True


@dataclass(slots=True, eq=False)
class Late(Fault):
    """Random delay of each message. Later messages may overtake it."""

    conf: faults.LateConf

    def delivery_delays(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.conf.rate:
            return (delay + self.draw.random() * self.conf.seconds,)
        return (delay,)


@dataclass(slots=True, eq=False)
class Twice(Fault):
    """Repeated delivery of messages."""

    conf: faults.TwiceConf

    def delivery_delays(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.conf.rate:
            return (delay, delay + self.draw.random() * self.conf.apart_seconds)
        return (delay,)


@dataclass(slots=True, eq=False)
class OutOfOrder(Fault):
    """Exchange of messages with those sent shortly after them."""

    conf: faults.OutOfOrderConf

    def delivery_delays(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.conf.rate:
            return (delay + self.draw.random() * self.conf.seconds,)
        return (delay,)


@dataclass(slots=True, eq=False)
class Never(Fault):
    """Loss of messages, except the executor's own messages WorkerJoined and WorkerLost."""

    conf: faults.NeverConf

    def delivery_delays(self, word: Word, delay: float) -> Sequence[float]:
        if not isinstance(word, events.WorkerJoined | events.WorkerLost) and self.draw.random() < self.conf.rate:
            return ()
        return (delay,)


@dataclass(slots=True, eq=False)
class GeneratorDead(Fault):
    """Workers whose proposal generators never answer."""

    conf: faults.GeneratorDeadConf

    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.is_generating = False

    def propose(
        self, worker: SimulatedWorker, order: ProposalRequested, answer: ProposalReturned | ProposalFailed
    ) -> ProposalReturned | ProposalFailed | None:
        return answer if worker.is_generating else None


@dataclass(slots=True, eq=False)
class BadProposal(Fault):
    """Answers that cannot be built or contain no proposal."""

    conf: faults.BadProposalConf

    def propose(
        self, worker: SimulatedWorker, order: ProposalRequested, answer: ProposalReturned | ProposalFailed
    ) -> ProposalReturned | ProposalFailed | None:
        if self.draw.random() >= self.conf.rate:
            return answer
        if isinstance(answer, ProposalReturned) and self.draw.random() < 0.7:
            if self.draw.random() < 0.3:
                return msgspec.structs.replace(answer, parent=order.number + 1000)
            return msgspec.structs.replace(answer, morphs=({"morph": "invented"},))
        return ProposalFailed(number=order.number, reason="an invented reason")


@dataclass(slots=True, eq=False)
class DriverDies(Fault):
    """Death of the driver while it writes or sends. The last line may be torn. The run is resumed later."""

    conf: faults.DriverDiesConf

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> AppendFailure | None:
        if self.draw.random() >= self.conf.rate:
            return None
        whole = self.draw.randint(0, len(events))
        return AppendFailure(
            whole, self.draw.choice((0.0, self.draw.random())), self.draw.expovariate(1 / self.conf.seconds)
        )

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        if self.draw.random() < self.conf.rate:
            raise DriverKilled(self.draw.expovariate(1 / self.conf.seconds))


@dataclass(slots=True, eq=False)
class DiskFull(Fault):
    """Full disk that takes a part of a write. The run is resumed after space is freed."""

    conf: faults.DiskFullConf

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> AppendFailure | None:
        if self.draw.random() >= self.conf.rate:
            return None
        whole, torn, down = (
            self.draw.randrange(len(events)),
            self.draw.random(),
            self.draw.expovariate(1 / self.conf.seconds),
        )
        return AppendFailure(whole, torn, down, is_disk_full=True)


_KINDS: dict[type, Callable[[Any], Fault]] = {
    faults.WorkerLostConf: WorkerLost,
    faults.WorkerHungConf: WorkerHung,
    faults.IdleWorkerHungConf: IdleWorkerHung,
    faults.NodeLostConf: NodeLost,
    faults.LateJoinConf: LateJoin,
    faults.FlapConf: Flap,
    faults.AllGoneConf: AllGone,
    faults.StragglerConf: Straggler,
    faults.WrongClockConf: WrongClock,
    faults.CrashConf: Crash,
    faults.MemoryRunsOutConf: MemoryRunsOut,
    faults.CheckpointsVanishConf: CheckpointsVanish,
    faults.CheckpointsUnwrittenConf: CheckpointsUnwritten,
    faults.LateConf: Late,
    faults.TwiceConf: Twice,
    faults.OutOfOrderConf: OutOfOrder,
    faults.NeverConf: Never,
    faults.GeneratorDeadConf: GeneratorDead,
    faults.BadProposalConf: BadProposal,
    faults.DriverDiesConf: DriverDies,
    faults.DiskFullConf: DiskFull,
}


def build_faults(configured: Sequence[AnyFault], seed: int) -> tuple[Fault, ...]:
    """Return the faults of a list, each with its own random numbers from the run's seed and its place in the list."""
    built = tuple(build_fault(each) for each in configured)
    for place, fault in enumerate(built):
        fault.seed(seed, place)
    return built


def build_fault(conf: AnyFault) -> Fault:
    """Return the fault of a configuration. Raises BadConfiguration if a value is outside its limits."""
    hold(conf, "cluster.faults")
    return _KINDS[type(conf)](conf)
