"""Changes of a run's state by events, in place: attempts, trials, workers, demand for proposals and kept checkpoints."""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from operator import add

from aiperf.journal import events
from aiperf.journal.legality import TrialState
from aiperf.rules.procedure import end_of_trial, judged_loss, nears_its_end
from aiperf.rules.state import NO_SUMS, Run, Trial, Worker
from searchers.history import PARENTS

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
    enter(run, trial, TrialState.RUNNING)
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
    trial.sums = NO_SUMS
    _begin_epoch(trial, event.epoch)
    worker.nears_end = _may_be_over_after_an_epoch(run, trial)
    update_demand(run, worker)


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
    trial.sums = tuple(map(add, trial.sums, events.clocks(work)))
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
        update_demand(run, worker)


def _may_be_over_after_an_epoch(run: Run, trial: Trial) -> bool:
    # The next trial of a list is known, so no request in advance is needed.
    return trial.follows is None and nears_its_end(run.schedule, trial.round, trial.losses)


def _begin_epoch(trial: Trial, epoch: int) -> None:
    trial.current_epoch = epoch
    trial.training_images = trial.validation_images = 0


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


def finished(run: Run, event: events.TrialFinished) -> None:
    trial = run.trials[event.trial]
    trial.reported_accuracy = event.reported_accuracy
    _free_worker(run, trial)
    settle(run, trial, TrialState.FINISHED)
    run.finished += 1
    run.highest_round = max(run.highest_round, trial.round)
    request_for_skipped_workers(run)
    keep_if_among_the_best(run, trial, event.reported_accuracy)


def failed(run: Run, event: events.TrialFailed) -> None:
    trial = run.trials[event.trial]
    if trial.state is TrialState.WAITING:
        _take_back(run, trial)
    _free_worker(run, trial)
    settle(run, trial, TrialState.FAILED)
    run.failed += 1
    if event.trial == run.start:
        run.start_failures += 1
        reset_start(run, event.trial)
    drop_if_idle(run, trial.number)


def lose(run: Run, number: int, event: events.TrialLost | events.WorkerLost | events.RunResumed) -> None:
    """`event`: the cause. The loss of the driver or of a released worker does not count as an attempt."""
    trial = run.trials[number]
    _free_worker(run, trial)
    # The loss of a driver or a released worker does not count against the trial.
    trial.losses_of_worker += isinstance(event, events.TrialLost) or (
        isinstance(event, events.WorkerLost) and event.cause != "released"
    )
    enter(run, trial, TrialState.LOST)


def settle(run: Run, trial: Trial, state: TrialState) -> None:
    enter(run, trial, state)
    run.settled += 1
    # 50,000 finished trials stay in memory, so the fields of a running trial are released.
    trial.losses, trial.accuracies = [], []
    child_settled(run, trial.parent)


def _free_worker(run: Run, trial: Trial) -> None:
    worker = None if trial.worker is None else run.workers.get(trial.worker)
    if worker is not None:
        worker.trial, worker.nears_end = None, False
        run.idle[worker.number] = None
        if worker.waiting:
            run.ready[worker.number] = None
        update_demand(run, worker)
    trial.worker = None


def _take_back(run: Run, trial: Trial) -> None:
    worker = run.workers[trial.made_for]
    worker.waiting.remove(trial.number)
    if not worker.waiting:
        run.ready.pop(worker.number, None)
    update_demand(run, worker)


def joined(run: Run, event: events.WorkerJoined) -> None:
    """Add an idle worker, which continues the round of a lost worker without a successor."""
    worker = Worker(event.worker, event.host, event.ranks, event.device, event.at, round=_taken_over(run, event.host))
    run.workers[event.worker] = worker
    run.next_worker = max(run.next_worker, event.worker + 1)
    run.idle[event.worker] = None
    update_demand(run, worker)


def removed(run: Run, number: int, event: events.WorkerLost | events.RunResumed) -> None:
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
        reset_start(run, request)
    for waiting in worker.waiting:
        reset_start(run, waiting)
        settle(run, run.trials[waiting], TrialState.WITHDRAWN)
    if worker.trial is not None:
        lose(run, worker.trial, event)


def _taken_over(run: Run, host: str) -> int:
    """Return the round of a worker lost on the same host, otherwise of the one lost first, otherwise 0."""
    if not run.absent:
        return 0
    predecessor = run.absent_on[host][0] if host in run.absent_on else next(iter(run.absent))
    where, round_ = run.absent.pop(predecessor)
    # The worker lost first is also the first one of its host.
    run.absent_on[where].popleft()
    if not run.absent_on[where]:
        del run.absent_on[where]
    return round_


