"""Workers of an executor by state, and the open calls whose end changes a state.

A worker is starting, up or leaving. A poll visits only the workers of the state that concerns it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import ray

from aiperf.drive.ray.ray_worker import RayWorker

LEAVE_SECONDS = 10.0
"""Maximum time for a released worker to end by itself."""

Call = ray.ObjectRef[Any]


class ExecutorWorkers:
    """Workers of one executor."""

    def __init__(self) -> None:
        self._workers: dict[int, RayWorker] = {}
        self.starting: dict[int, RayWorker] = {}
        self.up: dict[int, RayWorker] = {}
        self._leaving: dict[Call, tuple[RayWorker, float]] = {}
        """Released workers that have not ended, with the time of the release, by life call."""
        self._lives: dict[Call, int] = {}
        self._standings: dict[Call, int] = {}
        """Calls of workers without a place."""
        self._placed: dict[str, float] = {}
        """Time at which an actor last got its place, by node."""

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
        """Numbers of workers that are starting or up."""
        return list(self._workers)

    def add(self, worker: RayWorker) -> None:
        self._workers[worker.number] = self.starting[worker.number] = worker
        self._lives[worker.life] = worker.number
        self._standings[worker.stands] = worker.number

    def came_up(self, number: int, now: float) -> None:
        worker = self.starting.pop(number)
        worker.up = now
        self.up[number] = worker

    def pop(self, number: int) -> RayWorker | None:
        worker = self._workers.pop(number, None)
        if worker is not None:
            self.starting.pop(number, None)
            self.up.pop(number, None)
            self._lives.pop(worker.life, None)
            self._standings.pop(worker.stands, None)
        return worker

    def let_go(self, number: int, now: float) -> RayWorker:
        """Request the end of a worker, and remove it. A checkpoint in progress is completed."""
        worker = self.pop(number)
        assert worker is not None, f"worker {number} is there"
        worker.host.end.remote()
        self._leaving[worker.life] = (worker, now)
        return worker

    # --- looking

    def calls(self) -> list[Call]:
        return [*self._lives, *self._standings, *self._leaving]

    def stood(self, done: Collection[Call], now: float) -> None:
        """Record the workers in `done` that have got a place."""
        for call in done:
            if (number := self._standings.pop(call, None)) is not None:
                worker = self._workers[number]
                worker.has_place = True
                self._placed[worker.slot.node] = now

    def waited(self, worker: RayWorker, now: float) -> float:
        """Return the seconds for which a worker has waited to be placed.

        The wait begins when the worker was requested, or when the last other worker was placed on its node if that is
        later, since a node starts its actors one after the other.
        """
        return now - max(worker.began, self._placed.get(worker.slot.node, worker.began))

    def ended(self, done: Collection[Call]) -> list[int]:
        return [self._lives[call] for call in done if call in self._lives]

    def left(self, done: Collection[Call], now: float) -> list[RayWorker]:
        """Remove and return released workers that have ended, or have exceeded LEAVE_SECONDS."""
        over = [call for call, (_, since) in self._leaving.items() if call in done or now - since > LEAVE_SECONDS]
        return [self._leaving.pop(call)[0] for call in over]

    def await_those_that_leave(self, timeout: float) -> list[RayWorker]:
        """Wait up to `timeout` seconds for released workers. Remove and return all of them."""
        if self._leaving:
            ray.wait(list(self._leaving), num_returns=len(self._leaving), timeout=timeout)
        workers = [worker for worker, _ in self._leaving.values()]
        self._leaving = {}
        return workers
