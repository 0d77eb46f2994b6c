"""Demand for proposals: workers that need a proposal (a network to train next), and workers skipped after many rejections."""

from __future__ import annotations

from aiperf.rules.state import Run, Worker


def update(run: Run, worker: Worker) -> None:
    """Add a worker to the set `run.with_demand` if it needs a proposal and is not skipped, otherwise remove it."""
    if worker.number not in run.exhausted and any(run.short_of(worker)):
        run.with_demand[worker.number] = None
    else:
        run.with_demand.pop(worker.number, None)


def count_rejection(run: Run, worker: Worker, number: int) -> None:
    """Record that request `number` of a worker was rejected.

    After `limits.rejections` rejections in a row the worker is skipped, except in a run that repeats an earlier run. Otherwise
    it may request another proposal.
    """
    worker.requested.discard(number)
    worker.rejected_in_a_row += 1
    # The replay queue ends by itself, however many of its trials fail.
    if worker.rejected_in_a_row >= run.limits.rejections and run.started.follows is None:
        run.exhausted[worker.number] = None
    update(run, worker)


def request_for_skipped_workers(run: Run) -> None:
    """Let each skipped worker request one more proposal, because a finished trial gives the search a new result.

    A worker is skipped after `limits.rejections` rejected proposals in a row. After the first finished trial of the run, all
    workers may also request spare proposals.
    """
    while run.exhausted:  # there is a new parent, so each worker requests once more
        worker = run.workers[run.exhausted.popitem(last=False)[0]]
        worker.rejected_in_a_row = run.limits.rejections - 1
        update(run, worker)
    if run.finished == 1:  # from now on each worker has spares
        for worker in run.workers.values():
            update(run, worker)


def reset_start(run: Run, number: int) -> None:
    """Make the starting network due for another request if `number` was the current proposal of it.

    The proposal has failed, or was rejected or withdrawn. Nothing changes for another number.
    """
    if run.start == number:
        run.start = None
