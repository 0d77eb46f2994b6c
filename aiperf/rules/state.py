"""The state of a run, as a fold of its journal.

`evolve` takes one event in. It works in place, at a cost that depends neither on how many workers there are nor on how long the
run has been: nobody but the folder of events holds a Run while it changes. What decide needs to look at (idle workers, hungry
ones, lost trials, droppable checkpoints) is kept up to date here, so that deciding scans nothing.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, assert_never

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
    Work,
    WorkerJoined,
    WorkerLost,
    WorkerNotStarted,
)
from aiperf.rules.limits import LimitsConf, ScheduleConf, limits_of, schedule_of
from aiperf.rules.procedure import end_of_trial, nears_its_end
from aiperf.rules.trial import FITS, REMEDY, EventRefused, Stories, Trial, TrialState, number_of, refusal
from searchers.history import PARENTS

RETAINED = 2 * PARENTS
"""Checkpoints kept of trials that can grow: a proposal under way may still name a parent that has just left the best. Besides
them that of the best trial that cannot grow is kept."""


@dataclass(slots=True)
class Worker:
    """One placement of accelerators; a worker that comes back after a loss has a new number."""

    number: int
    host: str
    ranks: int
    device: str
    joined: float
    round: int = 0
    """Trials it has started, attempts not counted anew."""
    trial: int | None = None
    nears_end: bool = False
    """Whether the trial that it trains may be over after the epoch in progress."""
    waiting: list[int] = field(default_factory=list)
    """Proposals made for it, in the order in which they were asked for, whatever order they came in."""
    requested: set[int] = field(default_factory=set)
    rejected_in_a_row: int = 0
    """Of its requests, since the last of which something came."""


@dataclass(slots=True)
class Run:
    """All that decide may look at. Made by RunStarted, changed by evolve alone."""

    started: RunStarted
    limits: LimitsConf
    schedule: ScheduleConf
    lines: int = 0
    at: float = 0.0
    ended: str | None = None
    workers: dict[int, Worker] = field(default_factory=dict)
    """Those present."""
    trials: dict[int, Trial] = field(default_factory=dict)
    requests: dict[int, ProposalRequested] = field(default_factory=dict)
    next_number: int = 0
    next_worker: int = 0
    departed: set[int] = field(default_factory=set)
    """Workers that are gone: a late word that one of them is up raises nobody from the dead."""
    idle: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Workers without a trial, longest idle first."""
    ready: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Idle workers for which a proposal waits."""
    hungry: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Workers that are short of proposals and may be asked."""
    lost: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials to be tried again, longest lost first."""
    ending: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Lost trials that are not to be tried again: given up, or lost after their last epoch."""
    running: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials being trained, longest silent first."""
    droppable: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials whose checkpoints nobody will inherit from."""
    orphaned: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials that wait for a worker, and whose parents' weights are gone."""
    absent: OrderedDict[int, tuple[str, int]] = field(default_factory=OrderedDict)
    """Host and round of the workers that are gone without a successor, longest gone first: those that join go on with them."""
    absent_on: dict[str, deque[int]] = field(default_factory=dict)
    """The same by host."""
    children_due: dict[int, int] = field(default_factory=dict)
    """How many unsettled trials still may need a parent's weights."""
    best: list[tuple[float, int]] = field(default_factory=list)
    """Heap of (told accuracy, −number) of the retained that can grow: parents are chosen among them."""
    best_full: tuple[float, int] | None = None
    """The same of the best that cannot grow: nobody will inherit from it, but it may be what the run found."""
    retained: set[int] = field(default_factory=set)
    start: int | None = None
    """The proposal of the starting network that is requested, waits, is trained or has finished; None: there is none."""
    start_failures: int = 0
    """Trials of the starting network that were given up."""
    exhausted: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Workers of whose requests so many in a row came to nothing as the limit says: they are asked no more, until a trial that
    finishes gives the search something to go on."""
    finished: int = 0
    failed: int = 0
    highest_round: int = 0
    ceiling: int | None = None
    best_accuracy: float | None = None
    corrupt: set[str] = field(default_factory=set)
    """Names of the images that were skipped since the run began or was resumed: files may be mended in between."""
    stories: Stories = field(default_factory=Stories)
    """How each trial came to its state."""

    @property
    def duration(self) -> float:
        """Seconds from the run's beginning to its declared end."""
        return self.started.duration_seconds

    @property
    def most_corrupt_images(self) -> int | None:
        """With more of them the run ends; None: the data set does not lie in files."""
        most: int | None = self.started.config.get("dataset", {}).get("corrupt_limit")
        return most

    @property
    def start_is_due(self) -> bool:
        """Whether the next request is to be for the starting network: it is trained to its end, or given up as often as any
        trial is attempted."""
        return self.start is None and self.start_failures < self.limits.attempts

    def short_of(self, worker: Worker) -> tuple[int, int]:
        """How many proposals are to be asked for, as it stands: (for its next trial, as spares).

        One for the next trial where it trains none, or one that may be over after the epoch in progress; besides, as many
        spares as the limits say, once a trial of the run has finished: before that there is nothing to propose by.
        """
        is_due = worker.trial is None or worker.nears_end
        held = len(worker.requested) + len(worker.waiting)
        missing = max(0, is_due + (self.limits.spares if self.finished else 0) - held)
        due = min(missing, int(is_due))
        return due, missing - due

    def next_of(self, worker: Worker) -> int:
        """Which of the proposals that wait for a worker it is to train: the starting network, else the one asked for last,
        which knows most."""
        return self.start if self.start is not None and self.start in worker.waiting else worker.waiting[-1]

    def lineage(self, number: int | None) -> tuple[dict[str, Any], ...]:
        """All morphs from the starting graph to a trial's graph."""
        morphs: list[dict[str, Any]] = []
        while number is not None:
            trial = self.trials[number]
            morphs[:0] = trial.morphs
            number = trial.parent
        return tuple(morphs)


