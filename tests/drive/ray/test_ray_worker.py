"""Workers that wait for their places on a node that starts one actor after the other."""

from __future__ import annotations

from typing import Any, cast

from aiperf.drive.ray.ray_worker import ExecutorWorkers, RayWorker
from aiperf.drive.ray.slots import Slot


def asked(workers: ExecutorWorkers, number: int, node: str) -> RayWorker:
    """Return a worker that was requested at second 0. Its calls are arbitrary values."""
    stands, life = cast(Any, f"stands {number}"), cast(Any, f"life {number}")
    worker = RayWorker(number, Slot(node, node, number, 0, 1), None, stands, life, began=0.0)
    workers[number] = worker
    return worker


def test_the_wait_for_a_place_counts_from_the_last_on_its_node() -> None:
    workers = ExecutorWorkers()
    first, second, elsewhere = asked(workers, 0, "a"), asked(workers, 1, "a"), asked(workers, 2, "b")

    workers.answered([first.ping], 250.0)

    assert first.has_place and not second.has_place
    assert workers.waited(second, 387.0) == 137.0, "the limit of 300 s is not over"
    assert workers.waited(elsewhere, 387.0) == 387.0
