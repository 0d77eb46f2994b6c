"""Auditor's model of a run, built from its journal event by event, with the laws for each event.

It shares no code with evolve, decide and interpret, so that a mistake there is not repeated here.
"""

from __future__ import annotations

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
    NodeChecked,
    Progress,
    ProposalRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    ScorePredicted,
    StepsProfiled,
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
from tests.audit.laws import (
    CEILING,
    DIFFERENT,
    DUE,
    ENDS,
    LIMITS,
    LOST,
    NEWEST,
    ONCE,
    ONE_TRIAL,
    PRESENT,
    REPLAY,
    ROUNDS,
    SCORE,
    START,
    TIME,
    WEIGHTS,
    BrokenLaw,
)
from tests.audit.shadow_trial import ShadowTrial
from tests.audit.true_work import TrueWork


@dataclass(slots=True)
class Trial:
    """Proposal and its progress."""

    number: int
    round: int
    """Round of its request. From its first attempt on: round of its worker."""
    made_for: int
    """Worker of the request."""
    is_start: bool
    """True if the starting network was requested."""
    parent: int | None
    shadow_trial: ShadowTrial
    state: str = "waiting"
    """waiting, running, lost, withdrawn, finished, failed"""
    worker: int | None = None
    attempt: int = 0
    ranks: int = 1
    """Ranks of its attempt: its worker's until the attempt is prepared and reports its own."""
    losses: int = 0
    """Attempts that ended early, alone or with the worker."""
    epochs: int | None = None
    """Epochs of the followed trial. None if it follows none."""


@dataclass(slots=True)
class Worker:
    """Worker that is present."""

    rounds: int
    """Rounds that it has started."""
    host: str
    ranks: int
    trial: int | None = None
    interval_end: float = 0.0
    waiting: set[int] = field(default_factory=set)
    requested: set[int] = field(default_factory=set)
    vain: int = 0
    """Consecutive rejected requests. Reduced to one below the limit when a trial finishes."""


