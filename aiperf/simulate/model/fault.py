"""Base class of all simulated faults, with the methods that the simulation calls. A fault acts through the executor."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Generic, TypeVar

from cluster.faults import FaultConf

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_attempt import SimulatedAttempt, SimulatedWorker
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor

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
