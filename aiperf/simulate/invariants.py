"""The laws of a run, checked after every event of a simulated one, from bookkeeping of their own.

An auditor hears each event when it stands in the journal, and compares it with what the workers truly did and with what the
live state says. It shares no code with evolve, decide, hear, books and score, so that a mistake there is not made here as well.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from aiperf.books import books
from aiperf.drive.driver import TURN_SECONDS, Driver
from aiperf.drive.session import Standing
from aiperf.events import (
    AnyEvent,
    BatchReduced,
    CeilingMeasured,
    CheckpointDropped,
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
    WorkerJoined,
    WorkerLost,
)
from aiperf.journal import read
from aiperf.run import replay
from aiperf.score import score
from aiperf.simulate.attempt import Task
from aiperf.simulate.witness import Witness


class BrokenLaw(Exception):
    """An invariant does not hold."""

    def __init__(self, law: str, what: str, trial: int | None = None) -> None:
        super().__init__(f"{law}: {what}")
        self.law = law
        self.trial = trial


TIME = "time never runs back"
ONCE = "each image of a (trial, epoch) counts once"
LOST = "no image is lost from the books"
LIMITS = "every trial ends or is retried within limits"
ONE_TRIAL = "no worker holds two trials"
PRESENT = "no trial is on a worker that is gone"
REPLAY = "live state equals replayed state"
SCORE = "the score is that of the work done"
ENDS = "the run ends"
WRITTEN = "nothing is done that does not stand in the journal"
AGAIN = "every proposal can be made again from its journal"
ROUNDS = "a trial is of its worker's round"
IDLE = "no worker idles while there is something to do"
JOURNAL = "the journal is whole"


@dataclass(slots=True)
class _Row:
    start: float
    end: float
    training: int
    validation: int


@dataclass(slots=True)
class _Trial:
    number: int
    round: int
    made_for: int
    operations: tuple[int, int]
    state: str = "waiting"
    """waiting, running, lost, withdrawn, finished, failed"""
    worker: int | None = None
    attempt: int = 0
    losses: int = 0
    saved: int = 0
    epoch: int = 1
    """In progress."""
    validation_losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    rows: dict[int, list[_Row]] = field(default_factory=dict)
    """That count, by epoch."""
    done_by: dict[int, int] = field(default_factory=dict)
    """Of each epoch the attempt that its rows belong to."""


@dataclass(slots=True)
class _Worker:
    rounds: int
    host: str
    trial: int | None = None
    interval_end: float = 0.0
    waiting: set[int] = field(default_factory=set)
    requested: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Auditor:
    """Checks one run; raises BrokenLaw at the first event that breaks one."""

    witness: Witness
    task: Task
    draw: random.Random
    """Which moments are compared with a replay."""
    replays: float = 0.0
    """Share of turns after which the whole journal is replayed."""
    line: int = 0
    at: float = 0.0
    started: RunStarted | None = None
    ended: RunEnded | None = None
    _last: Driver | None = None
    _workers: dict[int, _Worker] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _away: dict[str, list[int]] = field(default_factory=dict)
    _trials: dict[int, _Trial] = field(default_factory=dict)
    _requests: dict[int, ProposalRequested] = field(default_factory=dict)
    _next_number: int = 0
    _limits: tuple[list[int], int, int, int, float] = field(default_factory=lambda: ([], 0, 0, 0, 0.0))
    _attempts: int = 0
    _buffer: int = 0
    _silence: float = 0.0
    _sums: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Images of the epoch in progress of each running trial."""

    # --- who watches

    def on_disk(self, events: Sequence[AnyEvent]) -> None:
        """Each event against the laws."""
        for event in events:
            self.line += 1
            if event.at < self.at:
                raise BrokenLaw(TIME, f"line {self.line} is of {event.at!r} s, the one before it of {self.at!r} s")
            self._take(event)
            self.at = event.at
        if self.witness.breaches:
            trial, what = self.witness.breaches[0]
            raise BrokenLaw(ONE_TRIAL, what, trial)

    def after_turn(self, driver: Driver) -> None:
        """The live state against what was learnt from the journal."""
        run, now = driver.run, driver.clock.now()
        self._last = driver
        if run.lines != self.line:
            raise BrokenLaw(REPLAY, f"the run has taken in {run.lines} lines, and {self.line} stand in the journal")
        live = {number: worker.trial for number, worker in run.workers.items()}
        mine = {number: worker.trial for number, worker in self._workers.items()}
        if live != mine:
            raise BrokenLaw(REPLAY, f"who trains what: live {live}, by the journal {mine}")
        self._check_orders()
        if unheard := self.witness.up - self._seen:
            raise BrokenLaw(IDLE, f"workers {sorted(unheard)} are up, and were not taken in")
        if run.ended is None:
            self._check_idleness(driver, now)
        if self.draw.random() < self.replays:
            self._compare(driver)

    def before_resume(self, standing: Standing) -> None:
        """What a resumed run begins with is all that ever stood in the journal."""
        self.witness.up.clear()
        self._check_orders()
        if standing.run.lines != self.line:
            raise BrokenLaw(REPLAY, f"{self.line} lines were written, and {standing.run.lines} were read again")

    def finish(self, path: Path) -> None:
        """The run is over."""
        started, ended = self.started, self.ended
        assert started is not None
        if ended is None:
            raise BrokenLaw(ENDS, f"its time of {started.duration_seconds:.0f} s is up, and it has not ended")
        if self._last is not None and self._last.run.ended is not None:
            self._compare(self._last)
        self._check_books(path)

    def _check_orders(self) -> None:
        for trial, attempt in self.witness.orders:
            if trial not in self._trials or self._trials[trial].attempt < attempt:
                raise BrokenLaw(
                    WRITTEN, f"attempt {attempt} of trial {trial} was ordered, and is not in the journal", trial
                )
        self.witness.orders.clear()

    # --- one event

    def _take(self, event: AnyEvent) -> None:
        if self.ended is not None:
            raise BrokenLaw(ENDS, f"{type(event).__name__} came after the end")
        match event:
            case RunStarted():
                self.started = event
                schedule, limits = event.config["schedule"], event.config["limits"]
                self._limits = (
                    schedule["epochs"],
                    schedule["patience"],
                    schedule["patience_step"],
                    schedule["largest_patience"],
                    schedule["improvement"],
                )
                self._attempts, self._buffer = limits["attempts"], limits["buffer"]
                self._silence = limits["silence_seconds"]
            case RunResumed():
                if event.down_seconds != event.at - self.at:
                    raise BrokenLaw(TIME, f"down for {event.down_seconds!r} s, but {event.at - self.at!r} s went by")
                for number in list(self._workers):
                    self._worker_gone(number, counts=False)
            case WorkerJoined():
                if event.worker in self._seen:
                    raise BrokenLaw(PRESENT, f"worker {event.worker} came up twice")
                self._seen.add(event.worker)
                away = self._away.get(event.host)
                self._workers[event.worker] = _Worker(away.pop(0) if away else 0, event.host)
            case WorkerLost():
                if event.worker not in self._workers:
                    raise BrokenLaw(PRESENT, f"worker {event.worker} was lost, and was not there")
                self._worker_gone(event.worker, counts=True)
            case ProposalRequested():
                self._requested(event)
            case TrialProposed():
                request = self._answered(event.number)
                self._trials[event.number] = _Trial(
                    event.number,
                    request.round,
                    request.worker,
                    (event.forward_flops + event.backward_flops, event.validation_flops),
                )
                self._workers[request.worker].waiting.add(event.number)
            case TrialRejected():
                self._answered(event.number)
            case TrialStarted():
                self._started(event)
            case TrialPrepared():
                self._current(event.trial, event.attempt)
            case Progress():
                self._progress(event)
            case EpochFinished():
                self._epoch_finished(event)
            case BatchReduced():
                trial = self._current(event.trial, event.attempt)
                trial.rows.pop(trial.epoch, None)
                self._sums[trial.number] = (0, 0)
            case TrialFinished():
                self._finished(event)
            case TrialLost():
                trial = self._current(event.trial, event.attempt)
                self._lose(trial, counts=True)
            case TrialFailed():
                trial = self._known(event.trial)
                if trial.state not in ("running", "lost"):
                    raise BrokenLaw(LIMITS, f"trial {trial.number} is {trial.state}, and was given up", trial.number)
                self._release(trial)
                trial.state = "failed"
            case CheckpointDropped():
                self._known(event.trial).saved = 0
            case RunEnded():
                self.ended = event
            case CeilingMeasured():
                pass
            case _:
                assert_never(event)

    def _known(self, number: int) -> _Trial:
        if number not in self._trials:
            raise BrokenLaw(LIMITS, f"trial {number} was never proposed", number)
        return self._trials[number]

    def _current(self, number: int, attempt: int) -> _Trial:
        trial = self._known(number)
        if trial.state != "running" or trial.attempt != attempt:
            raise BrokenLaw(
                ONCE,
                f"a word of attempt {attempt} of trial {number} was counted; it is {trial.state} in attempt {trial.attempt}",
                number,
            )
        if trial.worker not in self._workers:
            raise BrokenLaw(PRESENT, f"trial {number} is on worker {trial.worker}", number)
        return trial

    def _worker_gone(self, number: int, *, counts: bool) -> None:
        worker = self._workers.pop(number)
        self._away.setdefault(worker.host, []).append(worker.rounds)
        for waiting in worker.waiting:
            self._trials[waiting].state = "withdrawn"
        for requested in worker.requested:
            del self._requests[requested]
        if worker.trial is not None:
            self._lose(self._trials[worker.trial], counts=counts)

    def _requested(self, event: ProposalRequested) -> None:
        worker = self._workers.get(event.worker)
        if worker is None:
            raise BrokenLaw(PRESENT, f"proposal {event.number} was requested for worker {event.worker}")
        if event.number != self._next_number:
            raise BrokenLaw(LIMITS, f"proposal {event.number} was requested; {self._next_number} would be next")
        if event.position != self.line - 1:
            raise BrokenLaw(
                REPLAY, f"proposal {event.number} at line {self.line} says that it saw {event.position} lines"
            )
        rounds = {self._trials[waiting].round for waiting in worker.waiting}
        rounds |= {self._requests[requested].round for requested in worker.requested}
        if event.round in rounds or not worker.rounds < event.round <= worker.rounds + self._buffer:
            raise BrokenLaw(
                ROUNDS,
                f"proposal {event.number} is for round {event.round} of worker {event.worker}, which has begun {worker.rounds} "
                f"and has {sorted(rounds)} in store",
                event.number,
            )
        self._next_number += 1
        worker.requested.add(event.number)
        self._requests[event.number] = event

    def _answered(self, number: int) -> ProposalRequested:
        request = self._requests.pop(number, None)
        if request is None:
            raise BrokenLaw(LIMITS, f"proposal {number} was answered, and nobody waits for it", number)
        self._workers[request.worker].requested.discard(number)
        return request

    def _started(self, event: TrialStarted) -> None:
        trial, worker = self._known(event.trial), self._workers.get(event.worker)
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
                f"attempt {event.attempt} of trial {event.trial} began; it is {trial.state} after attempt {trial.attempt}",
                event.trial,
            )
        if trial.losses >= self._attempts:
            raise BrokenLaw(LIMITS, f"trial {event.trial} was started again after {trial.losses} losses", event.trial)
        if event.epoch != trial.saved + 1:
            raise BrokenLaw(
                LOST,
                f"trial {event.trial} goes on from epoch {event.epoch}; epoch {trial.saved} was saved last",
                event.trial,
            )
        if event.attempt == 1:
            worker.rounds += 1
            if trial.round != worker.rounds or trial.made_for != event.worker:
                raise BrokenLaw(
                    ROUNDS,
                    f"trial {event.trial} was made for round {trial.round} of worker {trial.made_for}, and began as round "
                    f"{worker.rounds} of worker {event.worker}",
                    event.trial,
                )
            worker.waiting.discard(event.trial)
        worker.trial = event.trial
        trial.state, trial.worker, trial.attempt, trial.epoch = "running", event.worker, event.attempt, event.epoch
        del trial.validation_losses[event.epoch - 1 :], trial.accuracies[event.epoch - 1 :]
        self._sums[event.trial] = (0, 0)

    def _progress(self, event: Progress) -> None:
        trial = self._current(event.trial, event.attempt)
        worker = self._workers[event.worker]
        if worker.trial != event.trial:
            raise BrokenLaw(
                ONE_TRIAL, f"worker {event.worker} trains trial {worker.trial}, not {event.trial}", event.trial
            )
        if event.epoch != trial.epoch:
            raise BrokenLaw(ONCE, f"trial {event.trial} is in epoch {trial.epoch}, not {event.epoch}", event.trial)
        if not worker.interval_end <= event.start <= event.end <= event.at:
            raise BrokenLaw(
                TIME,
                f"an interval from {event.start!r} to {event.end!r} s, heard at {event.at!r}; worker {event.worker}'s last one "
                f"ended at {worker.interval_end!r}",
                event.trial,
            )
        for name in ("busy", "communication", "validation", "input", "checkpoint"):
            seconds = getattr(event, f"{name}_seconds")
            if not 0 <= seconds <= event.end - event.start:
                raise BrokenLaw(SCORE, f"{seconds!r} s {name} in {event.end - event.start!r} s", event.trial)
        before = self._sums[event.trial]
        sums = (before[0] + event.training_images, before[1] + event.validation_images)
        reached = self.witness.sums[event.trial, event.attempt].get(event.epoch, set())
        if sums not in reached or min(event.training_images, event.validation_images) < 0:
            raise BrokenLaw(
                ONCE,
                f"{sums} images of epoch {event.epoch} of trial {event.trial} are booked; attempt {event.attempt} spoke of "
                f"{sorted(reached)}",
                event.trial,
            )
        self._sums[event.trial] = sums
        if trial.done_by.get(event.epoch) != event.attempt:
            trial.done_by[event.epoch] = event.attempt
            trial.rows[event.epoch] = []
        row = _Row(event.start, event.end, event.training_images, event.validation_images)
        trial.rows.setdefault(event.epoch, []).append(row)
        worker.interval_end = event.end

    def _epoch_finished(self, event: EpochFinished) -> None:
        trial = self._current(event.trial, event.attempt)
        if event.epoch != trial.epoch:
            raise BrokenLaw(
                ONCE, f"epoch {event.epoch} of trial {event.trial} ended in epoch {trial.epoch}", event.trial
            )
        whole = (self.task.training_images, self.task.validation_images)
        if self._sums[event.trial] != whole:
            raise BrokenLaw(
                LOST,
                f"epoch {event.epoch} of trial {event.trial} ended with {self._sums[event.trial]} images booked, of {whole}",
                event.trial,
            )
        trial.validation_losses.append(event.validation_loss)
        trial.accuracies.append(event.accuracy)
        if event.checkpoint:
            trial.saved = event.epoch
        trial.epoch += 1
        self._sums[event.trial] = (0, 0)

    def _finished(self, event: TrialFinished) -> None:
        trial = self._known(event.trial)
        if trial.state not in ("running", "lost") or trial.attempt != event.attempt:
            raise BrokenLaw(LIMITS, f"trial {event.trial} is {trial.state}, and finished", event.trial)
        if not self._is_over(trial):
            raise BrokenLaw(
                LOST, f"trial {event.trial} finished ({event.reason}) after {len(trial.accuracies)} epochs", event.trial
            )
        if event.accuracy != max(trial.accuracies):
            raise BrokenLaw(SCORE, f"the best of {trial.accuracies} is not {event.accuracy}", event.trial)
        self._release(trial)
        trial.state = "finished"

    def _is_over(self, trial: _Trial) -> bool:
        epochs, patience, step, largest, improvement = self._limits
        done = trial.validation_losses
        if len(done) >= epochs[min(trial.round, len(epochs)) - 1]:
            return True
        best, since = math.inf, 0
        for loss in done:
            best, since = (loss, 0) if loss < best - improvement else (best, since + 1)
        return since >= min(patience + step * (trial.round - 1), largest)

    def _lose(self, trial: _Trial, *, counts: bool) -> None:
        self._release(trial)
        trial.state = "lost"
        trial.losses += counts

    def _release(self, trial: _Trial) -> None:
        worker = self._workers.get(-1 if trial.worker is None else trial.worker)
        if worker is not None and worker.trial == trial.number:
            worker.trial = None
        trial.worker = None

    # --- states

    def _check_idleness(self, driver: Driver, now: float) -> None:
        idle = [number for number, worker in self._workers.items() if worker.trial is None]
        lost = [trial for trial in self._trials.values() if trial.state == "lost"]
        for trial in lost:
            if trial.losses >= self._attempts or self._is_over(trial):
                raise BrokenLaw(LIMITS, f"trial {trial.number} can end, and does not", trial.number)
        if idle and lost:
            raise BrokenLaw(IDLE, f"worker {idle[0]} idles, and trial {lost[0].number} is lost", lost[0].number)
        for number, worker in self._workers.items():
            rounds = {self._trials[waiting].round: waiting for waiting in worker.waiting}
            if worker.trial is None and worker.rounds + 1 in rounds:
                waits = rounds[worker.rounds + 1]
                raise BrokenLaw(IDLE, f"worker {number} idles, and trial {waits} waits for it", waits)
            if len(worker.waiting) + len(worker.requested) != self._buffer:
                raise BrokenLaw(
                    IDLE, f"worker {number} has {len(worker.waiting)} proposals, {len(worker.requested)} requested"
                )
        overdue = self._silence + TURN_SECONDS + 1e-6
        for request in self._requests.values():
            if now - request.at > overdue:
                raise BrokenLaw(
                    IDLE, f"proposal {request.number} has been waited for since {request.at} s", request.number
                )
        for trial_number in driver.run.running:
            if now - driver.run.trials[trial_number].last_word > overdue:
                raise BrokenLaw(
                    IDLE, f"trial {trial_number} has been silent for longer than {self._silence} s", trial_number
                )

    def _compare(self, driver: Driver) -> None:
        events = list(read(driver.journal.path))
        replayed = replay(events)
        for name in replayed.__dataclass_fields__:
            if getattr(replayed, name) != getattr(driver.run, name):
                raise BrokenLaw(
                    REPLAY, f"Run.{name}: live {getattr(driver.run, name)}, replayed {getattr(replayed, name)}"
                )
        if books(events) != driver.books:
            raise BrokenLaw(REPLAY, "the live books are not those of the journal")

    def _check_books(self, path: Path) -> None:
        kept = books(read(path))
        assert self.started is not None and self.ended is not None
        begin, end = self.started.warmup_seconds, min(self.ended.at, self.started.duration_seconds)
        inside: list[float] = []
        booked_of: dict[int, float] = {}
        for number, flops in zip(kept.intervals.trial, kept.intervals.flops, strict=True):
            booked_of[number] = booked_of.get(number, 0.0) + flops  # whole numbers below 2^53: exact in any order
        for trial in self._trials.values():
            training, validation = trial.operations
            total = 0
            for epoch, rows in trial.rows.items():
                images = (sum(row.training for row in rows), sum(row.validation for row in rows))
                if images[0] > self.task.training_images or images[1] > self.task.validation_images:
                    raise BrokenLaw(
                        ONCE, f"{images} images of epoch {epoch} of trial {trial.number} count", trial.number
                    )
                for row in rows:
                    done = row.training * training + row.validation * validation
                    total += done
                    length = row.end - row.start
                    overlap = min(row.end, end) - max(row.start, begin)
                    if length > 0:
                        inside.append(done * max(0.0, overlap) / length)
                    elif begin < row.end <= end:
                        inside.append(done)
            booked = booked_of.get(trial.number, 0.0)
            if not math.isclose(booked, total, rel_tol=1e-12):
                raise BrokenLaw(
                    ONCE, f"trial {trial.number}: {booked!r} operations in the books, {total!r} done", trial.number
                )
        found = score(kept).flops_per_second
        expected = math.fsum(inside) / (end - begin) if end > begin else None
        if (found is None) != (expected is None) or (found and not math.isclose(found, expected or 0.0, rel_tol=1e-9)):
            raise BrokenLaw(SCORE, f"{found!r} FLOPS, by the work done {expected!r}")