@dataclass(slots=True)
class ShadowModel:
    """Fold of a journal. Call `take` with each event. It raises BrokenLaw at the first event that breaks a law."""

    true_work: TrueWork
    line: int = 0
    at: float = 0.0
    started: RunStarted | None = None
    ended: RunEnded | None = None
    attempts: int = 0
    """Limit of attempts that may end with their worker."""
    spares: int = 0
    """Spare proposals of each worker once a trial has finished."""
    trials_to_finish: int | None = None
    """`limits.trials`. None: no limit."""
    silence: float = 0.0
    rejections: int = 0
    """Consecutive rejected requests of a worker after which it is skipped."""
    workers: dict[int, Worker] = field(default_factory=dict)
    """Present workers."""
    seen: set[int] = field(default_factory=set)
    """Numbers of all workers so far."""
    trials: dict[int, Trial] = field(default_factory=dict)
    requests: dict[int, ProposalRequested] = field(default_factory=dict)
    descent: list[tuple[int, int]] = field(default_factory=list)
    """(round, round of its parent) of every proposal with a parent, in order."""
    _trials_of: dict[str, list[int]] = field(default_factory=dict)
    """Trials by fingerprint."""
    _ceilings: list[tuple[int, int]] = field(default_factory=list)
    """(line, batch size) of each ceiling that is smaller than all before it."""
    _away: list[tuple[str, int]] = field(default_factory=list)
    """(host, rounds started) of lost workers without a successor, in the order of their loss."""
    _next_number: int = 0
    _has_finished: bool = False
    """True if a trial has finished. From then on workers have spares."""
    _schedule: dict[str, Any] = field(default_factory=dict)

    def take(self, event: AnyEvent) -> None:
        """Take the next line."""
        self.line += 1
        if event.at < self.at:
            raise BrokenLaw(TIME, f"line {self.line} is of {event.at!r} s, the one before it of {self.at!r} s")
        self._take(event)
        self.at = event.at

    def _take(self, event: AnyEvent) -> None:
        if self.ended is not None and not (isinstance(event, RunResumed) and self.ended.reason == "interrupted"):
            raise BrokenLaw(ENDS, f"{type(event).__name__} came after the end")
        match event:
            case RunStarted():
                self._begun(event)
            case RunResumed():
                self._resumed(event)
            case WorkerJoined():
                self._joined(event)
            case WorkerLost():
                if event.worker not in self.workers:
                    raise BrokenLaw(PRESENT, f"worker {event.worker} was lost, and was not there")
                self._remove_worker(event.worker, counts=event.cause != "released")
            case ProposalRequested():
                self._requested(event)
            case TrialProposed():
                self._proposed(event)
            case TrialRejected():
                self.workers[self._answered(event.number).worker].vain += 1
            case TrialStarted():
                self._started(event)
            case TrialPrepared():
                prepared = self._current(event.trial, event.attempt)
                prepared.ranks = event.ranks
                self._count_epoch(prepared)
            case Progress():
                self._worked(event, event)
            case EpochFinished():
                trial = self._current(event.trial, event.attempt)
                if event.interval is not None:
                    self._worked(event, event.interval)
                trial.shadow_trial.end_epoch(event)
            case BatchReduced():
                reduced = self._current(event.trial, event.attempt)
                reduced.shadow_trial.restart_epoch(event)
                self._count_epoch(reduced)
            case TrialFinished():
                self._finished(event)
            case TrialLost():
                trial = self._current(event.trial, event.attempt)
                self._lose(trial, counts=True)
            case TrialFailed():
                self._failed(event)
            case CheckpointDropped():
                self._known(event.trial).shadow_trial.saved = 0
            case CheckpointWritten():
                self._current(event.trial, event.attempt).shadow_trial.saved = event.epoch
            case CheckpointNotWritten():
                self._current(event.trial, event.attempt)
            case TrialHeartbeat() | StepsProfiled():
                self._current(event.trial, event.attempt)
            case ImagesSkipped():
                if event.worker not in self.seen:
                    raise BrokenLaw(PRESENT, f"worker {event.worker} met corrupt images, and was never there")
            case RunEnded():
                self.ended = event
            case CeilingMeasured():
                if not self._ceilings or event.batch_size < self._ceilings[-1][1]:
                    self._ceilings.append((self.line, event.batch_size))
            case NodeChecked() | ScorePredicted():
                pass  # no effect on the work
            case WorkerNotStarted():
                pass  # no worker was present or lost
            case HelperLost():
                if event.worker not in self.seen:
                    raise BrokenLaw(PRESENT, f"worker {event.worker} lost its {event.helper}, and was never there")
            case _:
                assert_never(event)

    def _begun(self, event: RunStarted) -> None:
        self.started = event
        limits, self._schedule = event.config["limits"], event.config["schedule"]
        self.attempts, self.spares = limits["attempts"], limits["spares"]
        self.silence, self.rejections = limits["silence_seconds"], limits["rejections"]
        self.trials_to_finish = limits["trials"]

    def _resumed(self, event: RunResumed) -> None:
        if event.down_seconds != event.at - self.at:
            raise BrokenLaw(TIME, f"down for {event.down_seconds!r} s, but {event.at - self.at!r} s went by")
        self.ended = None
        for number in list(self.workers):
            self._remove_worker(number, counts=False)

    def _joined(self, event: WorkerJoined) -> None:
        if event.worker in self.seen:
            raise BrokenLaw(PRESENT, f"worker {event.worker} came up twice")
        self.seen.add(event.worker)
        self.workers[event.worker] = Worker(self._rounds_for(event.host), event.host, event.ranks)

    def _proposed(self, event: TrialProposed) -> None:
        request = self._answered(event.number)
        self._check_batch(event, request.position)
        if event.parent is not None and not self._known(event.parent).shadow_trial.saved:
            raise BrokenLaw(WEIGHTS, f"the parent of trial {event.number} is trial {event.parent}", event.number)
        self.trials[event.number] = Trial(
            event.number,
            request.round,
            request.worker,
            request.starting_network,
            event.parent,
            ShadowTrial((event.forward_flops + event.backward_flops, event.validation_flops)),
            epochs=None if event.follows is None else event.follows.epochs,
        )
        if event.parent is not None:
            self.descent.append((request.round, self.trials[event.parent].round))
        self._check_architecture(event)
        self.workers[request.worker].waiting.add(event.number)
        self.workers[request.worker].vain = 0

    def _failed(self, event: TrialFailed) -> None:
        trial = self._known(event.trial)
        if trial.state == "waiting" and not self._has_weights(trial):
            self.workers[trial.made_for].waiting.discard(trial.number)
            trial.state = "withdrawn"
            return
        if trial.state not in ("running", "lost"):
            raise BrokenLaw(LIMITS, f"trial {trial.number} is {trial.state}, and was given up", trial.number)
        self._release(trial)
        trial.state = "failed"

    def _count_epoch(self, trial: Trial) -> None:
        shadow = trial.shadow_trial
        shadow.whole = self.true_work.whole_epoch(shadow.batch_size, trial.ranks)

    def _known(self, number: int) -> Trial:
        if number not in self.trials:
            raise BrokenLaw(LIMITS, f"trial {number} was never proposed", number)
        return self.trials[number]

    def _current(self, number: int, attempt: int) -> Trial:
        trial = self._known(number)
        if trial.state != "running" or trial.attempt != attempt:
            raise BrokenLaw(
                ONCE,
                f"a message of attempt {attempt} of trial {number} was counted, but the trial is {trial.state} in attempt "
                f"{trial.attempt}",
                number,
            )
        if trial.worker not in self.workers:
            raise BrokenLaw(PRESENT, f"trial {number} is on worker {trial.worker}", number)
        return trial

    def _rounds_for(self, host: str) -> int:
        """Return the rounds of a joining worker: those of the first lost worker of its host, otherwise of the first of all."""
        own = [place for place, (where, _) in enumerate(self._away) if where == host]
        return self._away.pop(own[0] if own else 0)[1] if self._away else 0

    def _remove_worker(self, number: int, *, counts: bool) -> None:
        worker = self.workers.pop(number)
        if worker.rounds:
            self._away.append((worker.host, worker.rounds))
        for waiting in worker.waiting:
            self.trials[waiting].state = "withdrawn"
        for requested in worker.requested:
            del self.requests[requested]
        if worker.trial is not None:
            self._lose(self.trials[worker.trial], counts=counts)

    def _requested(self, event: ProposalRequested) -> None:
        worker = self.workers.get(event.worker)
        if worker is None:
            raise BrokenLaw(PRESENT, f"proposal {event.number} was requested for worker {event.worker}")
        if event.number != self._next_number:
            raise BrokenLaw(LIMITS, f"proposal {event.number} was requested instead of {self._next_number}")
        if event.position != self.line - 1:
            raise BrokenLaw(
                REPLAY, f"proposal {event.number} at line {self.line} claims to have seen {event.position} lines"
            )
        if event.round != worker.rounds + 1:
            raise BrokenLaw(
                ROUNDS,
                f"proposal {event.number} is for round {event.round} of worker {event.worker}, which has begun {worker.rounds}",
                event.number,
            )
        is_for_later = not self.needs_next(worker)
        if self.missing(worker) < 1 or (is_for_later and not event.spare):
            raise BrokenLaw(
                DUE,
                f"proposal {event.number} was requested, {'as a spare' if event.spare else 'for the next trial'}. Worker "
                f"{event.worker} trains {worker.trial} and has {len(worker.waiting)} proposals, {len(worker.requested)} "
                f"requested. A trial {'has' if self._has_finished else 'has not'} finished",
                event.number,
            )
        if event.follows is None and event.starting_network != (self._start_is_due() and not event.spare):
            raise BrokenLaw(
                START,
                f"proposal {event.number} is {'' if event.starting_network else 'not '}for the starting network. Its trials: "
                f"{ {number: trial.state for number, trial in self.trials.items() if trial.is_start} }",
                event.number,
            )
        if worker.vain >= self.rejections and event.follows is None:
            raise BrokenLaw(
                LIMITS, f"worker {event.worker} is asked again after {worker.vain} rejections", event.number
            )
        self._next_number += 1
        worker.requested.add(event.number)
        self.requests[event.number] = event

    @property
    def follows(self) -> bool:
        """True if the run trains the trials of another run."""
        return self.started is not None and self.started.follows is not None

    def needs_next(self, worker: Worker) -> bool:
        """Return True if a worker trains nothing, or a trial that may be over after the current epoch."""
        if worker.trial is None:
            return True
        trial = self.trials[worker.trial]
        # The next trial of a followed run is known, and not requested in advance.
        return trial.epochs is None and trial.shadow_trial.nears_its_end(self._schedule, trial.round)

    def missing(self, worker: Worker) -> int:
        """Return the number of missing proposals of a worker. Negative if it has more than it needs."""
        spares = self.spares if self._has_finished and not self.follows else 0
        missing = self.needs_next(worker) + spares - len(worker.waiting) - len(worker.requested)
        return missing if self.trials_to_finish is None else min(missing, self._room_for_trials(self.trials_to_finish))

    def _room_for_trials(self, limit: int) -> int:
        """Return how many more trials can finish. Neither failed nor withdrawn trials count, open requests do."""
        states = [trial.state for trial in self.trials.values()]
        counted = len(states) - states.count("failed") - states.count("withdrawn") + len(self.requests)
        return limit - counted

    def _start_is_due(self) -> bool:
        """Return True if no worker has the starting network and it has not failed too often."""
        if any(request.starting_network for request in self.requests.values()):
            return False
        states = [trial.state for trial in self.trials.values() if trial.is_start]
        return set(states) <= {"withdrawn", "failed"} and states.count("failed") < self.attempts

    def _answered(self, number: int) -> ProposalRequested:
        request = self.requests.pop(number, None)
        if request is None:
            raise BrokenLaw(LIMITS, f"proposal {number} was answered without a request", number)
        self.workers[request.worker].requested.discard(number)
        return request

    def _check_architecture(self, event: TrialProposed) -> None:
        """Check that no other trial has the architecture, except withdrawn ones and failed ones of the starting graph."""
        is_start = event.parent is None and not event.morphs
        others = self._trials_of.setdefault(event.fingerprint, [])
        for other in others:
            state = self.trials[other].state
            if state != "withdrawn" and not (is_start and state == "failed"):
                raise BrokenLaw(
                    DIFFERENT,
                    f"trial {event.number} has the architecture of trial {other}, which is {state}",
                    event.number,
                )
        others.append(event.number)

    def _check_batch(self, event: TrialProposed, position: int) -> None:
        """Check the batch size against the ceilings in the first `position` lines."""
        ceiling = min((batch_size for line, batch_size in self._ceilings if line <= position), default=None)
        if ceiling is not None and event.batch_size > ceiling:
            raise BrokenLaw(
                CEILING,
                f"trial {event.number} is to train batches of {event.batch_size}, but the first {position} lines "
                f"measured a ceiling of {ceiling}",
                event.number,
            )

    def _started(self, event: TrialStarted) -> None:
        trial, worker = self._known(event.trial), self.workers.get(event.worker)
        if worker is None:
            raise BrokenLaw(PRESENT, f"trial {event.trial} was started on worker {event.worker}", event.trial)
        if worker.trial is not None:
            raise BrokenLaw(
                ONE_TRIAL,
                f"worker {event.worker} trains trial {worker.trial}, and was given trial {event.trial}",
                event.trial,
            )
        if event.attempt != trial.attempt + 1 or trial.state not in ("waiting", "lost"):
            raise BrokenLaw(
                LIMITS,
                f"attempt {event.attempt} of trial {event.trial} began, but the trial is {trial.state} after attempt "
                f"{trial.attempt}",
                event.trial,
            )
        if trial.losses >= self.attempts:
            raise BrokenLaw(LIMITS, f"trial {event.trial} was started again after {trial.losses} losses", event.trial)
        if event.attempt == 1:
            worker.rounds += 1
            if trial.made_for != event.worker:
                raise BrokenLaw(
                    ROUNDS,
                    f"trial {event.trial} was made for worker {trial.made_for}, and began on {event.worker}",
                    event.trial,
                )
            trial.round = worker.rounds
            self._check_order(trial, worker)
            if not self._has_weights(trial):
                raise BrokenLaw(
                    WEIGHTS,
                    f"trial {trial.number} began without the weights of its parent {trial.parent}",
                    trial.number,
                )
            worker.waiting.discard(event.trial)
        if event.round != trial.round:
            raise BrokenLaw(
                ROUNDS,
                f"attempt {event.attempt} of trial {event.trial} has round {event.round}, but it is the "
                f"{trial.round}th trial of worker {trial.made_for}",
                event.trial,
            )
        worker.trial = event.trial
        trial.shadow_trial.begin(event)
        trial.ranks = worker.ranks
        self._count_epoch(trial)
        trial.state, trial.worker, trial.attempt = "running", event.worker, event.attempt

    def _has_weights(self, trial: Trial) -> bool:
        """Return True if the weights exist that an unstarted trial inherits."""
        return trial.parent is None or self.trials[trial.parent].shadow_trial.saved > 0

    def _check_order(self, trial: Trial, worker: Worker) -> None:
        """Check that a worker starts the starting network, otherwise the latest requested proposal."""
        starts = [number for number in worker.waiting if self.trials[number].is_start]
        first = max(starts or worker.waiting, default=trial.number)
        if trial.number != first:
            raise BrokenLaw(
                NEWEST,
                f"trial {trial.number} began on worker {trial.made_for}, for which {sorted(worker.waiting)} wait",
                trial.number,
            )

    def _worked(self, event: Progress | EpochFinished, work: Work) -> None:
        trial = self._current(event.trial, event.attempt)
        worker = self.workers[work.worker]
        if worker.trial != event.trial:
            raise BrokenLaw(
                ONE_TRIAL, f"worker {work.worker} trains trial {worker.trial}, not {event.trial}", event.trial
            )
        if not worker.interval_end <= work.start <= work.end <= event.at:
            raise BrokenLaw(
                TIME,
                f"an interval from {work.start!r} to {work.end!r} s, recorded at {event.at!r}. Worker {work.worker}'s last one "
                f"ended at {worker.interval_end!r}",
                event.trial,
            )
        reached = self.true_work.reached(event.trial, event.attempt, event.epoch)
        trial.shadow_trial.book(event, work, reached)
        worker.interval_end = work.end

    def _finished(self, event: TrialFinished) -> None:
        trial = self._known(event.trial)
        if trial.state not in ("running", "lost") or trial.attempt != event.attempt:
            raise BrokenLaw(LIMITS, f"trial {event.trial} is {trial.state}, and finished", event.trial)
        if not self.is_over(trial):
            raise BrokenLaw(
                LOST,
                f"trial {event.trial} finished ({event.reason}) after {len(trial.shadow_trial.accuracies)} epochs",
                event.trial,
            )
        if event.accuracy != max(trial.shadow_trial.accuracies):
            raise BrokenLaw(SCORE, f"the best of {trial.shadow_trial.accuracies} is not {event.accuracy}", event.trial)
        self._release(trial)
        trial.state, self._has_finished = "finished", True
        for worker in self.workers.values():
            worker.vain = min(worker.vain, self.rejections - 1)

    def is_over(self, trial: Trial) -> bool:
        """Return True if a trial is over by the rules of rounds and patience, or by the trial that it follows."""
        if trial.epochs is not None:
            return len(trial.shadow_trial.accuracies) == trial.epochs
        return trial.shadow_trial.is_over(self._schedule, trial.round)

    def _lose(self, trial: Trial, *, counts: bool) -> None:
        self._release(trial)
        trial.state = "lost"
        trial.losses += counts

    def _release(self, trial: Trial) -> None:
        worker = self.workers.get(-1 if trial.worker is None else trial.worker)
        if worker is not None and worker.trial == trial.number:
            worker.trial = None
        trial.worker = None
