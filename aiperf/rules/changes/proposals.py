"""Requests, rejections and proposals that wait for their worker."""

from __future__ import annotations

from bisect import insort

from aiperf.journal.events import ProposalRequested, TrialProposed, TrialRejected
from aiperf.journal.legality import TrialState
from aiperf.rules.changes import checkpoints, proposal_demand, transitions
from aiperf.rules.state import Run, Trial


def requested(run: Run, event: ProposalRequested) -> None:
    """Record a request to a worker's generator."""
    worker = run.workers[event.worker]
    run.requests[event.number] = event
    run.next_number = event.number + 1
    if event.starting_network:
        run.start = event.number
    worker.requested.add(event.number)
    proposal_demand.update(run, worker)


def rejected(run: Run, event: TrialRejected) -> None:
    """Record a rejected request."""
    request = run.requests.pop(event.number)
    proposal_demand.reset_start(run, event.number)
    proposal_demand.count_rejection(run, run.workers[request.worker], event.number)


def proposed(run: Run, event: TrialProposed) -> None:
    """Add a trial that waits for the worker of its request."""
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
