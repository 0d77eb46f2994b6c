"""Changes of the state of a trial, and their effects."""

from __future__ import annotations

from aiperf.journal.events import RunResumed, TrialFailed, TrialFinished, TrialLost, WorkerLost
from aiperf.journal.legality import TrialState
from aiperf.rules.changes import checkpoints, proposal_demand
from aiperf.rules.procedure import end_of_trial
from aiperf.rules.state import Run, Trial


def enter(run: Run, trial: Trial, state: TrialState) -> None:
    """Set the state of a trial, and move it between the sets of the run. No other function changes the state."""
    number = trial.number
    match trial.state:
        case TrialState.WAITING:
            run.orphaned.pop(number, None)
        case TrialState.RUNNING:
            del run.running[number]
        case TrialState.LOST:
            run.lost.pop(number, None)
            run.ending.pop(number, None)
        case _:
            pass
    trial.state = state
    if state is TrialState.RUNNING:
        run.running[number] = None
    elif state is TrialState.LOST:
        # Sorted here once: after a loss of all workers thousands of trials wait for many decisions.
        is_over = end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs) is not None
        (run.ending if is_over or trial.losses_of_worker >= run.limits.attempts else run.lost)[number] = None


def finished(run: Run, event: TrialFinished) -> None:
    trial = run.trials[event.trial]
    trial.reported_accuracy = event.reported_accuracy
    _free_worker(run, trial)
    settle(run, trial, TrialState.FINISHED)
    run.finished += 1
    run.highest_round = max(run.highest_round, trial.round)
    proposal_demand.request_for_skipped_workers(run)
    checkpoints.keep_if_among_the_best(run, trial, event.reported_accuracy)


def failed(run: Run, event: TrialFailed) -> None:
    trial = run.trials[event.trial]
    if trial.state is TrialState.WAITING:
        _take_back(run, trial)
    _free_worker(run, trial)
    settle(run, trial, TrialState.FAILED)
    run.failed += 1
    if trial.follows is not None:
        run.children_due.pop(trial.number, None)  # none of its children can be trained
    if event.trial == run.start:
        run.start_failures += 1
        proposal_demand.reset_start(run, event.trial)
    checkpoints.drop_if_idle(run, trial.number)


def lose(run: Run, number: int, event: TrialLost | WorkerLost | RunResumed) -> None:
    """`event`: the cause. The loss of the driver or of a released worker does not count as an attempt."""
    trial = run.trials[number]
    _free_worker(run, trial)
    # The loss of a driver or a released worker does not count against the trial.
    trial.losses_of_worker += isinstance(event, TrialLost) or (
        isinstance(event, WorkerLost) and event.cause != "released"
    )
    enter(run, trial, TrialState.LOST)


def settle(run: Run, trial: Trial, state: TrialState) -> None:
    """Move a trial to its final state.

    The parent keeps a withdrawn child of a run that follows another: such a trial is trained later.
    """
    enter(run, trial, state)
    run.settled += 1
    # 50,000 finished trials stay in memory, so the fields of a running trial are released.
    trial.losses, trial.accuracies = [], []
    if trial.follows is None or state is not TrialState.WITHDRAWN:  # a withdrawn followed trial is trained again later
        checkpoints.child_settled(run, trial.parent)


def _free_worker(run: Run, trial: Trial) -> None:
    worker = None if trial.worker is None else run.workers.get(trial.worker)
    if worker is not None:
        worker.trial, worker.nears_end = None, False
        run.idle[worker.number] = None
        if worker.waiting:
            run.ready[worker.number] = None
        proposal_demand.update(run, worker)
    trial.worker = None


def _take_back(run: Run, trial: Trial) -> None:
    worker = run.workers[trial.made_for]
    worker.waiting.remove(trial.number)
    if not worker.waiting:
        run.ready.pop(worker.number, None)
    proposal_demand.update(run, worker)
