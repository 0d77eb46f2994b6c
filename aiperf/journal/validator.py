"""Rules that every line of a journal must satisfy, given the lines before it.

The hash chain proves only that lines are unchanged since they were written. Anybody can write a complete chained file. These
rules refuse lines that the driver's rules cannot have produced, before they are folded: values out of range, and unknown
workers, trials, attempts and epochs. Each rule costs a few comparisons. The code is independent of `evolve` and `decide`. The
rules cannot prove that the counted work was done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from aiperf.journal import events
from aiperf.journal.descriptions import MachineFacts, ReadingFacts, check_shape
from aiperf.journal.first_line import check_first_line
from aiperf.journal.lawful import LARGEST, LARGEST_COUNT, LARGEST_SECONDS, ImpossibleLine, must, seconds, whole


@dataclass(slots=True)
class _Worker:
    """Worker that is present."""

    ranks: int
    trial: int | None = None
    waiting: set[int] = field(default_factory=set)
    """Trials proposed for it and not started."""
    requested: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Trial:
    """Trial that is not settled."""

    wanted_by: int
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
    """Images of the current epoch."""
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
    """Validator of a journal. Call `check` with each event in the journal's order, the first line included."""

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
    _requests: dict[int, events.ProposalRequested] = field(default_factory=dict)
    _requested: int = 0
    _proposed: set[int] = field(default_factory=set)
    _trials: dict[int, _Trial] = field(default_factory=dict)
    _corrupt: set[str] = field(default_factory=set)
    """Names of the corrupt files since the last resume."""

    def check(self, event: events.AnyEvent) -> None:
        """Check the next line.

        Raises:
            ImpossibleLine: the line breaks a rule.
        """
        at = event.at
        if not self._at <= at <= LARGEST_SECONDS:
            raise ImpossibleLine(f"time never runs back; after {self._at!r} s follows {at!r} s")
        if self._is_over and type(event) is not events.RunResumed:
            raise ImpossibleLine(f"nothing but a resume follows the end of a run; found {type(event).__name__}")
        if type(event) is events.Progress:  # nearly all lines are of these two types
            self._work(event, event)
        elif type(event) is events.EpochFinished:
            self._epoch(event)
        else:
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
                self._there(event.worker)
                self._gone(event.worker)
            case events.WorkerNotStarted():
                whole("failures", event.failures, 0, LARGEST)
            case events.NodeChecked():
                _checked(event)
            case events.HelperLost():
                self._there(event.worker)
                is_known = event.helper in ("recorder", "generator")
                must(is_known, "a worker's helpers are 'recorder' and 'generator'", repr(event.helper))
            case events.CeilingMeasured():
                self._there(event.worker)
                whole("batch_size", event.batch_size, 1, LARGEST)
            case events.ProposalRequested():
                self._request(event)
            case events.TrialProposed():
                self._propose(event)
            case events.TrialRejected():
                self._answered(event.number)
            case events.TrialStarted():
                self._start(event)
            case events.TrialPrepared():
                self._prepared(event)
            case events.BatchReduced():
                self._reduced(event)
            case events.TrialFinished():
                self._finished(event)
            case events.TrialLost():
                self._running(event.trial, event.attempt)
                self._free(event.trial)
            case events.TrialFailed():
                self._failed(event)
            case events.CheckpointDropped():
                self._dropped(event)
            case events.CheckpointWritten():
                trial = self._running(event.trial, event.attempt)
                whole("epoch", event.epoch, trial.saved + 1, trial.epoch - 1)
                trial.saved = event.epoch
            case events.CheckpointNotWritten():
                self._running(event.trial, event.attempt)
                whole("epoch", event.epoch, 1, LARGEST)  # messages of two epochs may arrive in any order
            case events.TrialHeartbeat():
                self._running(event.trial, event.attempt)
            case events.ImagesSkipped():
                if event.worker not in self._seen_workers:
                    raise ImpossibleLine(
                        f"images are skipped by a worker that joined; worker {event.worker!r} never did"
                    )
                self._skipped(event)
            case events.Progress() | events.EpochFinished():
                raise AssertionError("it was taken before")
            case _:
                assert_never(event)

    def _started(self, event: events.RunStarted) -> None:
        must(self._lines == 0, "a run begins once, in its first line", "another RunStarted")
        check_first_line(event)
        self._duration = event.duration_seconds
        self._follows = event.follows is not None
        self._training_images = event.dataset["training_images"]
        self._validation_images = event.dataset["validation_images"]

    def _skipped(self, event: events.ImagesSkipped) -> None:
        again = next((name for name in event.files if name in self._corrupt), None)
        must(again is None, "a corrupt file is reported once between two resumes", repr(again))
        self._corrupt.update(event.files)
        must(
            event.images == len(self._corrupt) <= self._training_images + self._validation_images,
            f"images are the corrupt files since the last resume, {len(self._corrupt)}, within the data set",
            repr(event.images),
        )

    def _resumed(self, event: events.RunResumed) -> None:
        self._corrupt.clear()
        check_shape("machine", event.machine, MachineFacts)
        must(self._ended != "duration", "a run whose declared time is over is not resumed", "RunResumed after its end")
        seconds("down_seconds", event.down_seconds)
        seconds("clock_stepped_back_seconds", event.clock_stepped_back_seconds)
        seconds("clock_stepped_forward_seconds", event.clock_stepped_forward_seconds)
        whole("rolled_back_lines", event.rolled_back_lines, 0, LARGEST_COUNT)
        if event.rolled_back_lines:
            must(event.cut_sha256 is not None, "what was rolled back has a hash", "none")
        since = event.at - self._at
        must(
            abs(event.down_seconds - since) <= 1e-6,
            f"down_seconds is the time since the line before, {since!r} s",
            repr(event.down_seconds),
        )
        self._is_over, self._ended = False, None
        for worker in list(self._workers):
            self._gone(worker)

    def _ends(self, event: events.RunEnded) -> None:
        if event.reason == "duration" and event.at < self._duration:
            raise ImpossibleLine(f"a run's time is over after its {self._duration!r} s; it ended at {event.at!r} s")
        for name, flops in event.measured_matmul_flops.items():
            is_known = name.isdecimal() and int(name) in self._seen_workers
            must(is_known, "what is measured after the end is a worker's that joined", repr(name))
            must(0 < flops <= LARGEST_COUNT, "a matrix product's rate is a number of FLOPS", repr(flops))
        self._is_over, self._ended = True, event.reason

    def _joined(self, event: events.WorkerJoined) -> None:
        whole("worker", event.worker, 0, LARGEST)
        whole("ranks", event.ranks, 1, LARGEST)
        whole("device_memory_bytes", event.device_memory_bytes, 0, LARGEST_COUNT)
        must(
            not event.hosts or event.hosts[0] == event.host,
            f"the first of a worker's hosts is the one that leads, {event.host!r}",
            repr(event.hosts),
        )
        check_shape("machine", event.machine, MachineFacts)
        if event.worker in self._seen_workers:
            raise ImpossibleLine(f"a worker's number is its own for ever; {event.worker!r} joins once more")
        self._seen_workers.add(event.worker)
        self._workers[event.worker] = _Worker(event.ranks)

    def _there(self, worker: int) -> _Worker:
        found = self._workers.get(worker)
        if found is None:
            raise ImpossibleLine(f"this happens to a worker that is present; worker {worker!r} is not")
        return found

    def _gone(self, worker: int) -> None:
        held = self._workers.pop(worker)
        for number in held.requested:
            del self._requests[number]
        for number in held.waiting:
            del self._trials[number]
        if held.trial is not None:
            self._trials[held.trial].worker = None

    def _request(self, event: events.ProposalRequested) -> None:
        worker = self._there(event.worker)
        must(
            event.number == self._requested, f"proposals are numbered on, next is {self._requested}", repr(event.number)
        )
        whole("round", event.round, 1, LARGEST)
        must(
            event.position == self._lines,
            f"position is the number of lines before this one, {self._lines}",
            repr(event.position),
        )
        must(
            (event.follows is not None) == self._follows,
            f"a run asks {'for trials of the run that it follows' if self._follows else 'a searcher'}",
            repr(event.follows),
        )
        self._requested += 1
        self._requests[event.number] = event
        worker.requested.add(event.number)

    def _answered(self, number: int) -> events.ProposalRequested:
        request = self._requests.pop(number, None)
        if request is None:
            raise ImpossibleLine(f"a proposal answers a request that is open; there is none of number {number!r}")
        self._workers[request.worker].requested.discard(number)
        return request

    def _propose(self, event: events.TrialProposed) -> None:
        request = self._answered(event.number)
        if (event.position, event.seed) != (request.position, request.seed):
            raise ImpossibleLine(
                f"a proposal has its request's position and seed, {request.position} and {request.seed}; "
                f"found {event.position!r} and {event.seed!r}"
            )
        parent = event.parent
        if parent is not None and not (parent < event.number and parent in self._proposed):
            raise ImpossibleLine(f"a parent was proposed before its child; trial {event.number} names {parent!r}")
        whole("batch_size", event.batch_size, 1, LARGEST)
        if event.kernel_size is not None:
            whole("kernel_size", event.kernel_size, 1, LARGEST)
        if event.own_kernel is not None:
            whole("own_kernel", event.own_kernel, 1, LARGEST)
        must(
            event.kernel_size is None or event.tuned_by in ("", "startup", "tpe"),
            "a kernel size is tuned by someone",
            repr(event.tuned_by),
        )
        for name in events.COUNTS:
            whole(name, getattr(event, name), 0, LARGEST_COUNT)
        seconds("seconds", event.seconds)
        follows = event.follows
        found = None if follows is None else follows.trial
        must(
            found == request.follows, f"a proposal is of the trial that was asked for, {request.follows!r}", repr(found)
        )
        if follows is not None:
            whole("follows.epochs", follows.epochs, 1, LARGEST)
            whole("follows.heirs", follows.heirs, 0, LARGEST)
        self._proposed.add(event.number)
        self._trials[event.number] = _Trial(
            request.worker, event.batch_size, epochs=None if follows is None else follows.epochs
        )
        self._workers[request.worker].waiting.add(event.number)

    def _start(self, event: events.TrialStarted) -> None:
        worker, trial = self._there(event.worker), self._open(event.trial)
        must(
            worker.trial is None,
            "a worker trains one trial at a time",
            f"trial {worker.trial} on worker {event.worker}",
        )
        must(trial.worker is None, "a trial is trained once at a time", f"an attempt on worker {trial.worker}")
        must(
            event.attempt == trial.attempt + 1,
            f"attempts are counted on, next is {trial.attempt + 1}",
            repr(event.attempt),
        )
        must(event.epoch == trial.saved + 1, f"an attempt begins after epoch {trial.saved}", f"epoch {event.epoch!r}")
        must(event.batch_size == trial.batch_size, f"its batch is {trial.batch_size}", repr(event.batch_size))
        if trial.attempt == 0:
            must(
                trial.wanted_by == event.worker,
                f"a trial is first tried on the worker it was proposed for, {trial.wanted_by}",
                repr(event.worker),
            )
            worker.waiting.discard(event.trial)
        whole("round", event.round, 1, LARGEST)
        if trial.round is None:
            trial.round = event.round
        must(
            event.round == trial.round,
            f"all attempts at a trial are of one round, {trial.round}",
            repr(event.round),
        )
        worker.trial, trial.worker = event.trial, event.worker
        trial.attempt, trial.epoch, trial.worked = event.attempt, event.epoch, event.at
        trial.training_images = trial.validation_images = 0
        trial.has_worked = False

    def _open(self, number: int) -> _Trial:
        trial = self._trials.get(number)
        if trial is None:
            raise ImpossibleLine(
                f"this happens to a trial that was proposed and is not settled; trial {number!r} is none"
            )
        return trial

    def _running(self, number: int, attempt: int) -> _Trial:
        trial = self._open(number)
        if trial.worker is None or trial.attempt != attempt:
            running = "none" if trial.worker is None else f"attempt {trial.attempt}"
            raise ImpossibleLine(
                f"an attempt does this while it is running; of trial {number} {running} is, found {attempt!r}"
            )
        return trial

    def _prepared(self, event: events.TrialPrepared) -> None:
        trial = self._running(event.trial, event.attempt)
        assert trial.worker is not None
        whole("ranks", event.ranks, 1, self._workers[trial.worker].ranks)
        for name in ("build_seconds", "weights_seconds", "compile_seconds"):
            seconds(name, getattr(event, name))
        if not trial.has_worked:  # otherwise the message arrived after those of its work
            trial.worked = event.at

    def _work(self, event: events.Progress | events.EpochFinished, work: events.Work) -> _Trial:
        trial = self._trials.get(event.trial)
        if trial is None or trial.attempt != event.attempt or trial.worker is None:
            self._running(event.trial, event.attempt)
            raise AssertionError("refused")
        if trial.worker != work.worker:
            raise ImpossibleLine(f"an attempt works on its worker, {trial.worker}; found {work.worker!r}")
        if event.epoch != trial.epoch:
            raise ImpossibleLine(f"epochs follow one another, in progress is {trial.epoch}; found {event.epoch!r}")
        start, end = work.start, work.end
        if not trial.worked <= start <= end <= event.at:
            raise ImpossibleLine(
                f"an interval begins where the one before it ended or later, at {trial.worked!r} s, and ends by its line; "
                f"found {start!r} to {end!r} s in a line of {event.at!r} s"
            )
        trial.worked, trial.has_worked = end, True
        training, validation = work.training_images, work.validation_images
        trained = trial.training_images = trial.training_images + training
        validated = trial.validation_images = trial.validation_images + validation
        if training < 0 or validation < 0 or trained > self._training_images or validated > self._validation_images:
            raise ImpossibleLine(
                f"an epoch is at most {self._training_images} training and {self._validation_images} validation images; "
                f"found {training!r} and {validation!r}, {trained} and {validated} in all"
            )
        length = end - start
        if not (
            0 <= work.busy_seconds <= length
            and 0 <= work.communication_seconds <= length
            and 0 <= work.validation_seconds <= length
            and 0 <= work.input_seconds <= length
            and 0 <= work.checkpoint_seconds <= length
        ):
            spent = {name: getattr(work, name) for name in _CLOCKS}
            raise ImpossibleLine(
                f"nothing in an interval took longer than its {length!r} s, or less than none; found {spent}"
            )
        return trial

    def _epoch(self, event: events.EpochFinished) -> None:
        if event.interval is not None:
            trial = self._work(event, event.interval)
        else:
            trial = self._running(event.trial, event.attempt)
            if event.epoch != trial.epoch:
                raise ImpossibleLine(f"epochs follow one another, in progress is {trial.epoch}; found {event.epoch!r}")
        if not 0 <= event.accuracy <= 1:
            raise ImpossibleLine(f"an accuracy lies between 0 and 1; found {event.accuracy!r}")
        if trial.epochs is not None and event.epoch > trial.epochs:
            raise ImpossibleLine(
                f"a trial has the {trial.epochs} epochs of the one that it follows; found {event.epoch!r}"
            )
        if event.accuracy > trial.best:
            trial.best = event.accuracy
        if event.checkpoint:
            trial.saved = event.epoch
        trial.epoch += 1
        trial.training_images = trial.validation_images = 0

    def _reduced(self, event: events.BatchReduced) -> None:
        trial = self._running(event.trial, event.attempt)
        must(
            1 <= event.to_batch_size < min(event.from_batch_size, trial.batch_size),
            f"a reduced batch is smaller than {trial.batch_size}",
            f"{event.from_batch_size!r} to {event.to_batch_size!r}",
        )
        trial.batch_size = event.to_batch_size
        trial.training_images = trial.validation_images = 0

    def _finished(self, event: events.TrialFinished) -> None:
        trial = self._open(event.trial)
        must(event.attempt == trial.attempt > 0, f"its attempt is {trial.attempt}", repr(event.attempt))
        must(
            trial.epochs is None or trial.epoch > trial.epochs,
            f"a trial has the {trial.epochs} epochs of the one that it follows when it finishes",
            repr(trial.epoch - 1),
        )
        for name in ("accuracy", "reported_accuracy"):
            value = getattr(event, name)
            must(0 <= value <= 1, f"{name} lies between 0 and 1", repr(value))
        must(
            event.accuracy <= trial.best,
            "a trial's accuracy was measured after one of its epochs",
            repr(event.accuracy),
        )
        self._settle(event.trial)

    def _failed(self, event: events.TrialFailed) -> None:
        if event.cause in ("divergence", "memory", "network"):
            trial = self._open(event.trial)
            must(trial.worker is not None, f"{event.cause} ends an attempt while it is running", "none is")
        self._settle(event.trial)

    def _dropped(self, event: events.CheckpointDropped) -> None:
        if event.trial not in self._proposed:
            raise ImpossibleLine(f"a checkpoint is of a trial that was proposed; there is no trial {event.trial!r}")
        if event.trial in self._trials:
            self._trials[event.trial].saved = 0

    def _settle(self, number: int) -> None:
        trial = self._open(number)
        self._free(number)
        del self._trials[number]
        if trial.attempt == 0 and trial.wanted_by in self._workers:
            self._workers[trial.wanted_by].waiting.discard(number)

    def _free(self, number: int) -> None:
        trial = self._trials[number]
        if trial.worker is not None:
            self._workers[trial.worker].trial = None
            trial.worker = None


def _checked(event: events.NodeChecked) -> None:
    check_shape("readings", event.readings, dict[str, ReadingFacts])
    must(event.excluded <= bool(event.faults), "a node is excluded for a fault", "none")
    for name in ("clock_offset_seconds", "clock_error_seconds"):
        value = getattr(event, name)
        must(value is None or abs(value) <= LARGEST_SECONDS, f"{name} is a number of seconds", repr(value))


_CLOCKS = ("busy_seconds", "communication_seconds", "validation_seconds", "input_seconds", "checkpoint_seconds")
