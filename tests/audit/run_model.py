"""Model of a run for the audit: its journal's validator, and the laws that need the schedule, the limits or the true work.

The validator refuses lines that no run can write. It shares only the table of legal states with evolve. The other laws are
implemented here alone and share no code with evolve, decide, interpret, the work log and the score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from aiperf.accounting.work_log import WorkLog, work_log
from aiperf.journal.events import (
    AnyEvent,
    BatchReduced,
    CeilingMeasured,
    CheckpointDropped,
    CheckpointWritten,
    EpochFinished,
    Progress,
    ProposalRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialFailed,
    TrialFinished,
    TrialLost,
    TrialPrepared,
    TrialProposed,
    TrialRejected,
    TrialStarted,
    Work,
    WorkerJoined,
    WorkerLost,
)
from aiperf.journal.legality import IllegalLine, TrialState
from aiperf.journal.validator import Validator
from tests.audit.ground_truth import GroundTruth
from tests.audit.laws import (
    CEILING,
    DIFFERENT,
    DUE,
    LEGAL,
    LIMITS,
    LOST,
    NEWEST,
    ONCE,
    ROUNDS,
    SCORE,
    START,
    WEIGHTS,
    BrokenLaw,
)
from tests.builders.second_score import differences
from tools.verify_standalone import Run, figures, parsed

SETTLED_WITHOUT_RESULT = (TrialState.FAILED, TrialState.WITHDRAWN, TrialState.REJECTED)


@dataclass(slots=True)
class Trial:
    """Proposal and its progress, beside the validator's record, which ends with the trial."""

    number: int
    round: int
    """Round of its request. From its first attempt on: round of its worker."""
    is_start: bool
    """True if the starting network was requested."""
    parent: int | None
    epochs: int | None
    """Epochs by its list. None in a run that searches."""
    attempt: int = 0
    losses: int = 0
    """Attempts that ended early, alone or with the worker."""
    ranks: int = 1
    """Ranks of its attempt: its worker's until the attempt is prepared and reports its own."""
    batch_size: int = 0
    """Batch size of the current pass."""
    batches: set[int] = field(default_factory=set)
    """Batch sizes of the attempt. The message of an epoch may arrive after the next one began again with a smaller batch."""
    images: tuple[int, int] = (0, 0)
    """Training and validation images of the current pass so far."""
    saved: int = 0
    """Last epoch with a checkpoint."""
    validation_losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Turns:
    """Rounds of a present worker."""

    host: str
    rounds: int
    """Rounds that it has started."""
    vain: int = 0
    """Consecutive rejected requests. Reduced to one below the limit when a trial finishes."""


