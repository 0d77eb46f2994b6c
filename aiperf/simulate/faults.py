"""Effects of the faults that `cluster/faults.py` configures, on hosts, workers and training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiperf.rng import derive
from aiperf.simulate.model.fault import Fault
from aiperf.simulate.model.simulated_attempt import SimulatedAttempt, SimulatedWorker
from aiperf.simulate.model.simulated_executor import SimulatedExecutor
from cluster import faults
from cluster.faults import FaultConf


class WorkerLost(Fault[faults.WorkerLostConf]):
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


class WorkerHung(Fault[faults.WorkerHungConf]):
    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        if self.draw.random() < self.conf.rate:
            number = worker.number
            cluster.after(self.draw.random() * attempt.left_seconds, lambda: cluster.vanish(number))


class NodeLost(Fault[faults.NodeLostConf]):
    def began(self, cluster: SimulatedExecutor) -> None:
        def lose() -> None:
            hosts = sorted({worker.host for worker in cluster.workers.values()})
            if hosts:
                host = self.draw.choice(hosts)
                for number in [worker.number for worker in cluster.workers.values() if worker.host == host]:
                    cluster.lose(number, f"{host} is down (invented)", returns_after=self.conf.back_seconds)
            cluster.after(self.draw.expovariate(1 / self.conf.every_seconds), lose)

        cluster.after(self.draw.expovariate(1 / self.conf.every_seconds), lose)


class Straggler(Fault[faults.StragglerConf]):
    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.speed /= self.conf.factor


class Crash(Fault[faults.CrashConf]):
    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        if self.draw.random() < self.conf.rate:
            attempt.fate.crashes_in = self.draw.randrange(4)
            attempt.fate.crash_can_be_retried = self.draw.random() >= self.conf.final


class MemoryRunsOut(Fault[faults.MemoryRunsOutConf]):
    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        if self.draw.random() < self.conf.rate:
            attempt.fate.out_of_memory_in = self.draw.randrange(3)


class CheckpointsUnwritten(Fault[faults.CheckpointsUnwrittenConf]):
    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        if self.draw.random() < self.conf.rate:
            attempt.fate.has_no_disk = True


KINDS: dict[type[FaultConf], Callable[[Any], Fault[Any]]] = {
    faults.WorkerLostConf: WorkerLost,
    faults.WorkerHungConf: WorkerHung,
    faults.NodeLostConf: NodeLost,
    faults.StragglerConf: Straggler,
    faults.CrashConf: Crash,
    faults.MemoryRunsOutConf: MemoryRunsOut,
    faults.CheckpointsUnwrittenConf: CheckpointsUnwritten,
}


def build_faults(
    configured: Sequence[FaultConf], seed: int, kinds: Mapping[type[FaultConf], Callable[[Any], Fault[Any]]] = KINDS
) -> tuple[Fault[Any], ...]:
    """Return the fault that each configuration describes, in their order.

    Each fault has its own random numbers, which follow from the run's seed, its kind and its place in the list. Raises KeyError
    for a configuration that is not in `kinds`.
    """
    built = tuple(kinds[type(conf)](conf) for conf in configured)
    for place, fault in enumerate(built):
        fault.draw.seed(derive(seed, f"fault {type(fault).__name__}", place))
    return built
