"""Application of one journal event to the state of a run, in place, at a cost that depends on neither workers nor history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from aiperf.journal import events
from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.journal.legality import check_state
from aiperf.rules.changes import attempts, checkpoints, transitions, workers
from aiperf.rules.state import Run, begin


def evolve(run: Run, event: events.AnyEvent) -> None:
    """Apply the next event. Raise IllegalLine if it does not fit the state. The run is then unchanged."""
    # Nearly all events pass with this one check.
    if not ((type(event) is events.EpochFinished or type(event) is events.Progress) and event.trial in run.running):
        check_state(event, run)
    run.lines += 1
    if event.at > run.at:
        run.at = event.at
    match event:
        case events.Progress():
            attempts.worked(run, event)
        case events.EpochFinished():
            attempts.epoch_finished(run, event)
        case events.ProposalRequested():
            workers.requested(run, event)
        case events.TrialProposed():
            workers.proposed(run, event)
        case events.TrialRejected():
            workers.rejected(run, event)
        case events.TrialStarted():
            attempts.started(run, event)
        case events.TrialPrepared():
            attempts.prepared(run, event)
        case events.BatchReduced():
            attempts.batch_reduced(run, event)
        case events.CheckpointWritten():
            attempts.received(run, event).saved_epoch = event.epoch
        case events.CheckpointNotWritten():
            attempts.received(run, event).unsaved_epoch = event.epoch
        case events.TrialHeartbeat() | events.StepsProfiled():
            attempts.received(run, event)
        case events.TrialFinished():
            transitions.finished(run, event)
        case events.TrialLost():
            transitions.lose(run, event.trial, event)
        case events.TrialFailed():
            transitions.failed(run, event)
        case events.WorkerJoined():
            workers.joined(run, event)
        case events.WorkerLost():
            workers.removed(run, event.worker, event)
        case events.CheckpointDropped():
            checkpoints.dropped(run, event)
        case events.CeilingMeasured():
            run.ceiling = event.batch_size if run.ceiling is None else min(run.ceiling, event.batch_size)
        case events.ImagesSkipped():
            run.corrupt.update(event.files)
        case events.RunResumed():
            run.ended = None
            run.corrupt.clear()
            for present in list(run.workers):
                workers.removed(run, present, event)
        case events.RunEnded():
            run.ended = event.reason
        case events.WorkerNotStarted() | events.NodeChecked() | events.ScorePredicted() | events.HelperLost():
            pass  # for readers only
        case events.RunStarted():
            raise AssertionError("it was refused before")
        case _:
            assert_never(event)


def replay(events: Iterable[AnyEvent]) -> Iterator[tuple[Run, AnyEvent]]:
    """Yield (state before the event, event). The state is one object, to which the event is applied before the next pair."""
    lines = iter(events)
    first = next(lines, None)
    assert isinstance(first, RunStarted), "the journal's reader has checked that it begins with RunStarted"
    run = begin(first)
    yield run, first
    for event in lines:
        yield run, event
        evolve(run, event)