class RunModel(Validator):
    """Fold of a journal. Call `take` with each event. It raises BrokenLaw at the first event that breaks a law."""

    def __init__(self, truth: GroundTruth | None = None) -> None:
        """`truth`: record of the true work. None for a real run: an epoch then has whole steps (docs/benchmark.md)."""
        super().__init__()
        self._truth = truth
        self.started: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.limits: dict[str, Any] = {}
        self.turns: dict[int, Turns] = {}
        """By present worker."""
        self.trials: dict[int, Trial] = {}
        self.descent: list[tuple[int, int]] = []
        """(round, round of its parent) of every proposal with a parent, in order."""
        self._schedule: dict[str, Any] = {}
        self._asked: dict[int, ProposalRequested] = {}
        """All requests."""
        self._trials_of: dict[str, list[int]] = {}
        """Trials by fingerprint."""
        self._orphaned: set[int] = set()
        """Trials that were given up because the weights of their parent are gone."""
        self._ceilings: list[tuple[int, int]] = []
        """(line, batch size) of each ceiling that is smaller than all before it."""
        self._away: list[tuple[str, int]] = []
        """(host, rounds started) of lost workers without a successor, in the order of their loss."""
        self._second = Run()

    @property
    def line(self) -> int:
        return self._lines

    @property
    def seen(self) -> set[int]:
        """Numbers of all workers so far."""
        return self._seen_workers

    @property
    def training(self) -> dict[int, int | None]:
        """Trial of each present worker. None if it idles."""
        return {number: worker.trial for number, worker in self._workers.items()}

    @property
    def pending(self) -> list[ProposalRequested]:
        """Requests without an answer."""
        return [*self._requests.values()]

    @property
    def lost(self) -> list[Trial]:
        """Trials that wait for another attempt."""
        return [trial for number, trial in self.trials.items() if self._states[number] is TrialState.LOST]

    @property
    def follows(self) -> bool:
        """True if the run trains the trials of a list."""
        return self._follows

    def waiting_for(self, worker: int) -> set[int]:
        """Trials that were proposed for the worker and not started."""
        return self._workers[worker].waiting

    def take(self, event: AnyEvent) -> None:
        """Take the next line."""
        interrupted = None
        if isinstance(event, WorkerLost) and event.cause != "released":
            interrupted = self.training.get(event.worker)
        try:
            self.check(event)
        except IllegalLine as error:
            raise BrokenLaw(LEGAL, str(error), getattr(event, "trial", None)) from error
        self._take(event)
        if interrupted is not None:
            self.trials[interrupted].losses += 1
        self._second.take(parsed(msgspec.json.encode(event)))

    def check_score(self, kept: WorkLog) -> None:
        """Raise BrokenLaw if the figures of the work log differ from those of tools/verify_standalone.py."""
        if found := differences(kept, figures(self._second)):
            raise BrokenLaw(SCORE, f"(AIPerf, second implementation): {found}")

    def _take(self, event: AnyEvent) -> None:
        match event:
            case RunStarted():
                self.started = event
                self.limits, self._schedule = event.config["limits"], event.config["schedule"]
            case RunResumed():
                self.ended = None
                for number in list(self.turns):
                    self._end_turns(number)
            case RunEnded():
                self.ended = event
            case WorkerJoined():
                self.turns[event.worker] = Turns(event.host, self._rounds_for(event.host))
            case WorkerLost():
                self._end_turns(event.worker)
            case ProposalRequested():
                self._requested(event)
            case TrialProposed():
                self._proposed(event)
            case TrialRejected():
                self.turns[self._asked[event.number].worker].vain += 1
            case TrialStarted():
                self._attempted(event)
            case TrialPrepared():
                self.trials[event.trial].ranks = event.ranks
            case Progress():
                self._worked(event, event)
            case EpochFinished():
                if event.interval is not None:
                    self._worked(event, event.interval)
                self._end_epoch(event)
            case BatchReduced():
                reduced = self.trials[event.trial]
                reduced.batch_size, reduced.images = event.to_batch_size, (0, 0)
                reduced.batches.add(event.to_batch_size)
            case TrialFinished():
                self._check_result(event)
            case TrialLost():
                self.trials[event.trial].losses += 1
            case TrialFailed():
                self._given_up(self.trials[event.trial])
            case CheckpointDropped():
                self.trials[event.trial].saved = 0
            case CheckpointWritten():
                self.trials[event.trial].saved = event.epoch
            case CeilingMeasured():
                if not self._ceilings or event.batch_size < self._ceilings[-1][1]:
                    self._ceilings.append((self.line, event.batch_size))
            case _:
                pass  # no effect on these laws

    # --- workers and their proposals

    def _rounds_for(self, host: str) -> int:
        """Return the rounds of a joining worker: those of the first lost worker of its host, otherwise of the first of all."""
        own = [place for place, (where, _) in enumerate(self._away) if where == host]
        return self._away.pop(own[0] if own else 0)[1] if self._away else 0

    def _end_turns(self, number: int) -> None:
        left = self.turns.pop(number)
        if left.rounds:
            self._away.append((left.host, left.rounds))

    def _requested(self, event: ProposalRequested) -> None:
        self._asked[event.number] = event
        turns = self.turns[event.worker]
        if event.round != turns.rounds + 1:
            raise BrokenLaw(
                ROUNDS,
                f"proposal {event.number} is for round {event.round} of worker {event.worker}, which has begun {turns.rounds}",
                event.number,
            )
        if self.missing(event.worker) < 0 or not (self.needs_next(event.worker) or event.spare):
            raise BrokenLaw(
                DUE,
                f"proposal {event.number} was requested, {'as a spare' if event.spare else 'for the next trial'}: "
                f"{self._workers[event.worker]}",
                event.number,
            )
        if event.follows is None and event.starting_network != (self._start_is_due(event.number) and not event.spare):
            states = {number: self._states[number] for number, trial in self.trials.items() if trial.is_start}
            raise BrokenLaw(
                START,
                f"proposal {event.number} is {'' if event.starting_network else 'not '}for the starting network: {states}",
                event.number,
            )
        if turns.vain >= self.limits["rejections"] and event.follows is None:
            raise BrokenLaw(LIMITS, f"worker {event.worker} is asked again after {turns.vain} rejections", event.number)

    def needs_next(self, worker: int) -> bool:
        """Return True if a worker trains nothing, or a trial that may be over after the current epoch."""
        number = self._workers[worker].trial
        if number is None:
            return True
        trial = self.trials[number]
        # The next trial of a list is known, and not requested in advance. A loss of infinity does not fall.
        return trial.epochs is None and _is_over(self._schedule, trial.round, [*trial.validation_losses, math.inf])

    def missing(self, worker: int) -> int:
        """Return the number of missing proposals of a worker. Negative if it has more than it needs."""
        has_spares = TrialState.FINISHED in self._states.values() and not self.follows
        spares = self.limits["spares"] if has_spares else 0
        held = self._workers[worker]
        missing: int = self.needs_next(worker) + spares - len(held.waiting) - len(held.requested)
        limit: int | None = self.limits["trials"]
        if limit is None:
            return missing
        return min(missing, limit - sum(state not in SETTLED_WITHOUT_RESULT for state in self._states.values()))

    def _start_is_due(self, number: int) -> bool:
        """Return True if no worker has the starting network and it has not failed too often. `number`: of the request."""
        if any(request.starting_network for other, request in self._requests.items() if other != number):
            return False
        states = [self._states[trial.number] for trial in self.trials.values() if trial.is_start]
        failed = states.count(TrialState.FAILED)
        return states.count(TrialState.WITHDRAWN) + failed == len(states) and failed < self.limits["attempts"]

    def _proposed(self, event: TrialProposed) -> None:
        request = self._asked[event.number]
        ceiling = min((batch_size for line, batch_size in self._ceilings if line <= request.position), default=None)
        if ceiling is not None and event.batch_size > ceiling:
            raise BrokenLaw(
                CEILING,
                f"trial {event.number} is to train batches of {event.batch_size}, but the first {request.position} lines "
                f"measured a ceiling of {ceiling}",
                event.number,
            )
        if event.parent is not None:
            parent = self.trials[event.parent]
            if not parent.saved:
                raise BrokenLaw(WEIGHTS, f"the parent of trial {event.number} is trial {event.parent}", event.number)
            self.descent.append((request.round, parent.round))
        epochs = None if event.follows is None else event.follows.epochs
        self.trials[event.number] = Trial(event.number, request.round, request.starting_network, event.parent, epochs)
        self._check_architecture(event)
        self.turns[request.worker].vain = 0

    def _check_architecture(self, event: TrialProposed) -> None:
        """Check that no other trial has the architecture, except withdrawn ones and failed ones of the starting graph."""
        is_start = event.parent is None and not event.morphs
        others = self._trials_of.setdefault(event.fingerprint, [])
        for other in others:
            state = self._states[other]
            is_gone = state is TrialState.WITHDRAWN or other in self._orphaned
            if not is_gone and not (is_start and state is TrialState.FAILED):
                raise BrokenLaw(
                    DIFFERENT,
                    f"trial {event.number} has the architecture of trial {other}, which is {state.value}",
                    event.number,
                )
        others.append(event.number)

    # --- attempts

    def _attempted(self, event: TrialStarted) -> None:
        trial, turns = self.trials[event.trial], self.turns[event.worker]
        if trial.losses >= self.limits["attempts"]:
            raise BrokenLaw(LIMITS, f"trial {event.trial} was started again after {trial.losses} losses", event.trial)
        if event.attempt == 1:
            turns.rounds += 1
            trial.round = turns.rounds
            self._check_order(trial, event.worker)
            if not self._has_weights(trial):
                raise BrokenLaw(
                    WEIGHTS,
                    f"trial {trial.number} began without the weights of its parent {trial.parent}",
                    trial.number,
                )
        if event.round != trial.round:
            raise BrokenLaw(
                ROUNDS,
                f"attempt {event.attempt} of trial {event.trial} has round {event.round}, but it is the {trial.round}th trial "
                "of its worker",
                event.trial,
            )
        trial.attempt, trial.ranks = event.attempt, self._workers[event.worker].ranks
        trial.batch_size, trial.batches, trial.images = event.batch_size, {event.batch_size}, (0, 0)
        del trial.validation_losses[event.epoch - 1 :], trial.accuracies[event.epoch - 1 :]

    def _has_weights(self, trial: Trial) -> bool:
        """Return True if the weights exist that an unstarted trial inherits."""
        return trial.parent is None or self.trials[trial.parent].saved > 0

    def _check_order(self, trial: Trial, worker: int) -> None:
        """Check that a worker starts the starting network, otherwise the latest requested proposal."""
        waiting = {*self.waiting_for(worker), trial.number}
        if trial.number != max({number for number in waiting if self.trials[number].is_start} or waiting):
            raise BrokenLaw(
                NEWEST, f"trial {trial.number} began on worker {worker}, for which {sorted(waiting)} wait", trial.number
            )

    def _worked(self, event: Progress | EpochFinished, work: Work) -> None:
        trial = self.trials[event.trial]
        images = (trial.images[0] + work.training_images, trial.images[1] + work.validation_images)
        wholes = self._whole_epochs(trial)
        if self._truth is None:
            is_true = any(images[0] <= training and images[1] <= validation for training, validation in wholes)
            known = f"has epochs of {wholes}"
        else:
            reached = self._truth.sums[event.trial, event.attempt].get(event.epoch, set())
            is_whole = images in wholes and images in {(training, validation) for training, validation, _ in reached}
            is_true, known = is_whole or (*images, trial.batch_size) in reached, f"reported {sorted(reached)}"
        if not is_true:
            raise BrokenLaw(
                ONCE,
                f"{images} images of epoch {event.epoch} are booked at batch {trial.batch_size}. Attempt {event.attempt} of "
                f"trial {event.trial} {known}",
                event.trial,
            )
        trial.images = images

    def _whole_epochs(self, trial: Trial) -> set[tuple[int, int]]:
        """Return the images of an epoch by the attempt's batches. Steps are whole. A set smaller than one step is one step."""
        images, steps = self._training_images, {batch * trial.ranks for batch in trial.batches}
        return {(images // step * step or images, self._validation_images) for step in steps}

    def _end_epoch(self, event: EpochFinished) -> None:
        trial = self.trials[event.trial]
        if trial.images not in (wholes := self._whole_epochs(trial)):
            raise BrokenLaw(
                LOST,
                f"epoch {event.epoch} of trial {event.trial} ended with {trial.images} images booked, of {wholes}",
                event.trial,
            )
        assert event.validation_loss is not None, "a simulated network is a graph"
        trial.validation_losses.append(event.validation_loss)
        trial.accuracies.append(event.accuracy)
        if event.checkpoint:
            trial.saved = event.epoch
        trial.images = (0, 0)

    def _check_result(self, event: TrialFinished) -> None:
        trial = self.trials[event.trial]
        if not self.is_over(trial):
            raise BrokenLaw(
                LOST,
                f"trial {event.trial} finished ({event.reason}) after {len(trial.accuracies)} epochs",
                event.trial,
            )
        if event.accuracy != max(trial.accuracies):
            raise BrokenLaw(SCORE, f"the best of {trial.accuracies} is not {event.accuracy}", event.trial)
        for turns in self.turns.values():
            turns.vain = min(turns.vain, self.limits["rejections"] - 1)

    def is_over(self, trial: Trial) -> bool:
        """Return True if a trial is over by the rules of rounds and patience, or by its list."""
        if trial.epochs is not None:
            return len(trial.accuracies) == trial.epochs
        return _is_over(self._schedule, trial.round, trial.validation_losses)

    def _given_up(self, trial: Trial) -> None:
        if trial.attempt == 0:
            if self._has_weights(trial):
                raise BrokenLaw(LIMITS, f"trial {trial.number} was given up before its first attempt", trial.number)
            self._orphaned.add(trial.number)


def _is_over(schedule: dict[str, Any], round_: int, losses: Sequence[float]) -> bool:
    epochs = schedule["epochs"]
    if len(losses) >= epochs[min(round_, len(epochs)) - 1]:
        return True
    best, since = math.inf, 0
    for loss in losses:
        best, since = (loss, 0) if loss < best - schedule["improvement"] else (best, since + 1)
    patience: int = schedule["patience"] + schedule["patience_step"] * (round_ - 1)
    largest: int = schedule["largest_patience"]
    return since >= min(patience, largest)


def audit(events: Sequence[AnyEvent]) -> RunModel:
    """Check the lines of a real run, and its score if it has ended. Raise BrokenLaw at the first line that breaks a law."""
    model = RunModel()
    for event in events:
        try:
            model.take(event)
        except BrokenLaw as broken:
            raise BrokenLaw(broken.law, f"line {model.line}: {broken.details}", broken.trial) from broken
    if model.ended is not None:
        model.check_score(work_log(events))
    return model
