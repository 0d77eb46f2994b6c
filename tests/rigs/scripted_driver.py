"""Driver over machines with scripted messages, under a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from aiperf.drive.driver import Driver
from aiperf.drive.session import SessionState
from aiperf.journal.events import AnyEvent, RunStarted, WorkerJoined
from aiperf.journal.journal import NAME, Journal, read
from aiperf.journal.messages import Message, Order, Train
from aiperf.simulate.model.machine_state import VirtualClock
from searchers.history import Observation
from searchers.propose import RULES
from tests.builders.journal import LIMITS, SCHEDULE, started

SPACE = {
    "budget": {"forward_flops": None, "parameters": None, "memory_bytes": None},
    "default_batch_size": 32,
    "smallest_batch_size": 8,
    "largest_batch_size": 128,
    "tuning_from_round": 4,
}

Answer = Callable[[Order], Iterable[tuple[float, Message]]]
"""Return the messages of the machines after an order, with their delays in seconds."""


def drivable(limits: dict[str, Any] | None = None, **others: Any) -> RunStarted:
    """A first line that a driver can take up."""
    config = {"limits": {**LIMITS, **(limits or {})}, "schedule": SCHEDULE, "space": SPACE}
    return started(config=config, proposal_rules=RULES, **others)


def up(worker: int, host: str = "a") -> WorkerJoined:
    """A worker of one rank."""
    return WorkerJoined(
        worker=worker, host=host, ranks=1, device="cpu", device_memory_bytes=1, collective="none", machine={}
    )


class Scripted:
    """Executor that sends given messages at given times, and answers orders by a function."""

    def __init__(
        self,
        clock: VirtualClock,
        says: Iterable[tuple[float, Message]] = (),
        answer: Answer = lambda order: (),
    ) -> None:
        self.orders: list[Order] = []
        self._clock = clock
        self._says = list(says)
        self._answer = answer

    def start(self) -> None:
        """Do nothing: workers come up as scripted."""

    def observe(self, observations: Sequence[Observation]) -> None:
        """Nobody proposes."""

    def send(self, order: Order) -> None:
        """Keeps it, and answers."""
        self.orders.append(order)
        now = self._clock.now()
        self._says += [(now + delay, word) for delay, word in self._answer(order)]

    def messages(self, timeout: float) -> list[Message]:
        """Return the next messages that are due. Without any, time passes."""
        until = self._clock.now() + timeout
        due = min((at for at, _ in self._says), default=until)
        self._clock.advance(max(self._clock.now(), min(due, until)))
        said = [word for at, word in self._says if at <= self._clock.now()]
        self._says = [(at, word) for at, word in self._says if at > self._clock.now()]
        return said

    def close(self) -> None:
        """Nothing to end."""

    @property
    def trained(self) -> list[int]:
        """Trials that were ordered to be trained."""
        return [order.trial for order in self.orders if isinstance(order, Train)]


def driver_after(
    events: Sequence[AnyEvent],
    folder: Path,
    says: Iterable[tuple[float, Message]] = (),
    answer: Answer = lambda order: (),
    **options: Any,
) -> Driver:
    """Return a driver that resumes a run after these events. Its journal is in the folder."""
    first = events[0]
    assert isinstance(first, RunStarted)
    standing = SessionState.at(first)
    for event in events[1:]:
        standing.take(event)
    journal = Journal(folder / NAME, durable=False)
    journal.append(events)
    clock = VirtualClock(standing.run.at)
    executor = Scripted(clock, says, answer)
    return Driver(standing.run, standing.work_log, standing.history, journal, executor, clock, **options)


def written(driver: Driver) -> list[AnyEvent]:
    """The whole journal."""
    driver.journal.close()
    return list(read(driver.journal.path))
