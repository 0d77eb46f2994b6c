"""Base class of all faults, with the hooks that the simulation calls.

A fault acts through the executor. Each fault has its own random numbers, so that any number of faults can be combined. Its
parameters are defined in `cluster/faults.py`, with defaults for a run of some minutes.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Generic, TypeVar

from cluster.faults import FaultConf

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_attempt import SimulatedAttempt, SimulatedWorker
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor

C = TypeVar("C", bound=FaultConf)


class Fault(Generic[C]):
    """Hooks without effect. All times are seconds of the driver's clock."""

    def __init__(self, conf: C) -> None:
        self.conf = conf
        self.draw = random.Random()
        """Seeded by the run's seed, the kind of the fault and its place in the list, so that two faults of one kind differ."""

    def began(self, cluster: SimulatedExecutor) -> None:
        """Called after each start of a driver."""

    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        """Called before a worker sends WorkerJoined."""

    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        """Called after a worker accepts an order to train."""
