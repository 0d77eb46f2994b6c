"""What every fault is: it looks on at certain moments of a simulation, its hooks, and takes a hand through the executor.

A fault draws from a seed of its own, so that faults compose in any number. Its parameters are its configuration's
(`cluster/faults.py`), whose defaults hurt a run of some minutes.
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
    """The hooks; each does nothing here. All times are the driver's seconds."""

    draw: random.Random = field(default_factory=random.Random, init=False, repr=False)

    def seed(self, seed: int, place: int) -> None:
        """Equal seeds, equal faults; two faults of one kind differ by their place in the list."""
        self.draw = random.Random(derive(seed, f"fault {type(self).__name__}", place))

    def began(self, cluster: SimulatedExecutor) -> None:
        """An incarnation begins."""

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
        """The driver is sending an order; it may die of it."""

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> Death | None:
        """Events are about to be written."""
        return None