def replay(events: Iterable[AnyEvent]) -> Run:
    """The state after a journal's events."""
    iterator = iter(events)
    first = next(iterator, None)
    assert isinstance(first, RunStarted), "the journal's reader has checked that it begins with RunStarted"
    run = begin(first)
    for event in iterator:
        evolve(run, event)
    return run


def begin(event: RunStarted) -> Run:
    """The state after the first line."""
    return Run(started=event, limits=limits_of(event), schedule=schedule_of(event), lines=1)


def evolve(run: Run, event: AnyEvent) -> None:
    """Takes one event in.

    Raises:
        EventRefused: it does not fit the state of its trial or of its worker. The run is as it was.
    """
    check_that_it_fits(run, event)
    run.lines += 1
    run.at = max(run.at, event.at)
    match event:
        case Progress():
            _worked(run, event, event)
        case EpochFinished():
            _epoch_finished(run, event)
        case ProposalRequested():
            worker = run.workers[event.worker]
            run.requests[event.number] = event
            run.next_number = event.number + 1
            if event.wants_start:
                run.start = event.number
            worker.requested.add(event.number)
            run.stories.add(event.number, TrialState.REQUESTED, run.lines, event)
            _look_whether_hungry(run, worker)
        case TrialProposed():
            _proposed(run, event)
        case TrialRejected():
            request = run.requests.pop(event.number)
            run.stories.add(event.number, TrialState.REJECTED, run.lines, event)
            _miss_start(run, event.number)
            _came_to_nothing(run, run.workers[request.worker], event.number)
        case TrialStarted():
            _started(run, event)
        case TrialPrepared():
            trial = run.trials[event.trial]
            trial.is_prepared, trial.last_word = True, event.at
            if not trial.has_worked:
                trial.interval_end = event.at
            run.running.move_to_end(event.trial)
        case BatchReduced():
            trial = run.trials[event.trial]
            trial.batch_size = event.to_batch_size
            trial.last_word = event.at
            _begin_epoch(trial, trial.current_epoch)
            run.running.move_to_end(event.trial)
        case TrialFinished():
            _finished(run, event)
        case TrialLost():
            _lose(run, event.trial, event)
        case TrialFailed():
            _failed(run, event)
        case WorkerJoined():
            _joined(run, event)
        case WorkerLost():
            _worker_gone(run, event.worker, event)
        case WorkerNotStarted() | HelperLost():
            pass  # it is for readers alone
        case CeilingMeasured():
            run.ceiling = event.batch_size if run.ceiling is None else min(run.ceiling, event.batch_size)
        case CheckpointDropped():
            _dropped(run, event)
        case CheckpointWritten():
            trial = run.trials[event.trial]
            trial.last_word, trial.saved_epoch = event.at, event.epoch
            run.running.move_to_end(event.trial)
        case CheckpointNotWritten():
            trial = run.trials[event.trial]
            trial.last_word, trial.unsaved_epoch = event.at, event.epoch
            run.running.move_to_end(event.trial)
        case TrialHeartbeat():
            run.trials[event.trial].last_word = event.at
            run.running.move_to_end(event.trial)
        case ImagesSkipped():
            run.corrupt.update(event.files)
        case RunResumed():
            run.ended = None
            run.corrupt.clear()
            for present in list(run.workers):
                _worker_gone(run, present, event)
        case RunEnded():
            run.ended = event.reason
        case RunStarted():
            raise AssertionError("it was refused before")
        case _:
            assert_never(event)


