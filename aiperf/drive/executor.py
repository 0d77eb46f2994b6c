"""Interface between the driver (main process of a run) and the workers: send commands, read messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aiperf.journal.messages import Message, Order
from searchers.history import Observation


class Executor(Protocol):
    """Interface of a backend that carries out the driver's commands: in this process, on Ray, or under a virtual clock.

    `tests/drive/test_executors.py` contains the contract tests of all implementations.
    """

    def start(self) -> None:
        """Request the start of all workers (process groups that train networks). Return before they are ready.

        Each sends WorkerJoined when it is ready.

        Raises:
            RuntimeLost: a process of Ray ended or did not answer.
        """

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add results of trials to the searcher's history. Proposals that are requested later use them.

        `observations`: results in the sequence of the journal.
        """

    def send(self, order: Order) -> None:
        """Start a command (propose, train, report, remove a checkpoint, release a worker) and return at once.

        Its results are returned by `words`. A command for a lost worker is ignored, and a message reports the loss.

        Raises:
            RuntimeLost: a process of Ray ended or did not answer.
        """

    def messages(self, timeout: float) -> list[Message]:
        """Remove and return the messages that have arrived, in sequence. Wait up to `timeout` seconds for the first one.

        The seconds are those of the driver's clock. The list is empty if no message arrived in time. The
        executor that trains in this process (inline) may exceed the time.

        Raises:
            NoWorkers: no worker is up and none can be started.
            RuntimeLost: a process of Ray ended or did not answer.
        """

    def close(self) -> None:
        """End all work and release all resources. Unread messages are lost."""
