"""Rules that every line of a journal must satisfy, given the lines before it.

The hash chain proves only that lines are unchanged. These rules refuse lines that no driver can have written, before they are
folded. The code is independent of `evolve` and `decide`. The rules cannot prove that the counted work was done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from aiperf.journal import events, first_line
from aiperf.journal.events import LARGEST, LARGEST_SECONDS
from aiperf.journal.legality import IllegalLine, Presence, TrialState, check_state, must, must_be_integer


@dataclass(slots=True)
class _Worker:
    ranks: int
    trial: int | None = None
    waiting: set[int] = field(default_factory=set)
    """Trials proposed for it and not started."""
    requested: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Trial:
    """Trial that is not settled."""

    made_for: int
    """Worker that it was proposed for."""
    batch_size: int
    round: int | None = None
    """Round of its attempts. None before the first attempt."""
    attempt: int = 0
    worker: int | None = None
    """Worker that trains it. None if it waits or was lost."""
    epoch: int = 0
    """Current or next epoch."""
    saved: int = 0
    """Last epoch after which it can be resumed."""
    training_images: int = 0
    validation_images: int = 0
    worked: float = 0.0
    """Earliest start of its next interval."""
    has_worked: bool = False
    """True if its attempt has reported work."""
    best: float = -1.0
    epochs: int | None = None
    """Exact number of epochs of the followed trial. None if it follows none."""


@dataclass(slots=True)
class Validator:
    """Call `check` with each event in the journal's order, the first line included."""

    _lines: int = 0
    _at: float = 0.0
    _is_over: bool = False
    _ended: str | None = None
    _training_images: int = 0
    _validation_images: int = 0
    _duration: float = 0.0
    _follows: bool = False
    """True if the run trains the trials of another run."""
    _workers: dict[int, _Worker] = field(default_factory=dict)
    _seen_workers: set[int] = field(default_factory=set)
    _is_predicted: bool = False
    _requests: dict[int, events.ProposalRequested] = field(default_factory=dict)
    _states: dict[int, TrialState] = field(default_factory=dict)
    """State of each requested number."""
    _trials: dict[int, _Trial] = field(default_factory=dict)
    _corrupt: set[str] = field(default_factory=set)
    """Names of the corrupt files since the last resume."""

    def state_of(self, number: int) -> TrialState | None:
        return self._states.get(number)

    def attempt_of(self, trial: int) -> int:
        return self._trials[trial].attempt

    def made_for(self, trial: int) -> int:
        return self._trials[trial].made_for

    def presence_of(self, worker: int) -> Presence:
        if worker in self._workers:
            return "idle" if self._workers[worker].trial is None else "training"
        return "lost" if worker in self._seen_workers else "unknown"

    def check(self, event: events.AnyEvent) -> None:
        """Check the next line. Raise IllegalLine if it breaks a rule. Do not use the validator after an error."""
        at = event.at
        if not self._at <= at <= LARGEST_SECONDS:
            raise IllegalLine(f"times must not decrease. The line before has {self._at!r} s, this line has {at!r} s")
        if self._is_over and type(event) is not events.RunResumed:
            raise IllegalLine(f"only RunResumed may follow the end of a run. This line has {type(event).__name__}")
        if type(event) is events.Progress:  # nearly all lines are of these two types
            self._work(event, event)
        elif type(event) is events.EpochFinished:
            self._epoch(event)
        else:
            if self._lines:
                check_state(event, self)
            self._other(event)
        self._at = at
        self._lines += 1

    def _other(self, event: events.AnyEvent) -> None:
        match event:
            case events.RunStarted():
                self._started(event)
            case events.RunResumed():
                self._resumed(event)
            case events.RunEnded():
                self._ends(event)
            case events.WorkerJoined():
                self._joined(event)
            case events.WorkerLost():
                self._remove_worker(event.worker)
            case events.NodeChecked():
                first_line.check_shape("readings", event.readings, dict[str, first_line.ReadingFacts])
                must(event.excluded <= bool(event.faults), "an excluded node must have a fault", "none")
            case events.ScorePredicted():
                self._predicted(event)
            case events.HelperLost():
                is_known = event.helper in ("recorder", "generator")
                must(is_known, "helper must be 'recorder' or 'generator'", repr(event.helper))
            case events.ProposalRequested():
                self._request(event)
            case events.TrialProposed():
                self._propose(event)
            case events.TrialRejected():
                self._answered(event.number)
                self._states[event.number] = TrialState.REJECTED
            case events.TrialStarted():
                self._start(event)
            case events.TrialPrepared():
                self._prepared(event)
            case events.BatchReduced():
                self._reduced(event)
            case events.TrialFinished():
                self._finished(event)
            case events.TrialLost():
                self._free(event.trial)
                self._states[event.trial] = TrialState.LOST
            case events.TrialFailed():
                if event.cause in ("divergence", "memory", "network"):
                    is_running = self._states[event.trial] is TrialState.RUNNING
                    must(is_running, f"a failure by {event.cause} must end a running attempt", "no running attempt")
                self._settle(event.trial, TrialState.FAILED)
            case events.CheckpointDropped():
                if event.trial in self._trials:
                    self._trials[event.trial].saved = 0
            case events.CheckpointWritten():
                trial = self._trials[event.trial]
                must_be_integer("epoch", event.epoch, trial.saved + 1, trial.epoch - 1)
                trial.saved = event.epoch
            case events.ImagesSkipped():
                self._skipped(event)
            case (
                events.WorkerNotStarted()
                | events.CeilingMeasured()
                | events.CheckpointNotWritten()
                | events.TrialHeartbeat()
                | events.StepsProfiled()
            ):
                pass  # the table and the ranges of the fields are all their rules
            case events.Progress() | events.EpochFinished():
                raise AssertionError("handled by the caller")
            case _:
                assert_never(event)

    def _started(self, event: events.RunStarted) -> None:
        first_line.check_first_line(event)
        self._duration = event.duration_seconds
        self._follows = event.follows is not None
        self._training_images = event.dataset["training_images"]
        self._validation_images = event.dataset["validation_images"]

    def _skipped(self, event: events.ImagesSkipped) -> None:
        repeated = next((name for name in event.files if name in self._corrupt), None)
        must(repeated is None, "a corrupt file must be reported once between two resumes", repr(repeated))
        self._corrupt.update(event.files)
        must(
            event.images == len(self._corrupt) <= self._training_images + self._validation_images,
            f"images must be the number of corrupt files since the last resume, {len(self._corrupt)}, within the data set",
            repr(event.images),
        )

    def _resumed(self, event: events.RunResumed) -> None:
        self._corrupt.clear()
        first_line.check_shape("machine", event.machine, first_line.MachineFacts)
        must(self._ended != "duration", "a run must not be resumed after its declared time", "RunResumed")
        must(event.cut_sha256 is not None or not event.rolled_back_lines, "a rollback must have cut_sha256", "none")
        since = event.at - self._at
        must(
            abs(event.down_seconds - since) <= 1e-6,
            f"down_seconds must be the time since the line before, {since!r} s",
            repr(event.down_seconds),
        )
        self._is_over, self._ended = False, None
        for worker in list(self._workers):
            self._remove_worker(worker)

    def _ends(self, event: events.RunEnded) -> None:
        if event.reason == "duration" and event.at < self._duration:
            raise IllegalLine(
                f"a run that reached its declared end must end at {self._duration!r} s, but this line has {event.at!r} s: "
                "the journal is damaged or was changed"
            )
        self._is_over, self._ended = True, event.reason

    def _joined(self, event: events.WorkerJoined) -> None:
        must(
            not event.hosts or event.hosts[0] == event.host,
            f"the first of hosts must be host, {event.host!r}",
            repr(event.hosts),
        )
        first_line.check_shape("machine", event.machine, first_line.MachineFacts)
        self._seen_workers.add(event.worker)
        self._workers[event.worker] = _Worker(event.ranks)

    def _remove_worker(self, number: int) -> None:
        worker = self._workers.pop(number)
        for request in worker.requested:
            del self._requests[request]
            self._states[request] = TrialState.REJECTED
        for trial in worker.waiting:
            del self._trials[trial]
            self._states[trial] = TrialState.WITHDRAWN
        if worker.trial is not None:
            self._trials[worker.trial].worker = None
            self._states[worker.trial] = TrialState.LOST

    def _predicted(self, event: events.ScorePredicted) -> None:
        must(not self._is_predicted, "a score must be predicted once", "a second prediction")
        is_first = not self._states and not self._workers
        must(is_first, "a score must be predicted before the first worker", "a later line")
        first_line.check_shape("prediction", event.prediction, first_line.PredictedFigures)
        self._is_predicted = True

    def _request(self, event: events.ProposalRequested) -> None:
        must(event.number == len(self._states), f"the next proposal is number {len(self._states)}", repr(event.number))
        must(
            event.position == self._lines,
            f"position must be the number of lines before this line, {self._lines}",
            repr(event.position),
        )
        must(
            (event.follows is not None) == self._follows,
            f"follows must be {'a trial of the list' if self._follows else 'null in a run that searches'}",
            repr(event.follows),
        )
        self._requests[event.number] = event
        self._states[event.number] = TrialState.REQUESTED
        self._workers[event.worker].requested.add(event.number)

    def _answered(self, number: int) -> events.ProposalRequested:
        request = self._requests.pop(number)
        self._workers[request.worker].requested.discard(number)
        return request

    def _propose(self, event: events.TrialProposed) -> None:
        request = self._answered(event.number)
        first_line.check_numbers("morphs", event.morphs)
        first_line.check_numbers("pruned", event.pruned)
        must(
            (event.position, event.seed) == (request.position, request.seed),
            f"position and seed must be those of the request, {request.position} and {request.seed}",
            f"{event.position!r} and {event.seed!r}",
        )
        must(
            event.kernel_size is None or event.tuned_by in ("", "startup", "tpe"),
            "tuned_by must name the origin of the kernel size",
            repr(event.tuned_by),
        )
        follows = event.follows
        followed = None if follows is None else follows.trial
        must(
            followed == request.follows,
            f"follows must be the trial of the request, {request.follows!r}",
            repr(followed),
        )
        if follows is not None:
            must_be_integer("follows.epochs", follows.epochs, 1, LARGEST)
        self._states[event.number] = TrialState.WAITING
        self._trials[event.number] = _Trial(
            request.worker, event.batch_size, epochs=None if follows is None else follows.epochs
        )
        self._workers[request.worker].waiting.add(event.number)

    def _start(self, event: events.TrialStarted) -> None:
        worker, trial = self._workers[event.worker], self._trials[event.trial]
        must(event.epoch == trial.saved + 1, f"the attempt must start at epoch {trial.saved + 1}", repr(event.epoch))
        must(event.batch_size == trial.batch_size, f"batch_size must be {trial.batch_size}", repr(event.batch_size))
        worker.waiting.discard(event.trial)
        if trial.round is None:
            trial.round = event.round
        must(event.round == trial.round, f"all attempts of a trial have one round, {trial.round}", repr(event.round))
        worker.trial, trial.worker = event.trial, event.worker
        self._states[event.trial] = TrialState.RUNNING
        trial.attempt, trial.epoch, trial.worked = event.attempt, event.epoch, event.at
        trial.training_images = trial.validation_images = 0
        trial.has_worked = False

    def _prepared(self, event: events.TrialPrepared) -> None:
        trial = self._trials[event.trial]
        assert trial.worker is not None
        must_be_integer("ranks", event.ranks, 1, self._workers[trial.worker].ranks)
        if not trial.has_worked:  # otherwise the message arrived after those of its work
            trial.worked = event.at

    def _work(self, event: events.Progress | events.EpochFinished, work: events.Work) -> _Trial:
        trial = self._trials.get(event.trial)
        if trial is None or trial.attempt != event.attempt or trial.worker is None:
            check_state(event, self)
            raise AssertionError("the table refuses it")
        if trial.worker != work.worker:
            raise IllegalLine(f"an attempt must work on its worker, {trial.worker}. This line has {work.worker!r}")
        if event.epoch != trial.epoch:
            raise IllegalLine(f"the current epoch is {trial.epoch}. This line has {event.epoch!r}")
        start, end = work.start, work.end
        if not trial.worked <= start <= end <= event.at:
            raise IllegalLine(
                f"an interval must not start before the end of the previous interval, {trial.worked!r} s, and must not end "
                f"after the time of its line, {event.at!r} s. This line has {start!r} to {end!r} s"
            )
        trial.worked, trial.has_worked = end, True
        training, validation = work.training_images, work.validation_images
        trained = trial.training_images = trial.training_images + training
        validated = trial.validation_images = trial.validation_images + validation
        if training < 0 or validation < 0 or trained > self._training_images or validated > self._validation_images:
            raise IllegalLine(
                f"an epoch has at most {self._training_images} training and {self._validation_images} validation samples. "
                f"This line has {training!r} and {validation!r}, the epoch {trained} and {validated}"
            )
        length = end - start
        spent = events.clocks(work)
        if not (min(spent) >= 0 and max(spent) <= length):
            named = dict(zip(events.CLOCKS, spent, strict=True))
            raise IllegalLine(
                f"times within an interval must be from 0 to its length, {length!r} s. This line has {named}"
            )
        return trial

    def _epoch(self, event: events.EpochFinished) -> None:
        if event.interval is not None:
            trial = self._work(event, event.interval)
        else:
            check_state(event, self)
            trial = self._trials[event.trial]
            if event.epoch != trial.epoch:
                raise IllegalLine(f"the current epoch is {trial.epoch}. This line has {event.epoch!r}")
        if event.regions or event.missing_regions:
            must(event.interval is not None, "evaluated regions need an interval", repr(event.interval))
        if trial.epochs is not None and event.epoch > trial.epochs:
            raise IllegalLine(f"the followed trial has {trial.epochs} epochs. This line has epoch {event.epoch!r}")
        if event.accuracy > trial.best:
            trial.best = event.accuracy
        if event.checkpoint:
            trial.saved = event.epoch
        trial.epoch += 1
        trial.training_images = trial.validation_images = 0

    def _reduced(self, event: events.BatchReduced) -> None:
        trial = self._trials[event.trial]
        must(
            event.to_batch_size < min(event.from_batch_size, trial.batch_size),
            f"a reduced batch must be smaller than {trial.batch_size}",
            f"{event.from_batch_size!r} to {event.to_batch_size!r}",
        )
        trial.batch_size = event.to_batch_size
        trial.training_images = trial.validation_images = 0

    def _finished(self, event: events.TrialFinished) -> None:
        trial = self._trials[event.trial]
        must(
            trial.epochs is None or trial.epoch > trial.epochs,
            f"the trial must finish after the {trial.epochs} epochs of the followed trial",
            repr(trial.epoch - 1),
        )
        must(event.accuracy <= trial.best, f"no epoch of the trial is above {trial.best!r}", repr(event.accuracy))
        self._settle(event.trial, TrialState.FINISHED)

    def _settle(self, number: int, state: TrialState) -> None:
        self._free(number)
        trial = self._trials.pop(number)
        self._states[number] = state
        if trial.attempt == 0:
            self._workers[trial.made_for].waiting.discard(number)

    def _free(self, number: int) -> None:
        trial = self._trials[number]
        if trial.worker is not None:
            self._workers[trial.worker].trial = None
            trial.worker = None
