"""Observations that the searchers get from a journal event, such as a proposed trial or its accuracy."""

from __future__ import annotations

from aiperf.journal import events
from aiperf.journal.legality import TrialState, check_state
from aiperf.rules.state import Run, Worker
from morphism import decode_morph
from searchers.history import (
    CeilingKnown,
    FailedTrial,
    Finished,
    Observation,
    OutOfMemoryPoint,
    ReducedBatch,
    Requested,
    RequestWithoutTrial,
    SpareBegan,
    TrialInFlight,
    WeightsDropped,
    WithdrawnTrial,
)


def observations(run: Run, event: events.AnyEvent) -> list[Observation]:
    """Return what an event adds to the searchers' history. `run`: state before it. Intervals and epochs are not checked."""
    match event:
        case events.Progress() | events.EpochFinished():
            return []  # nearly all events, therefore first
        case _:
            check_state(event, run)
    match event:
        case events.ProposalRequested():
            return [Requested(event.number)]
        case events.TrialRejected():
            return [RequestWithoutTrial(event.number)]
        case events.TrialProposed():
            return [
                TrialInFlight(
                    number=event.number,
                    round=run.requests[event.number].round,
                    parent=event.parent,
                    morphs=tuple(decode_morph(morph) for morph in event.morphs),
                    batch_size=event.batch_size,
                    kernel_size=event.kernel_size,
                    fingerprint=event.fingerprint,
                    pruned=tuple(OutOfMemoryPoint(**point) for point in event.pruned),
                    own_kernel=event.own_kernel,
                    can_grow=event.can_grow,
                )
            ]
        case events.TrialStarted():
            # Only spares are reported: they may be trained in a later round than the proposed one.
            return [SpareBegan(event.trial, event.round)] if event.round != run.trials[event.trial].round else []
        case events.TrialFinished():
            return [Finished(event.trial, event.reported_accuracy)]
        case events.TrialFailed():
            never_began = run.trials[event.trial].state is TrialState.WAITING
            return [WithdrawnTrial(event.trial) if never_began else FailedTrial(event.trial, event.cause)]
        case events.BatchReduced():
            return [ReducedBatch(event.trial, event.from_batch_size, event.to_batch_size)]
        case events.CheckpointDropped():
            return [WeightsDropped(event.trial)]
        case events.CeilingMeasured():
            return [CeilingKnown(event.batch_size)]
        case events.WorkerLost():
            return _withdrawals(run.workers[event.worker])
        case events.RunResumed():
            return [each for worker in run.workers.values() for each in _withdrawals(worker)]
        case _:
            return []


def _withdrawals(worker: Worker) -> list[Observation]:
    return [*map(WithdrawnTrial, worker.waiting), *map(RequestWithoutTrial, sorted(worker.requested))]