def check_that_it_fits(run: Run, event: AnyEvent) -> None:
    """Raises EventRefused for an event that does not fit the state of its trial or of its worker."""
    if isinstance(event, Progress):  # nearly all events
        trial = run.trials.get(event.trial)
        if trial is None or trial.state is not TrialState.RUNNING:
            raise refusal(event, run.lines + 1, run.stories)
        return
    fitting = FITS.get(type(event))
    if fitting is not None and _state_of(run, event) not in fitting:
        raise refusal(event, run.lines + 1, run.stories)
    match event:
        case ProposalRequested() | WorkerLost():
            if event.worker not in run.workers:
                raise _misfit(run, event, "is of a worker that is present", f"worker {event.worker!r}, which is not")
        case WorkerJoined():
            if event.worker in run.workers or event.worker in run.departed:
                raise _misfit(run, event, "gives a worker a number of its own", f"worker {event.worker!r} once more")
        case TrialProposed():
            if event.parent is not None and event.parent not in run.trials:
                raise _misfit(run, event, "names a parent that was proposed", f"trial {event.parent!r} as one")
        case TrialStarted():
            trial = run.trials[event.trial]
            if event.worker not in run.idle:
                raise _misfit(
                    run, event, "is of a worker that trains nothing", f"worker {event.worker!r}, not such a one"
                )
            if trial.state is TrialState.WAITING and event.worker != trial.made_for:
                raise _misfit(run, event, f"is first tried on worker {trial.made_for}", f"worker {event.worker!r}")
            if event.attempt != trial.attempt + 1:
                raise _misfit(run, event, f"begins attempt {trial.attempt + 1}", f"attempt {event.attempt!r}")
        case RunStarted():
            raise _misfit(run, event, "is the first line", "it once more")
        case _:
            pass


def _misfit(run: Run, event: AnyEvent, law: str, offence: str) -> EventRefused:
    story = f" of trial {event.trial} ({run.stories.told(event.trial)})" if isinstance(event, TrialStarted) else ""
    return EventRefused(f"{type(event).__name__}{story} {law}; line {run.lines + 1} has {offence}. {REMEDY}")


def _state_of(run: Run, event: AnyEvent) -> TrialState | None:
    """Of the trial that an event of FITS is about; None: its number was never heard of."""
    number = number_of(event)
    trial = run.trials.get(number)
    if trial is not None:
        return trial.state
    if number in run.requests:
        return TrialState.REQUESTED
    return TrialState.REJECTED if 0 <= number < run.next_number else None


def enter(run: Run, trial: Trial, state: TrialState, event: AnyEvent) -> None:
    """The one place where a trial's state changes, and with it the ordered sets of those that decide looks at."""
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
        # Sorted out here, once: after a loss of all workers thousands of trials wait for many turns.
        is_over = end_of_trial(run.schedule, trial.round, trial.losses) is not None
        (run.ending if is_over or trial.losses_of_worker >= run.limits.attempts else run.lost)[number] = None
    run.stories.add(number, state, run.lines, event)


def _joined(run: Run, event: WorkerJoined) -> None:
    worker = Worker(event.worker, event.host, event.ranks, event.device, event.at, round=_taken_over(run, event.host))
    run.workers[event.worker] = worker
    run.next_worker = max(run.next_worker, event.worker + 1)
    run.idle[event.worker] = None
    _look_whether_hungry(run, worker)


def _taken_over(run: Run, host: str) -> int:
    """The round that a worker goes on with: that of one that was lost on its host, else of the one that is gone longest (its
    host may have come back under another name), else 0."""
    if not run.absent:
        return 0
    predecessor = run.absent_on[host][0] if host in run.absent_on else next(iter(run.absent))
    where, round_ = run.absent.pop(predecessor)
    # The longest gone of all is the longest gone of its host, too.
    run.absent_on[where].popleft()
    if not run.absent_on[where]:
        del run.absent_on[where]
    return round_


