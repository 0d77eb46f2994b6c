"""Base class of all faults, with the hooks that the simulation calls, and the death of a driver.

A fault acts through the executor. Each fault has its own random numbers, so that any number of faults can be combined. Its
parameters are defined in `cluster/faults.py`, with defaults for a run of some minutes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiperf.journal.events import AnyEvent, ProposalRequested
from aiperf.journal.messages import Order, ProposalFailed, ProposalReturned, Word
from aiperf.rng import derive

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_attempt import SimulatedAttempt, SimulatedWorker
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor


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


@dataclass(slots=True, eq=False)
class Fault:
    """Hooks without effect. All times are seconds of the driver's clock."""

    draw: random.Random = field(default_factory=random.Random, init=False, repr=False)

    def seed(self, seed: int, place: int) -> None:
        """Seed the fault's random numbers by the run's seed, its kind and its place in the list.

        Two faults of one kind therefore differ.
        """
        self.draw = random.Random(derive(seed, f"fault {type(self).__name__}", place))

    def began(self, cluster: SimulatedExecutor) -> None:
        """Called after each start of a driver."""

    def joined(self, cluster: SimulatedExecutor, worker: SimulatedWorker) -> None:
        """Called before a worker sends WorkerJoined."""

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        """Return the seconds for which no worker may start in this slot."""
        return 0.0

    def taken(self, cluster: SimulatedExecutor, worker: SimulatedWorker, attempt: SimulatedAttempt) -> None:
        """Called after a worker accepts an order to train."""

    def propose(
        self, worker: SimulatedWorker, order: ProposalRequested, answer: ProposalReturned | ProposalFailed
    ) -> ProposalReturned | ProposalFailed | None:
        """Return the answer to an order to propose. None for no answer."""
        return answer

    def delivery_delays(self, word: Word, delay: float) -> Sequence[float]:
        """Return the delays of a message's deliveries: none, one or several."""
        return (delay,)

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        """Called when the driver sends an order. Raise DriverKilled to kill the driver."""

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> AppendFailure | None:
        """Called before the driver writes events. Return a Death to kill it while it writes."""
        return None
