"""Changes of a run's state by workers that join or are lost, and by proposals for them."""

from __future__ import annotations

from bisect import insort
from collections import deque

from aiperf.journal.events import ProposalRequested, RunResumed, TrialProposed, TrialRejected, WorkerJoined, WorkerLost
from aiperf.journal.legality import TrialState
from aiperf.rules.changes import checkpoints, proposal_demand, transitions
from aiperf.rules.state import Run, Trial, Worker


def joined(run: Run, event: WorkerJoined) -> None:
    """Add an idle worker, which continues the round of a lost worker without a successor."""
    worker = Worker(event.worker, event.host, event.ranks, event.device, event.at, round=_taken_over(run, event.host))
    run.workers[event.worker] = worker
    run.next_worker = max(run.next_worker, event.worker + 1)
    run.idle[event.worker] = None
    proposal_demand.update(run, worker)


def removed(run: Run, number: int, event: WorkerLost | RunResumed) -> None:
    """`event`: the cause. Waiting proposals are withdrawn, open requests deleted, and the running trial is lost."""
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
    """Return the round of a worker lost on the same host, otherwise of the one lost first, otherwise 0.

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


def requested(run: Run, event: ProposalRequested) -> None:
    worker = run.workers[event.worker]
    run.requests[event.number] = event
    run.next_number = event.number + 1
    if event.starting_network:
        run.start = event.number
    worker.requested.add(event.number)
    proposal_demand.update(run, worker)


def rejected(run: Run, event: TrialRejected) -> None:
    request = run.requests.pop(event.number)
    proposal_demand.reset_start(run, event.number)
    proposal_demand.count_rejection(run, run.workers[request.worker], event.number)


def proposed(run: Run, event: TrialProposed) -> None:
    request = run.requests.pop(event.number)
    worker = run.workers[request.worker]
    worker.requested.discard(event.number)
    trial = run.trials[event.number] = Trial(
        event.number,
        request.round,
        worker.number,
        event.parent,
        event.morphs,
        event.batch_size,
        event.can_grow,
        event.follows,
    )
    transitions.enter(run, trial, TrialState.WAITING)
    insort(worker.waiting, event.number)
    if worker.trial is None:
        run.ready[worker.number] = None
    worker.rejected_in_a_row = 0
    if worker.number in run.exhausted:
        del run.exhausted[worker.number]
        proposal_demand.update(run, worker)
    checkpoints.children_due(run, event)
