"""What all faults have in common: hooks, which are methods that the simulation calls at certain moments.

A fault acts through the executor. Each fault has random numbers of its own, so that any number of faults can be combined. Its
parameters are its configuration's (`cluster/faults.py`), whose defaults hurt a run of some minutes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiperf.journal.events import AnyEvent
from aiperf.journal.messages import Order, Propose, Proposed, Unproposed, Word
from aiperf.rng import derive
from aiperf.simulate.model.driver_death import Death

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_attempt import Attempt, Worker
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor


@dataclass(slots=True, eq=False)
class Fault:
    """The hooks. None of them does anything here. All times are seconds of the driver's clock."""

    draw: random.Random = field(default_factory=random.Random, init=False, repr=False)

    def seed(self, seed: int, place: int) -> None:
        """Seeds its random numbers: by the run's seed, its kind and its place in the list, so that two of one kind differ."""
        self.draw = random.Random(derive(seed, f"fault {type(self).__name__}", place))

    def began(self, cluster: SimulatedExecutor) -> None:
        """A driver has started, for the first time or after a death."""

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        """A worker is about to say that it is up."""

    def holds_back(self, cluster: SimulatedExecutor, slot: int) -> float:
        """For how long no worker may come up in this slot."""
        return 0.0

    def taken(self, cluster: SimulatedExecutor, worker: Worker, attempt: Attempt) -> None:
        """A worker has taken an order to train."""

    def asked(self, worker: Worker, order: Propose, answer: Proposed | Unproposed) -> Proposed | Unproposed | None:
        """What becomes of the answer to an order to propose; None: there is none."""
        return answer

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        """After which delays a word arrives: none, once, or more often."""
        return (delay,)

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        """The driver is sending an order. Raise DriverKilled to kill it."""

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> Death | None:
        """The driver is about to write events. Give a Death to kill it while it writes."""
        return None
