"""Demand for proposals, and workers skipped after many rejections."""

from __future__ import annotations

from aiperf.rules.state import Run, Worker


def update(run: Run, worker: Worker) -> None:
    """Put a worker into `run.with_demand`, or remove it."""
    if worker.number not in run.exhausted and any(run.short_of(worker)):
        run.with_demand[worker.number] = None
    else:
        run.with_demand.pop(worker.number, None)


def count_rejection(run: Run, worker: Worker, number: int) -> None:
    worker.requested.discard(number)
    worker.rejected_in_a_row += 1
    # The replay queue ends by itself, however many of its trials fail.
    if worker.rejected_in_a_row >= run.limits.rejections and run.started.follows is None:
        run.exhausted[worker.number] = None
    update(run, worker)


def request_for_skipped_workers(run: Run) -> None:
    """A finished trial gives the search a new result: each skipped worker may request one more proposal."""
    while run.exhausted:  # there is a new parent, so each worker requests once more
        worker = run.workers[run.exhausted.popitem(last=False)[0]]
        worker.rejected_in_a_row = run.limits.rejections - 1
        update(run, worker)
    if run.finished == 1:  # from now on each worker has spares
        for worker in run.workers.values():
            update(run, worker)


def reset_start(run: Run, number: int) -> None:
    """Make the starting network due again if `number` was its current proposal."""
    if run.start == number:
        run.start = None
