"""Training in the driver's own process by a single worker, for debuggers and tests."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

from aiperf.files import host_name
from aiperf.journal.events import ProposalRequested, WorkerJoined
from aiperf.journal.messages import Drop, Message, Order, Release, Sum, Train
from aiperf.rules.proposals import Proposer, make
from aiperf.system.describe import describe
from searchers.history import History, Observation, Space

Training = Callable[[Train], Iterator[Message]]
"""Function that carries out an order to train in this process, message by message."""


class InlineExecutor:
    """Executor (backend of the driver) with one worker in the driver's process."""

    def __init__(
        self, proposer: Proposer, space: Space, train: Training, drop: Callable[[int], None], worker: int
    ) -> None:
        self._proposer = proposer
        self._history = History(space)
        self._train = train
        self._drop = drop
        self._worker = worker
        self._unread: deque[Message] = deque()
        self._training: Iterator[Message] = iter(())

    def start(self) -> None:
        """Add a WorkerJoined message for the only worker. `messages` returns it."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._unread.append(
            WorkerJoined(
                worker=self._worker,
                host=host_name(),
                ranks=1,
                device="cpu (inline)",
                device_memory_bytes=memory,
                collective="none",
                machine=msgspec.to_builtins(describe()),
            )
        )

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add results of trials to the searcher's history, in the sequence of the journal."""
        self._history.observe(observations)

    def send(self, order: Order) -> None:
        """Carry out a command. After the command Release the worker has the next number."""
        match order:
            case Drop():
                self._drop(order.trial)
            case _ if order.worker != self._worker:
                pass
            case ProposalRequested():
                self._unread.append(make(self._proposer, self._history, order))
            case Train():
                self._training = self._train(order)
            case Release():
                # released after a silence, for example in a debugger: the worker continues under a new number
                self._training = iter(())
                self._unread.clear()
                self._worker += 1
                self.start()
            case Sum():
                pass  # `messages` trains on to the next message, which has the sums

    def messages(self, timeout: float) -> list[Message]:
        if not self._unread:
            message = next(self._training, None)
            if message is None:
                time.sleep(min(timeout, 0.01))
            else:
                self._unread.append(message)
        unread = list(self._unread)
        self._unread.clear()
        return unread

    def close(self) -> None:
        self._training = iter(())
