"""Interface between the driver and the machines: send orders, read messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aiperf.journal.messages import Order, Word
from searchers.history import Observation


class Executor(Protocol):
    """Backend that carries out a run's orders: in this process, on Ray, or under a virtual clock.

    `tests/drive/test_executors.py` contains the contract tests of all implementations.
    """

    def start(self) -> None:
        """Start the workers. Each sends WorkerJoined when it is ready."""
        ...

    def tell(self, observations: Sequence[Observation]) -> None:
        """Add observations to the searchers' history, in the journal's order. A later ProposalRequested sees them."""
        ...

    def send(self, order: Order) -> None:
        """Begin to carry out an order and return at once. Its results arrive as messages of `words`.

        An order for a lost worker is dropped, and a message reports the loss.
        """
        ...

    def words(self, timeout: float) -> list[Word]:
        """Remove and return the messages that have arrived. Wait up to `timeout` seconds of the driver's clock for the first.

        Empty if none arrived in time.
        """
        ...

    def close(self) -> None:
        """End all work and release all resources. Unread messages are lost."""
        ...
