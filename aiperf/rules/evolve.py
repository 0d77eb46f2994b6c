"""Application of one journal event to the state of a run, in place, at a cost that depends on neither workers nor history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from aiperf.journal import events
from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.journal.legality import check_state
from aiperf.rules import changes
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
            changes.worked(run, event)
        case events.EpochFinished():
            changes.epoch_finished(run, event)
        case events.ProposalRequested():
            changes.requested(run, event)
        case events.TrialProposed():
            changes.proposed(run, event)
        case events.TrialRejected():
            changes.rejected(run, event)
        case events.TrialStarted():
            changes.started(run, event)
        case events.TrialPrepared():
            changes.prepared(run, event)
        case events.BatchReduced():
            changes.batch_reduced(run, event)
        case events.CheckpointWritten():
            changes.received(run, event).saved_epoch = event.epoch
        case events.CheckpointNotWritten():
            changes.received(run, event).unsaved_epoch = event.epoch
        case events.TrialHeartbeat() | events.StepsProfiled():
            changes.received(run, event)
        case events.TrialFinished():
            changes.finished(run, event)
        case events.TrialLost():
            changes.lose(run, event.trial, event)
        case events.TrialFailed():
            changes.failed(run, event)
        case events.WorkerJoined():
            changes.joined(run, event)
        case events.WorkerLost():
            changes.removed(run, event.worker, event)
        case events.CheckpointDropped():
            changes.dropped(run, event)
        case events.CeilingMeasured():
            run.ceiling = event.batch_size if run.ceiling is None else min(run.ceiling, event.batch_size)
        case events.ImagesSkipped():
            run.corrupt.update(event.files)
        case events.RunResumed():
            run.ended = None
            run.corrupt.clear()
            for present in list(run.workers):
                changes.removed(run, present, event)
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
