"""Faults of training: an attempt crashes, its batch does not fit, or the weights it needs are gone. Its worker lives on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiperf.journal.messages import Order, Train
from aiperf.simulate.model.fault import Fault
from cluster.faults import CheckpointsUnwrittenConf, CheckpointsVanishConf, CrashConf, MemoryRunsOutConf

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_attempt import Attempt, Worker
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor


@dataclass(slots=True, eq=False)
class Crash(Fault):
    """An attempt crashes, and its worker lives on."""

    conf: CrashConf

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        if self.draw.random() < self.conf.rate:
            attempt.fate.crashes_in = self.draw.randrange(4)
            attempt.fate.crash_can_be_retried = self.draw.random() >= self.conf.final


@dataclass(slots=True, eq=False)
class MemoryRunsOut(Fault):
    """Memory runs out in the midst of an epoch: it begins again with the next smaller batch, or fails where there is none."""

    conf: MemoryRunsOutConf

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        if self.draw.random() < self.conf.rate:
            attempt.fate.out_of_memory_in = self.draw.randrange(3)


@dataclass(slots=True, eq=False)
class CheckpointsVanish(Fault):
    """Checkpoints of a trial disappear from the folder when somebody is about to need them."""

    conf: CheckpointsVanishConf

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        if isinstance(order, Train) and self.draw.random() < self.conf.rate:
            needed = order.trial if order.first_epoch > 1 else order.parent
            if needed is not None:
                cluster.world.checkpoints.drop(needed)


@dataclass(slots=True, eq=False)
class CheckpointsUnwritten(Fault):
    """The disk takes none of an attempt's checkpoints."""

    conf: CheckpointsUnwrittenConf

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        if self.draw.random() < self.conf.rate:
            attempt.fate.has_no_disk = True
