"""Simulated faults of hosts, workers and training. `cluster/faults.py` contains their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiperf.rng import derive
from aiperf.simulate.model.simulated_attempt import SimulatedAttempt, SimulatedWorker
from aiperf.simulate.model.simulated_executor import Fault, SimulatedExecutor
from cluster import faults
from cluster.faults import FaultConf


class WorkerLost(Fault[faults.WorkerLostConf]):
    """Fault that ends a worker before, during or after an attempt (one training of a network by a worker)."""

    def order_taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        """With probability conf.rate, plan the loss of `worker` at the time conf.when."""
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
    """Fault that makes a worker silent during an attempt (one training of a network by a worker)."""

    def order_taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        """With probability conf.rate, plan that `worker` becomes silent at a random time of the longest possible `attempt`."""
        if self.draw.random() < self.conf.rate:
            number = worker.number
            cluster.after(self.draw.random() * attempt.left_seconds, lambda: cluster.vanish(number))


class NodeLost(Fault[faults.NodeLostConf]):
    def began(self, cluster: SimulatedExecutor) -> None:
        """Plan the losses of random hosts at random times, conf.every_seconds apart on average."""

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
        """With probability conf.rate, divide the speed of the new worker by conf.factor. `cluster`: not used."""
        if self.draw.random() < self.conf.rate:
            worker.speed /= self.conf.factor


class Crash(Fault[faults.CrashConf]):
    """Fault that ends an attempt (one training of a network by a worker). Its worker continues."""

    def order_taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        """With probability conf.rate, mark the training `attempt` to crash in one of its first four epochs."""
        if self.draw.random() < self.conf.rate:
            attempt.fate.crashes_in = self.draw.randrange(4)
            attempt.fate.crash_can_be_retried = self.draw.random() >= self.conf.final


class MemoryRunsOut(Fault[faults.MemoryRunsOutConf]):
    """Fault that lets the accelerator memory run out in an epoch of an attempt (one training of a network)."""

    def order_taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        """With probability conf.rate, mark the training `attempt` to run out of memory in one of its first three epochs."""
        if self.draw.random() < self.conf.rate:
            attempt.fate.out_of_memory_in = self.draw.randrange(3)


class CheckpointsUnwritten(Fault[faults.CheckpointsUnwrittenConf]):
    """Fault that lets all writes of checkpoints fail during an attempt (one training of a network)."""

    def order_taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        """With probability conf.rate, mark that no checkpoint of the training `attempt` can be written."""
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
    built = tuple(kinds[type(conf)](conf) for conf in configured)
    for place, fault in enumerate(built):
        fault.draw.seed(derive(seed, f"fault {type(fault).__name__}", place))
    return built
