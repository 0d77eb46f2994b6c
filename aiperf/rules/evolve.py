"""Application of one event to the state of a run.

`evolve` works in place. Its cost depends neither on the number of workers nor on the length of the run. No other code may
hold a Run during the change. The functions in `aiperf/rules/changes/` maintain the sets that decide reads (idle workers,
workers with proposal demand, lost trials, droppable checkpoints), so that decide scans nothing.
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
    """Apply one event.

    Raises:
        IllegalEvent: it does not fit the state of its trial or of its worker. The run is unchanged.
    """
    # Nearly all events pass with this one check.
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
            pass  # for readers only
        case RunStarted():
            raise AssertionError("it was refused before")
        case _:
            assert_never(event)