def _worker_gone(run: Run, number: int, event: WorkerLost | RunResumed) -> None:
    worker = run.workers.pop(number)
    run.idle.pop(number, None)
    run.ready.pop(number, None)
    run.hungry.pop(number, None)
    run.exhausted.pop(number, None)
    run.departed.add(number)
    if worker.round:
        run.absent[number] = (worker.host, worker.round)
        run.absent_on.setdefault(worker.host, deque()).append(number)
    for request in worker.requested:
        # A late answer finds no request and changes nothing.
        del run.requests[request]
        run.stories.add(request, TrialState.WITHDRAWN, run.lines, event)
        _miss_start(run, request)
    for waiting in worker.waiting:
        _miss_start(run, waiting)
        _settle(run, run.trials[waiting], TrialState.WITHDRAWN, event)
    if worker.trial is not None:
        _lose(run, worker.trial, event)


def _miss_start(run: Run, number: int) -> None:
    """A proposal or trial comes to nothing: if it was that of the starting network, another is due."""
    if run.start == number:
        run.start = None


def _proposed(run: Run, event: TrialProposed) -> None:
    request = run.requests.pop(event.number)
    worker = run.workers[request.worker]
    worker.requested.discard(event.number)
    trial = run.trials[event.number] = Trial(
        event.number, request.round, worker.number, event.parent, event.morphs, event.batch_size, event.can_grow
    )
    enter(run, trial, TrialState.WAITING, event)
    insort(worker.waiting, event.number)
    if worker.trial is None:
        run.ready[worker.number] = None
    worker.rejected_in_a_row = 0
    if worker.number in run.exhausted:
        del run.exhausted[worker.number]
        _look_whether_hungry(run, worker)
    if event.parent is not None:
        run.children_due[event.parent] = run.children_due.get(event.parent, 0) + 1
        run.droppable.pop(event.parent, None)


def _came_to_nothing(run: Run, worker: Worker, number: int) -> None:
    """A request of a worker that is present was rejected: another is made, unless too many in a row were."""
    worker.requested.discard(number)
    worker.rejected_in_a_row += 1
    if worker.rejected_in_a_row >= run.limits.rejections:
        run.exhausted[worker.number] = None
    _look_whether_hungry(run, worker)


def _look_whether_hungry(run: Run, worker: Worker) -> None:
    """Proposals are to be made for it, if it is short of them and the search is not at its end."""
    if worker.number not in run.exhausted and any(run.short_of(worker)):
        run.hungry[worker.number] = None
    else:
        run.hungry.pop(worker.number, None)


def _started(run: Run, event: TrialStarted) -> None:
    trial, worker = run.trials[event.trial], run.workers[event.worker]
    if trial.state is TrialState.WAITING:
        if event.round is not None:
            trial.round = event.round
        worker.round = trial.round
        worker.waiting.remove(event.trial)
    enter(run, trial, TrialState.RUNNING, event)
    del run.idle[event.worker]
    run.ready.pop(event.worker, None)
    worker.trial = event.trial
    trial.worker = event.worker
    trial.attempt = event.attempt
    trial.last_word = trial.interval_end = event.at
    trial.is_prepared = trial.has_worked = False
    trial.epoch, trial.unsaved_epoch = event.epoch - 1, 0
    del trial.losses[trial.epoch :], trial.accuracies[trial.epoch :]
    trial.best_accuracy = max(trial.accuracies, default=0.0)
    trial.sums = (0.0, 0.0, 0.0, 0.0, 0.0)
    _begin_epoch(trial, event.epoch)
    _look_whether_it_nears_its_end(run, worker, trial)


def _look_whether_it_nears_its_end(run: Run, worker: Worker, trial: Trial) -> None:
    worker.nears_end = nears_its_end(run.schedule, trial.round, trial.losses)
    _look_whether_hungry(run, worker)


def _begin_epoch(trial: Trial, epoch: int) -> None:
    trial.current_epoch = epoch
    trial.training_images = trial.validation_images = 0


def _worked(run: Run, event: Progress | EpochFinished, work: Work) -> None:
    trial = run.trials[event.trial]
    if event.epoch != trial.current_epoch:
        _begin_epoch(trial, event.epoch)
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
    trial.last_word = event.at
    run.running.move_to_end(event.trial)