def requested(run: Run, event: events.ProposalRequested) -> None:
    worker = run.workers[event.worker]
    run.requests[event.number] = event
    run.next_number = event.number + 1
    if event.starting_network:
        run.start = event.number
    worker.requested.add(event.number)
    update_demand(run, worker)


def rejected(run: Run, event: events.TrialRejected) -> None:
    request = run.requests.pop(event.number)
    reset_start(run, event.number)
    count_rejection(run, run.workers[request.worker], event.number)


def proposed(run: Run, event: events.TrialProposed) -> None:
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
    enter(run, trial, TrialState.WAITING)
    insort(worker.waiting, event.number)
    if worker.trial is None:
        run.ready[worker.number] = None
    worker.rejected_in_a_row = 0
    if worker.number in run.exhausted:
        del run.exhausted[worker.number]
        update_demand(run, worker)
    children_due(run, event)


def update_demand(run: Run, worker: Worker) -> None:
    """Put a worker into `run.with_demand`, or remove it."""
    if worker.number not in run.exhausted and any(run.short_of(worker)):
        run.with_demand[worker.number] = None
    else:
        run.with_demand.pop(worker.number, None)


def count_rejection(run: Run, worker: Worker, number: int) -> None:
    worker.requested.discard(number)
    worker.rejected_in_a_row += 1
    # The replay queue ends by itself, however many of its trials fail.
    if worker.rejected_in_a_row >= run.limits.rejections and run.started.follows is None:
        run.exhausted[worker.number] = None
    update_demand(run, worker)


def request_for_skipped_workers(run: Run) -> None:
    """A finished trial gives the search a new result: each skipped worker may request one more proposal."""
    while run.exhausted:  # there is a new parent, so each worker requests once more
        worker = run.workers[run.exhausted.popitem(last=False)[0]]
        worker.rejected_in_a_row = run.limits.rejections - 1
        update_demand(run, worker)
    if run.finished == 1:  # from now on each worker has spares
        for worker in run.workers.values():
            update_demand(run, worker)


def reset_start(run: Run, number: int) -> None:
    """Make the starting network due again if `number` was its current proposal."""
    if run.start == number:
        run.start = None


RETAINED = 2 * PARENTS
"""Number of kept checkpoints of trials that can grow. A proposal in progress may still name a parent that has just left the
best. In addition the best trial that cannot grow is kept."""


def keep_if_among_the_best(run: Run, trial: Trial, reported_accuracy: float) -> None:
    """Keep the checkpoint if it is among the RETAINED best that can grow, or the best that cannot."""
    if not trial.saved_epoch:
        return  # it has no checkpoint
    rank = (reported_accuracy, -trial.number)
    run.retained.add(trial.number)
    if trial.can_grow:
        heapq.heappush(run.best, rank)
        if len(run.best) > RETAINED:
            _release(run, heapq.heappop(run.best))
    else:
        before, run.best_full = run.best_full, rank if run.best_full is None else max(rank, run.best_full)
        if before is not None:
            _release(run, min(rank, before))


def children_due(run: Run, event: events.TrialProposed) -> None:
    """Count a trial as a child of its parent, whose checkpoint is kept until the child has ended."""
    parent = event.parent
    if parent is not None:
        run.children_due[parent] = run.children_due.get(parent, 0) + 1
        run.droppable.pop(parent, None)


def child_settled(run: Run, parent: int | None) -> None:
    """Count a child less. After the last one, the parent's checkpoint is marked for removal."""
    if parent not in run.children_due:
        return
    run.children_due[parent] -= 1
    if not run.children_due[parent]:
        del run.children_due[parent]
        if parent not in run.retained:
            drop_if_idle(run, parent)


def drop_if_idle(run: Run, number: int) -> None:
    if number not in run.children_due and run.trials[number].saved_epoch:
        run.droppable[number] = None


def dropped(run: Run, event: events.CheckpointDropped) -> None:
    """Waiting trials that would inherit from the checkpoint are added to `run.orphaned`: they will fail."""
    trial = run.trials[event.trial]
    trial.saved_epoch = 0
    run.droppable.pop(event.trial, None)
    if event.trial in run.children_due:  # its file is missing: the run drops no checkpoint that a child needs
        for worker in run.workers.values():
            for waiting in worker.waiting:
                if run.trials[waiting].parent == event.trial:
                    run.orphaned[waiting] = None


def _release(run: Run, rank: tuple[float, int]) -> None:
    number = -rank[1]
    run.retained.discard(number)
    drop_if_idle(run, number)
