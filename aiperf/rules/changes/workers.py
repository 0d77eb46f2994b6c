"""Workers that join or are lost: their rounds and trials."""

from __future__ import annotations

from collections import deque

from aiperf.journal.events import RunResumed, WorkerJoined, WorkerLost
from aiperf.journal.legality import TrialState
from aiperf.rules.changes import proposal_demand, transitions
from aiperf.rules.state import Run, Worker


def joined(run: Run, event: WorkerJoined) -> None:
    """Add an idle worker."""
    worker = Worker(event.worker, event.host, event.ranks, event.device, event.at, round=_taken_over(run, event.host))
    run.workers[event.worker] = worker
    run.next_worker = max(run.next_worker, event.worker + 1)
    run.idle[event.worker] = None
    proposal_demand.update(run, worker)


def removed(run: Run, number: int, event: WorkerLost | RunResumed) -> None:
    """Remove a worker with its waiting proposals. Its trial is lost."""
    worker = run.workers.pop(number)
    run.idle.pop(number, None)
    run.ready.pop(number, None)
    run.with_demand.pop(number, None)
    run.exhausted.pop(number, None)
    run.departed.add(number)
    if worker.round:
        run.absent[number] = (worker.host, worker.round)
        run.absent_on.setdefault(worker.host, deque()).append(number)
    for request in worker.requested:
        # A late answer finds no request and changes nothing.
        del run.requests[request]
        proposal_demand.reset_start(run, request)
    for waiting in worker.waiting:
        proposal_demand.reset_start(run, waiting)
        transitions.settle(run, run.trials[waiting], TrialState.WITHDRAWN)
    if worker.trial is not None:
        transitions.lose(run, worker.trial, event)


def _taken_over(run: Run, host: str) -> int:
    """Return the round of a new worker.

    That of a worker lost on the same host, otherwise of the worker lost first, otherwise 0.

    The host of the worker lost first may have returned under another name.
    """
    if not run.absent:
        return 0
    predecessor = run.absent_on[host][0] if host in run.absent_on else next(iter(run.absent))
    where, round_ = run.absent.pop(predecessor)
    # The worker lost first is also the first one of its host.
    run.absent_on[where].popleft()
    if not run.absent_on[where]:
        del run.absent_on[where]
    return round_
