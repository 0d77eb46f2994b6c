"""What the simulated workers truly did, kept apart from journal and driver: the invariants compare the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aiperf.journal.messages import Advanced, EpochDone, Train, Word, WorkerUp
from aiperf.simulate.model.simulated_attempt import Attempt


@dataclass(slots=True)
class GroundTruth:
    """One for a whole run: it outlives the run's drivers."""

    sums: dict[tuple[int, int], dict[int, set[tuple[int, int, int]]]] = field(default_factory=dict)
    """Of each (trial, attempt) and epoch: the sums of training and validation images that it truly
    reached and spoke of, with the batch size of that pass."""
    breaches: list[tuple[int, str]] = field(default_factory=list)
    """(trial, in words: an order that no driver may give)."""
    up: set[int] = field(default_factory=set)
    """Workers that this incarnation's driver was told are up."""
    orders: list[tuple[int, int]] = field(default_factory=list)
    """(trial, attempt) of the orders to train since somebody last looked."""

    def said(self, words: Sequence[Word]) -> None:
        """Records words that a worker sent, whether or not they reach the driver."""
        for word in words:
            sums = word if isinstance(word, Advanced) else word.advanced if isinstance(word, EpochDone) else None
            if sums is not None:
                epochs = self.sums.setdefault((sums.trial, sums.attempt), {})
                epochs.setdefault(sums.epoch, set()).add(
                    (sums.training_images, sums.validation_images, sums.batch_size)
                )

    def heard(self, words: Sequence[Word]) -> None:
        """Records words that reached the driver."""
        self.up.update(word.worker for word in words if isinstance(word, WorkerUp))

    def ordered(self, order: Train, running: Attempt | None) -> None:
        """Records an order to train, and whether the worker was training something else."""
        self.orders.append((order.trial, order.attempt))
        if running is not None:
            self.breaches.append(
                (
                    order.trial,
                    f"worker {order.worker} was told to train trial {order.trial} while it trained trial {running.order.trial}",
                )
            )
        if (order.trial, order.attempt) in self.sums:
            self.breaches.append((order.trial, f"attempt {order.attempt} of trial {order.trial} was ordered twice"))
        self.sums[order.trial, order.attempt] = {}
