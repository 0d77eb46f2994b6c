"""Proposal demand of the workers, and workers that are skipped after too many rejected proposals."""

from __future__ import annotations

from aiperf.rules.state import Run, Worker


def update(run: Run, worker: Worker) -> None:
    """Add a worker to `run.with_demand` if it lacks proposals and is not skipped, otherwise remove it."""
    if worker.number not in run.exhausted and any(run.short_of(worker)):
        run.with_demand[worker.number] = None
    else:
        run.with_demand.pop(worker.number, None)


def count_rejection(run: Run, worker: Worker, number: int) -> None:
    """Count a rejected request of a present worker. The worker requests again unless it reached `limits.rejections`."""
    worker.requested.discard(number)
    worker.rejected_in_a_row += 1
    # The replay queue ends by itself, however many of its trials fail.
    if worker.rejected_in_a_row >= run.limits.rejections and run.started.follows is None:
        run.exhausted[worker.number] = None
    update(run, worker)


def request_for_skipped_workers(run: Run) -> None:
    """Request again for skipped workers, because a finished trial gives the search a new observation."""
    while run.exhausted:  # there is a new parent, so each worker requests once more
        worker = run.workers[run.exhausted.popitem(last=False)[0]]
        worker.rejected_in_a_row = run.limits.rejections - 1
        update(run, worker)
    if run.finished == 1:  # from now on each worker has spares
        for worker in run.workers.values():
            update(run, worker)


def reset_start(run: Run, number: int) -> None:
    """Request the starting network again if `number`, whose proposal or trial failed, was its current proposal."""
    if run.start == number:
        run.start = None
