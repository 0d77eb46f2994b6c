"""Changes of a run's state by an attempt: start, work, epochs and messages."""

from __future__ import annotations

from aiperf.journal import events
from aiperf.journal.legality import TrialState
from aiperf.rules.changes import proposal_demand, transitions
from aiperf.rules.procedure import judged_loss, nears_its_end
from aiperf.rules.state import Run, Trial

FromAttempt = (
    events.TrialPrepared
    | events.BatchReduced
    | events.Progress
    | events.EpochFinished
    | events.CheckpointWritten
    | events.CheckpointNotWritten
    | events.TrialHeartbeat
    | events.StepsProfiled
)
"""Events of a running attempt, which prove that its worker is alive."""


def started(run: Run, event: events.TrialStarted) -> None:
    """Losses and accuracies that an earlier attempt reported for its first and later epochs are removed."""
    trial, worker = run.trials[event.trial], run.workers[event.worker]
    if trial.state is TrialState.WAITING:
        trial.round = event.round
        worker.round = trial.round
        worker.waiting.remove(event.trial)
    transitions.enter(run, trial, TrialState.RUNNING)
    del run.idle[event.worker]
    run.ready.pop(event.worker, None)
    worker.trial = event.trial
    trial.worker = event.worker
    trial.attempt = event.attempt
    trial.last_message = trial.interval_end = event.at
    trial.is_prepared = trial.has_worked = False
    trial.epoch, trial.unsaved_epoch = event.epoch - 1, 0
    del trial.losses[trial.epoch :], trial.accuracies[trial.epoch :]
    trial.best_accuracy = max(trial.accuracies, default=0.0)
    trial.sums = (0.0, 0.0, 0.0, 0.0, 0.0)
    _begin_epoch(trial, event.epoch)
    worker.nears_end = _may_be_over_after_an_epoch(run, trial)
    proposal_demand.update(run, worker)


def received(run: Run, event: FromAttempt) -> Trial:
    trial = run.trials[event.trial]
    trial.last_message = event.at
    run.running.move_to_end(event.trial)
    return trial


def prepared(run: Run, event: events.TrialPrepared) -> None:
    trial = received(run, event)
    trial.is_prepared = True
    if not trial.has_worked:
        trial.interval_end = event.at


def batch_reduced(run: Run, event: events.BatchReduced) -> None:
    trial = received(run, event)
    trial.batch_size = event.to_batch_size
    _begin_epoch(trial, trial.current_epoch)


def worked(run: Run, event: events.Progress) -> None:
    _add(received(run, event), event.epoch, event)


def _add(trial: Trial, epoch: int, work: events.Work) -> None:
    if epoch != trial.current_epoch:
        _begin_epoch(trial, epoch)
    trial.training_images += work.training_images
    trial.validation_images += work.validation_images
    busy, communication, validation, input_, checkpoint = trial.sums
    trial.sums = (
        busy + work.busy_seconds,
        communication + work.communication_seconds,
        validation + work.validation_seconds,
        input_ + work.input_seconds,
        checkpoint + work.checkpoint_seconds,
    )
    trial.interval_end, trial.has_worked = work.end, True


def epoch_finished(run: Run, event: events.EpochFinished) -> None:
    trial, epoch, accuracy = received(run, event), event.epoch, event.accuracy
    if event.interval is not None:
        _add(trial, epoch, event.interval)
    trial.epoch = epoch
    trial.losses.append(judged_loss(event.validation_loss, event.training_loss))
    trial.accuracies.append(accuracy)
    if accuracy > trial.best_accuracy:
        trial.best_accuracy = accuracy
    if event.checkpoint:
        trial.saved_epoch = epoch
    if run.best_accuracy is None or accuracy > run.best_accuracy:
        run.best_accuracy = accuracy
    _begin_epoch(trial, epoch + 1)
    assert trial.worker is not None, "a trial that finishes an epoch has a worker"
    worker, nears_end = run.workers[trial.worker], _may_be_over_after_an_epoch(run, trial)
    if nears_end != worker.nears_end:  # nothing else of an epoch changes its worker's demand
        worker.nears_end = nears_end
        proposal_demand.update(run, worker)


def _may_be_over_after_an_epoch(run: Run, trial: Trial) -> bool:
    # The next trial of a followed run is known, so no request in advance is needed.
    return trial.follows is None and nears_its_end(run.schedule, trial.round, trial.losses)


def _begin_epoch(trial: Trial, epoch: int) -> None:
    trial.current_epoch = epoch
    trial.training_images = trial.validation_images = 0
