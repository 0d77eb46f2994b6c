"""Faults of workers and their hosts: lost, hung, late, slow, with a wrong clock, or gone all at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiperf.simulate.model.fault import Fault

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_attempt import Attempt, Worker
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor


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
