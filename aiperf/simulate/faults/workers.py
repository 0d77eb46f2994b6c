"""Faults of workers and their hosts: lost, hung, late, slow, with a wrong clock, or gone all at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiperf.simulate.model.fault import Fault
from cluster.faults import (
    AllGoneConf,
    FlapConf,
    IdleWorkerHungConf,
    LateJoinConf,
    NodeLostConf,
    StragglerConf,
    WorkerHungConf,
    WorkerLostConf,
    WrongClockConf,
)

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_attempt import Attempt, Worker
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor


@dataclass(slots=True, eq=False)
class WorkerLost(Fault):
    """A worker ends before, during or after a trial; another comes up in its place."""

    conf: WorkerLostConf

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
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
    """A worker falls silent, without a word of it from anybody."""

    conf: WorkerHungConf

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        if self.draw.random() < self.conf.rate:
            number = worker.number
            cluster.after(self.draw.random() * attempt.left_seconds, lambda: cluster.vanish(number))


@dataclass(slots=True, eq=False)
class IdleWorkerHung(Fault):
    """A worker comes up and never says another word."""

    conf: IdleWorkerHungConf

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.is_silent = True


@dataclass(slots=True, eq=False)
class NodeLost(Fault):
    """A host goes down with all its workers, and comes back."""

    conf: NodeLostConf

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
    """Some workers come up long after the others."""

    conf: LateJoinConf
    _late: dict[int, bool] = field(default_factory=dict, init=False, repr=False)

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        if slot in self._late:
            return 0.0
        self._late[slot] = self.draw.random() < self.conf.rate
        return self.draw.random() * self.conf.seconds if self._late[slot] else 0.0


@dataclass(slots=True, eq=False)
class Flap(Fault):
    """Some workers keep going and coming back."""

    conf: FlapConf

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        number = worker.number
        if self.draw.random() < self.conf.rate:
            cluster.after(
                self.draw.expovariate(1 / self.conf.up_seconds),
                lambda: cluster.lose(number, "flapped (invented)", returns_after=self.conf.away_seconds),
            )


@dataclass(slots=True, eq=False)
class AllGone(Fault):
    """All workers go at once, and nobody comes up for a while."""

    conf: AllGoneConf

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
    """Some workers are slow."""

    conf: StragglerConf

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.speed /= self.conf.factor


@dataclass(slots=True, eq=False)
class WrongClock(Fault):
    """Some workers' clocks run fast or slow."""

    conf: WrongClockConf

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.clock_rate = self.conf.factor ** self.draw.uniform(-1.0, 1.0)
