"""The fold over a run's events that collects what the report shows beside the score: trials, workers, progress, errors.

One pass, a bounded amount of work an event. The intervals of work themselves are in the work log
(`aiperf.accounting.work_log`), which are kept in the same pass.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, assert_never

from aiperf.accounting.work_log import WorkLog, counts
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
from aiperf.journal.journal import folding


@dataclass(slots=True)
class OpenTrial:
    """A trial while the journal is being read."""

    proposal: TrialProposed
    proposed_for: int
    """The round whose rules of proposing hold for it; a spare may be trained in a later one."""
    round: int
    generation: int
    worker: int | None = None
    attempts: int = 0
    batch_size: int = 0
    started: float | None = None
    ended: float | None = None
    epochs: int = 0
    accuracy: float | None = None
    told_accuracy: float | None = None
    validation_loss: float | None = None
    outcome: str = "waiting"
    reason: str | None = None
    precision: str | None = None


@dataclass(slots=True)
class OpenWorker:
    """A worker while the journal is being read."""

    joined: WorkerJoined
    lost: float | None = None
    lost_reason: str | None = None
    trials: int = 0
    trial: int | None = None
    """The trial it was given last."""


@dataclass(slots=True)
class Collected:
    """All that was read."""

    started: RunStarted
    events: int = 1
    resumes: list[RunResumed] = field(default_factory=list)
    trials: dict[int, OpenTrial] = field(default_factory=dict)
    workers: dict[int, OpenWorker] = field(default_factory=dict)
    work_log: WorkLog = field(default_factory=WorkLog)
    begun_worker: array[int] = field(default_factory=lambda: array("q"))
    """Of each attempt the worker that it was given."""
    begun_row: array[int] = field(default_factory=lambda: array("q"))
    """How many intervals the work log held when it was."""
    error_at: array[float] = field(default_factory=lambda: array("d"))
    error_trial: array[int] = field(default_factory=lambda: array("l"))
    error: array[float] = field(default_factory=lambda: array("d"))
    best: int | None = None
    """The trial with the best accuracy."""
    best_accuracy: float = -1.0
    requested: int = 0
    rejected: int = 0
    batch_reductions: int = 0
    rounds_asked: dict[int, int] = field(default_factory=dict)
    """Round of each proposal that is asked for and not made yet."""
    versions_changed: dict[str, None] = field(default_factory=dict)


def collect(events: Iterable[AnyEvent]) -> Collected:
    """Reads all events once. The first is RunStarted, as the journal guarantees."""
    rest = iter(events)
    started = next(rest)
    assert isinstance(started, RunStarted), "a journal begins with RunStarted"
    run = Collected(started)
    keep = run.work_log.take
    with folding(events):
        keep(started)
        for run.events, event in enumerate(rest, start=2):
            keep(event)
            # Most lines of most runs are Progress, and all that is to be known of it the work log keeps.
            if type(event) is not Progress:
                _take(run, event)
    return run


def _take(run: Collected, event: AnyEvent) -> None:
    match event:
        case EpochFinished():
            _epoch(run, event)
        case RunStarted():
            raise AssertionError("a journal begins once")
        case RunResumed():
            _resumed(run, event)
        case WorkerJoined():
            run.workers[event.worker] = OpenWorker(event)
        case WorkerLost():
            worker = run.workers[event.worker]
            worker.lost, worker.lost_reason = event.at, event.reason
            _lose_what_it_held(run, event.worker, event.at, event.reason)
        case ProposalRequested():
            run.requested += 1
            run.rounds_asked[event.number] = event.round
        case TrialProposed():
            parent = None if event.parent is None else run.trials.get(event.parent)
            generation = 1 if parent is None else parent.generation + 1
            round_ = run.rounds_asked.pop(event.number, 1)
            run.trials[event.number] = OpenTrial(event, round_, round_, generation, batch_size=event.batch_size)
        case TrialRejected():
            run.rejected += 1
            run.rounds_asked.pop(event.number, None)
        case TrialStarted():
            trial, worker = run.trials[event.trial], run.workers[event.worker]
            trial.worker, trial.attempts, trial.batch_size = event.worker, event.attempt, event.batch_size
            trial.round = trial.round if event.round is None else event.round
            trial.started = event.at if trial.started is None else trial.started
            trial.outcome, trial.ended = "training", None
            worker.trials += 1
            worker.trial = event.trial
            run.begun_worker.append(event.worker)
            run.begun_row.append(len(run.work_log.intervals))
        case TrialPrepared():
            run.trials[event.trial].precision = event.precision
        case BatchReduced():
            run.batch_reductions += 1
            run.trials[event.trial].batch_size = event.to_batch_size
        case TrialFinished():
            trial = run.trials[event.trial]
            trial.ended, trial.outcome = event.at, event.reason
            trial.told_accuracy = event.told_accuracy
        case TrialLost():
            trial = run.trials[event.trial]
            trial.ended, trial.outcome, trial.reason = event.at, "lost", event.reason
        case TrialFailed():
            trial = run.trials[event.trial]
            trial.ended, trial.outcome, trial.reason = event.at, "failed", event.reason
        case (
            Progress()
            | RunEnded()
            | CeilingMeasured()
            | CheckpointDropped()
            | CheckpointNotWritten()
            | CheckpointWritten()
            | ImagesSkipped()
            | TrialHeartbeat()
            | WorkerNotStarted()
            | HelperLost()
        ):
            pass  # the work log has an eye on these
        case _:
            assert_never(event)


def _epoch(run: Collected, event: EpochFinished) -> None:
    trial = run.trials[event.trial]
    # An epoch that a loss made worthless is done again: the later one stands, and is no second epoch.
    if event.epoch > trial.epochs:
        trial.epochs = event.epoch
    trial.validation_loss = event.validation_loss
    if not counts(run.started, event):
        return
    if trial.accuracy is None or event.accuracy > trial.accuracy:
        trial.accuracy = event.accuracy
        if event.accuracy > run.best_accuracy:
            run.best, run.best_accuracy = event.trial, event.accuracy
    run.error_at.append(event.at)
    run.error_trial.append(event.trial)
    run.error.append(1.0 - event.accuracy)


def _resumed(run: Collected, event: RunResumed) -> None:
    former: dict[str, Any] = run.resumes[-1].versions if run.resumes else run.started.versions
    for name in sorted({*former, *event.versions}):
        if former.get(name) != event.versions.get(name):
            run.versions_changed[name] = None
    run.resumes.append(event)
    # As in the work log: the killed driver's workers went with it, and their time ended with the last line before.
    for number, worker in run.workers.items():
        if worker.lost is None:
            worker.lost, worker.lost_reason = event.at - event.down_seconds, "the driver ended"
            _lose_what_it_held(run, number, worker.lost, worker.lost_reason)


def _lose_what_it_held(run: Collected, worker: int, at: float, reason: str) -> None:
    # No event of its own says so: a worker's loss is its trial's.
    held = run.workers[worker].trial
    if held is not None and run.trials[held].outcome == "training" and run.trials[held].worker == worker:
        trial = run.trials[held]
        trial.ended, trial.outcome, trial.reason = at, "lost", reason
