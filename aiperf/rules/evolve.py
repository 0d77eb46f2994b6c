"""One event into the state of a run: which change each event makes.

`evolve` works in place, at a cost that depends neither on how many workers there are nor on how long the run has been: nobody
but the folder of events holds a Run while it changes. What decide needs to look at (idle workers, hungry ones, lost trials,
droppable checkpoints) is kept up to date by the functions in `aiperf/rules/changes/`, so that deciding scans nothing.
"""

from __future__ import annotations

from typing import assert_never

from aiperf.journal.events import (
    AnyEvent,
    BatchReduced,
    CeilingMeasured,
    CheckpointDropped,
    CheckpointNotWritten,
    CheckpointWritten,
    EpochFinished,
    HelperLost,
    ImagesSkipped,
    NodeChecked,
    Progress,
    ProposalRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialFailed,
    TrialFinished,
    TrialHeartbeat,
    TrialLost,
    TrialPrepared,
    TrialProposed,
    TrialRejected,
    TrialStarted,
    WorkerJoined,
    WorkerLost,
    WorkerNotStarted,
)
from aiperf.rules.changes import attempts, checkpoints, proposals, transitions, workers
from aiperf.rules.fitting import check_that_it_fits
from aiperf.rules.state import Run


def evolve(run: Run, event: AnyEvent) -> None:
    """Takes one event in.

    Raises:
        EventRefused: it does not fit the state of its trial or of its worker. The run is as it was.
    """
    # Nearly all events fit, by this one look.
    if not ((type(event) is EpochFinished or type(event) is Progress) and event.trial in run.running):
        check_that_it_fits(run, event)
    run.lines += 1
    if event.at > run.at:
        run.at = event.at
    match event:
        case Progress():
            attempts.worked(run, event, event)
        case EpochFinished():
            attempts.epoch_finished(run, event)
        case ProposalRequested():
            proposals.requested(run, event)
        case TrialProposed():
            proposals.proposed(run, event)
        case TrialRejected():
            proposals.rejected(run, event)
        case TrialStarted():
            attempts.started(run, event)
        case TrialPrepared():
            attempts.prepared(run, event)
        case BatchReduced():
            attempts.batch_reduced(run, event)
        case CheckpointWritten():
            attempts.checkpoint_written(run, event)
        case CheckpointNotWritten():
            attempts.checkpoint_not_written(run, event)
        case TrialHeartbeat():
            attempts.heartbeat(run, event)
        case TrialFinished():
            transitions.finished(run, event)
        case TrialLost():
            transitions.lose(run, event.trial, event)
        case TrialFailed():
            transitions.failed(run, event)
        case WorkerJoined():
            workers.joined(run, event)
        case WorkerLost():
            workers.gone(run, event.worker, event)
        case CheckpointDropped():
            checkpoints.dropped(run, event)
        case CeilingMeasured():
            run.ceiling = event.batch_size if run.ceiling is None else min(run.ceiling, event.batch_size)
        case ImagesSkipped():
            run.corrupt.update(event.files)
        case RunResumed():
            run.ended = None
            run.corrupt.clear()
            for present in list(run.workers):
                workers.gone(run, present, event)
        case RunEnded():
            run.ended = event.reason
        case WorkerNotStarted() | NodeChecked() | HelperLost():
            pass  # it is for readers alone
        case RunStarted():
            raise AssertionError("it was refused before")
        case _:
            assert_never(event)