def _epoch_finished(run: Run, event: EpochFinished) -> None:
    if event.interval is not None:
        _worked(run, event, event.interval)
    trial = run.trials[event.trial]
    trial.epoch = event.epoch
    trial.losses.append(event.validation_loss)
    trial.accuracies.append(event.accuracy)
    trial.best_accuracy = max(trial.best_accuracy, event.accuracy)
    if event.checkpoint:
        trial.saved_epoch = event.epoch
    trial.last_word = event.at
    run.running.move_to_end(event.trial)
    run.best_accuracy = event.accuracy if run.best_accuracy is None else max(run.best_accuracy, event.accuracy)
    _begin_epoch(trial, event.epoch + 1)
    assert trial.worker is not None, "a trial that finishes an epoch has a worker"
    _look_whether_it_nears_its_end(run, run.workers[trial.worker], trial)


def _finished(run: Run, event: TrialFinished) -> None:
    trial = run.trials[event.trial]
    trial.told_accuracy = event.told_accuracy
    _free_worker(run, trial)
    _settle(run, trial, TrialState.FINISHED, event)
    run.finished += 1
    run.highest_round = max(run.highest_round, trial.round)
    while run.exhausted:  # there is a new parent: each asks once more
        worker = run.workers[run.exhausted.popitem(last=False)[0]]
        worker.rejected_in_a_row = run.limits.rejections - 1
        _look_whether_hungry(run, worker)
    if run.finished == 1:  # from now on each has spares
        for worker in run.workers.values():
            _look_whether_hungry(run, worker)
    if not trial.saved_epoch:
        return  # there is nothing of it to be kept
    rank = (event.told_accuracy, -trial.number)
    run.retained.add(trial.number)
    if trial.can_grow:
        heapq.heappush(run.best, rank)
        if len(run.best) > RETAINED:
            _release(run, heapq.heappop(run.best))
    else:
        before, run.best_full = run.best_full, rank if run.best_full is None else max(rank, run.best_full)
        if before is not None:
            _release(run, min(rank, before))


def _release(run: Run, rank: tuple[float, int]) -> None:
    """A finished trial's weights are to be kept no longer than its children need them."""
    number = -rank[1]
    run.retained.discard(number)
    _drop_if_idle(run, number)


def _failed(run: Run, event: TrialFailed) -> None:
    trial = run.trials[event.trial]
    if trial.state is TrialState.WAITING:
        _take_back(run, trial)
    _free_worker(run, trial)
    _settle(run, trial, TrialState.FAILED, event)
    run.failed += 1
    if event.trial == run.start:
        run.start_failures += 1
        _miss_start(run, event.trial)
    _drop_if_idle(run, trial.number)


def _take_back(run: Run, trial: Trial) -> None:
    """A trial is given up that waits for its worker."""
    worker = run.workers[trial.made_for]
    worker.waiting.remove(trial.number)
    if not worker.waiting:
        run.ready.pop(worker.number, None)
    _look_whether_hungry(run, worker)


def _lose(run: Run, number: int, event: TrialLost | WorkerLost | RunResumed) -> None:
    trial = run.trials[number]
    _free_worker(run, trial)
    # What a killed driver took along, or a worker that was let go, is not held against the trial.
    trial.losses_of_worker += isinstance(event, TrialLost) or (isinstance(event, WorkerLost) and not event.released)
    enter(run, trial, TrialState.LOST, event)


def _free_worker(run: Run, trial: Trial) -> None:
    worker = None if trial.worker is None else run.workers.get(trial.worker)
    if worker is not None:
        worker.trial, worker.nears_end = None, False
        run.idle[worker.number] = None
        if worker.waiting:
            run.ready[worker.number] = None
        _look_whether_hungry(run, worker)
    trial.worker = None


def _settle(run: Run, trial: Trial, state: TrialState, event: AnyEvent) -> None:
    enter(run, trial, state, event)
    # 50,000 finished trials stay in memory: what only a running one needs goes.
    trial.losses, trial.accuracies = [], []
    parent = trial.parent
    if parent is None:
        return
    run.children_due[parent] -= 1
    if not run.children_due[parent]:
        del run.children_due[parent]
        if parent not in run.retained:
            _drop_if_idle(run, parent)


def _drop_if_idle(run: Run, number: int) -> None:
    if number not in run.children_due and run.trials[number].saved_epoch:
        run.droppable[number] = None


def _dropped(run: Run, event: CheckpointDropped) -> None:
    trial = run.trials[event.trial]
    trial.saved_epoch = 0
    run.droppable.pop(event.trial, None)
    if event.trial in run.children_due:  # its file has vanished: the run itself drops none that is needed
        for worker in run.workers.values():
            for waiting in worker.waiting:
                if run.trials[waiting].parent == event.trial:
                    run.orphaned[waiting] = None
