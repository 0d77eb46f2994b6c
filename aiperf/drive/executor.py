"""What a driver needs of the machines: to send orders to them and to read their words. Nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from aiperf.journal.messages import Order, Word
from searchers.history import Observation


class Executor(Protocol):
    """Where a run's orders are carried out: in this process, on Ray, or under a virtual clock.

    `tests/drive/test_executors.py` is the contract that each of them is held to.
    """

    def start(self) -> None:
        """Brings workers up; each says WorkerUp when it is ready, now or later."""
        ...

    def tell(self, observations: Sequence[Observation]) -> None:
        """What searchers learn, in the journal's order; a Propose sent afterwards sees it."""
        ...

    def send(self, order: Order) -> None:
        """Has an order carried out; returns at once. One for a worker that is gone is dropped; a word tells of the loss."""
        ...

    def words(self, timeout: float) -> list[Word]:
        """The words that have come; waits up to `timeout` seconds of the driver's clock for the first."""
        ...

    def close(self) -> None:
        """Ends all work and releases everything. Words that were not read yet are lost."""
        ...


@runtime_checkable
class MeasuresAgain(Protocol):
    """What an executor may promise besides: its workers' processors are measured once more when the run is over."""

    def peaks_again(self, seconds: float, is_wanted: Callable[[], bool]) -> dict[int, float]:
        """Ends those workers that measured their processors when they came up, and measures them: by worker, FLOPS of one
        rank. Who has not answered in time, or when it is wanted no more, is left out. Nothing trains afterwards."""
        ...
