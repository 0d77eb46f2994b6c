"""The workers that an executor has asked for, by what has become of them; and the calls by which it will hear of more.

Each is in one of three sets, starting, up and leaving, so that a look goes over those alone that it is about.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import ray

from aiperf.drive.ray.ray_worker import RayWorker

LEAVE_SECONDS = 10.0
"""A worker that was let go may take so long to end by itself."""

Call = ray.ObjectRef[Any]


class Fleet:
    """The workers of one executor."""

    def __init__(self) -> None:
        self._workers: dict[int, RayWorker] = {}
        self.starting: dict[int, RayWorker] = {}
        self.up: dict[int, RayWorker] = {}
        self._leaving: dict[Call, tuple[RayWorker, float]] = {}
        """Let go and not yet ended, by their lives, and when that was."""
        self._lives: dict[Call, int] = {}
        self._standings: dict[Call, int] = {}
        """Of those that have no place yet."""

    def __contains__(self, number: int) -> bool:
        return number in self._workers

    def __bool__(self) -> bool:
        return bool(self._workers)

    def __getitem__(self, number: int) -> RayWorker:
        return self._workers[number]

    def get(self, number: int) -> RayWorker | None:
        """A worker that is starting or up."""
        return self._workers.get(number)

    def numbers(self) -> list[int]:
        """Of those that are starting or up."""
        return list(self._workers)

    def add(self, worker: RayWorker) -> None:
        """One more has been asked for."""
        self._workers[worker.number] = self.starting[worker.number] = worker
        self._lives[worker.life] = worker.number
        self._standings[worker.stands] = worker.number

    def came_up(self, number: int, now: float) -> None:
        """It trains from now on."""
        worker = self.starting.pop(number)
        worker.up = now
        self.up[number] = worker

    def pop(self, number: int) -> RayWorker | None:
        """It is known no more."""
        worker = self._workers.pop(number, None)
        if worker is not None:
            self.starting.pop(number, None)
            self.up.pop(number, None)
            self._lives.pop(worker.life, None)
            self._standings.pop(worker.stands, None)
        return worker

    def let_go(self, number: int, now: float) -> RayWorker:
        """Has a worker end by itself: a checkpoint that is being written is finished."""
        worker = self.pop(number)
        assert worker is not None, f"worker {number} is there"
        worker.host.end.remote()
        self._leaving[worker.life] = (worker, now)
        return worker

    # --- looking

    def calls(self) -> list[Call]:
        """What is to be waited for."""
        return [*self._lives, *self._standings, *self._leaving]

    def stood(self, done: Collection[Call]) -> None:
        """Of calls that are over: who has got a place."""
        for call in done:
            if (number := self._standings.pop(call, None)) is not None:
                self._workers[number].has_place = True

    def ended(self, done: Collection[Call]) -> list[int]:
        """Of calls that are over: who has ended."""
        return [self._lives[call] for call in done if call in self._lives]

    def left(self, done: Collection[Call], now: float) -> list[RayWorker]:
        """Of calls that are over: who was let go and has ended, or has had the time for it. They are known no more."""
        over = [call for call, (_, since) in self._leaving.items() if call in done or now - since > LEAVE_SECONDS]
        return [self._leaving.pop(call)[0] for call in over]

    def await_those_that_leave(self, timeout: float) -> list[RayWorker]:
        """Gives them some time; none is known afterwards."""
        if self._leaving:
            ray.wait(list(self._leaving), num_returns=len(self._leaving), timeout=timeout)
        workers = [worker for worker, _ in self._leaving.values()]
        self._leaving = {}
        return workers
