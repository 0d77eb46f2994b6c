"""True work of the simulated workers, recorded independently of journal and driver. The audit compares both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aiperf.journal.events import WorkerJoined
from aiperf.journal.messages import Advanced, EpochDone, Message, Train
from aiperf.simulate.model.simulated_attempt import SimulatedAttempt


@dataclass(slots=True)
class GroundTruth:
    """Record of a whole run. It survives driver restarts."""

    sums: dict[tuple[int, int], dict[int, set[tuple[int, int, int]]]] = field(default_factory=dict)
    """By (trial, attempt) and epoch: reported true sums of training and validation images, with the batch size of that pass.
    """
    breaches: list[tuple[int, str]] = field(default_factory=list)
    """Pairs of trial and text: an order that no driver may send."""
    up: set[int] = field(default_factory=set)
    """Workers whose WorkerJoined message has reached the current driver."""
    orders: list[tuple[int, int]] = field(default_factory=list)
    """(trial, attempt) of the orders to train since the last check."""

    def sent(self, words: Sequence[Message]) -> None:
        """Record messages of a worker, delivered or not."""
        for word in words:
            sums = word if isinstance(word, Advanced) else word.advanced if isinstance(word, EpochDone) else None
            if sums is not None:
                epochs = self.sums.setdefault((sums.trial, sums.attempt), {})
                epochs.setdefault(sums.epoch, set()).add(
                    (sums.training_images, sums.validation_images, sums.batch_size)
                )

    def received(self, words: Sequence[Message]) -> None:
        """Record messages that reached the driver."""
        self.up.update(word.worker for word in words if isinstance(word, WorkerJoined))

    def ordered(self, order: Train, running: SimulatedAttempt | None) -> None:
        """Record an order to train, and whether the worker was already training."""
        self.orders.append((order.trial, order.attempt))
        if running is not None:
            self.breaches.append(
                (
                    order.trial,
                    f"worker {order.worker} was ordered to train {order.trial} while it trained trial {running.order.trial}",
                )
            )
        if (order.trial, order.attempt) in self.sums:
            self.breaches.append((order.trial, f"attempt {order.attempt} of trial {order.trial} was ordered twice"))
        self.sums[order.trial, order.attempt] = {}
