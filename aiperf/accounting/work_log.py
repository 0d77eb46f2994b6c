"""Work log of a run: the work intervals, workers and trials in its journal.

Each image of a (trial, epoch) counts once: when another attempt or a smaller batch restarts an epoch, its earlier work
becomes wasted. Work of an epoch that the end of the run cuts off counts.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from aiperf.accounting.intervals import IntervalTable, Window, valid_window
from aiperf.journal import events
from aiperf.journal.journal import folding


@dataclass(frozen=True, slots=True)
class Operations:
    """Floating-point operations of one image in a trial's network."""

    training: int
    """Forward and backward."""
    validation: int
    tensor_training: int
    """Convolutions and matrix products alone."""
    tensor_validation: int
    region: int = 0
    """One region that a detector evaluates. All its operations are tensor operations."""


@dataclass(slots=True)
class TrialRecord:
    operations: Operations
    proposed_for: int
    """Round of its proposal. A spare may be trained in a later round."""
    round: int
    is_of_start: bool
    """True for a trial of the starting network."""
    parameters: int
    batch_size: int
    """Images per accelerator and step in its last attempt."""
    outcome: str = "waiting"
    """'waiting', 'training', 'lost', 'failed', or the reason of its end."""
    reason: str | None = None
    """Reason of its last loss or of its failure."""
    worker: int | None = None
    attempts: int = 0
    started: float | None = None
    ended: float | None = None
    """End of its last attempt. None while it waits or is trained."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """Time of an attempt before its first image."""

    trial: int
    worker: int
    at: float
    started: float
    start_seconds: float
    """Seconds for building the module and loading its weights."""
    compile_seconds: float
    precision: str


SMALLEST_STEP_SECONDS = 1.0
"""Smaller differences of a wall clock are normal corrections. Larger ones count as a step."""


@dataclass(slots=True)
class _Open:
    record: TrialRecord
    worker: int
    ordered: float
    ranks: int
    worked: float | None
    """End of the attempt's last interval, or time of its preparation or order. None while no attempt is running."""
    epoch: int
    """Current or next epoch."""
    epochs: list[int] = field(default_factory=list)
    """Epoch of each interval. Restarting it turns the interval into wasted work."""
    rows: list[int] = field(default_factory=list)
    done_again: dict[int, int] = field(default_factory=dict)
    """Attempt number by epoch, for epochs started by a later attempt than the first."""
    unsealed: dict[int, events.EpochFinished] = field(default_factory=dict)
    """Counted evaluations without a sealed checkpoint, by epoch."""


@dataclass(frozen=True, slots=True)
class SealedEpoch:
    """Evaluation with the SHA-256 of its checkpoint's file in the journal, so that the file shows its quality."""

    evaluation: events.EpochFinished
    sha256: str


@dataclass(slots=True)
class BestByHalf:
    """Counted evaluations that were better on a half of the validation samples than all before, in their order."""

    chosen: list[tuple[float, events.Halves]] = field(default_factory=list)
    """(at, halves)."""
    is_complete: bool = True
    """False if an evaluation has no halves."""
    _best: tuple[float, float] = (-1.0, -1.0)

    def take(self, evaluation: events.EpochFinished) -> None:
        if evaluation.halves is None:
            self.is_complete = False
            return
        even, odd = evaluation.halves.accuracies
        if even > self._best[0] or odd > self._best[1]:
            self.chosen.append((evaluation.at, evaluation.halves))
            self._best = max(even, self._best[0]), max(odd, self._best[1])


@dataclass(slots=True)
class WorkLog:
    """Collected by `take` from the events of a journal."""

    started: events.RunStarted | None = None
    at: float = 0.0
    ended: events.RunEnded | None = None
    intervals: IntervalTable = field(default_factory=IntervalTable)
    presences: list[WorkerPresence] = field(default_factory=list)
    preparations: list[Preparation] = field(default_factory=list)
    idle_spans: list[IdleSpan] = field(default_factory=list)
    accuracies: list[tuple[float, float]] = field(default_factory=list)
    """(at, quality) of every counted evaluation that was better than all before."""
    sealed: list[SealedEpoch] = field(default_factory=list)
    """The same of evaluations with a sealed checkpoint. In a journal with seals only these give the quality."""
    best_by_half: BestByHalf = field(default_factory=BestByHalf)
    sealed_by_half: BestByHalf = field(default_factory=BestByHalf)
    """The same of evaluations with a sealed checkpoint."""
    last_epoch: events.EpochFinished | None = None
    """Counted evaluation of the highest epoch, the last one if it was repeated."""
    last_sealed: SealedEpoch | None = None
    """`last_epoch`, if its checkpoint is sealed."""
    missing_regions: int = 0
    """Regions of training that a detector could not sample, but whose operations are counted."""
    finished: list[tuple[float, int]] = field(default_factory=list)
    """(at, round) of every finished trial."""
    start_finished: bool = False
    """True if a trial of the starting network finished."""
    failed: int = 0
    failed_unlost: int = 0
    """Failed trials without a lost attempt as the last one: diverged, out of memory, or given up before an attempt."""
    rejected: int = 0
    unanswered: int = 0
    """Rejected proposals without an answer, because the generator had died or was silent."""
    lost_workers: int = 0
    lost_helpers: list[tuple[str, int]] = field(default_factory=list)
    """(helper, worker) of each loss."""
    failed_starts: int = 0
    """Failed starts of workers."""
    hosts_without_worker: dict[str, str] = field(default_factory=dict)
    """First reason by host, for hosts with a failed start or without a worker of the run."""
    lost_attempts: int = 0
    attempts_lost_with_workers: int = 0
    """Running attempts that were lost with their worker. Excluded: workers released or ended with a driver."""
    unwritten: list[events.CheckpointNotWritten] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Corrupt images, each with the error of its decoder."""
    down_seconds: float = 0.0
    clock_steps: list[float] = field(default_factory=list)
    """Seconds by which the wall clock was set between two drivers. Negative: back."""
    rollbacks: list[tuple[float, int]] = field(default_factory=list)
    """(at, lines) of every rollback of the journal."""
    trials: dict[int, TrialRecord] = field(default_factory=dict)
    present: dict[int, WorkerPresence] = field(default_factory=dict)
    _open: dict[int, _Open] = field(default_factory=dict)
    _asked: dict[int, int] = field(default_factory=dict)
    """Round of each open request."""

    def take(self, event: events.AnyEvent) -> None:
        """Add an event that the reader has checked: only some contradictions raise LookupError or AssertionError here."""
        match event:
            case events.Progress():
                self._work(event, event)
            case events.EpochFinished():
                self._epoch(event)
            case events.ProposalRequested():
                self._asked[event.number] = event.round
            case events.TrialProposed():
                self._propose(event)
            case events.TrialRejected():
                self.rejected += 1
                self.unanswered += event.by in ("generator", "silence")
                self._asked.pop(event.number, None)
            case events.TrialStarted():
                self._start(event, self.present[event.worker])
            case events.TrialPrepared():
                self._prepare(event)
            case events.BatchReduced():
                opened = self._open[event.trial]
                self._waste(opened, opened.epoch)
                opened.record.batch_size = event.to_batch_size
            case events.TrialFinished():
                self._finish(event)
            case events.TrialFailed():
                self._fail(event)
            case events.TrialLost():
                self.lost_attempts += 1
                opened = self._open[event.trial]
                _lose(opened.record, event.at, event.reason)
                self._free(opened, event.at)
                self.present[opened.worker].attempt_lost = event.at
            case events.WorkerJoined():
                self._join(event)
            case events.WorkerLost():
                is_lost = event.cause != "released"
                self.lost_workers += is_lost
                presence = self.present.pop(event.worker)
                self.attempts_lost_with_workers += presence.trial is not None and is_lost
                self._leave(presence, event.at, event.reason)
            case events.WorkerNotStarted():
                self.failed_starts += event.failures > 0
                self.hosts_without_worker.setdefault(event.host, event.reason)
            case events.HelperLost():
                self.lost_helpers.append((event.helper, event.worker))
            case events.RunStarted():
                self.started = event
            case events.RunResumed():
                self._resume(event)
            case events.RunEnded():
                self.ended = event
            case events.CheckpointNotWritten():
                self.unwritten.append(event)
            case events.CheckpointWritten():
                self._seal(event)
            case events.ImagesSkipped():
                self.skipped.update(event.files)
            case (
                events.CeilingMeasured()
                | events.CheckpointDropped()
                | events.TrialHeartbeat()
                | events.StepsProfiled()
                | events.NodeChecked()
                | events.ScorePredicted()
            ):
                pass
            case _:
                assert_never(event)
        if event.at > self.at:
            self.at = event.at

    def _resume(self, event: events.RunResumed) -> None:
        # The killed driver's workers ended without an event: their time ends with the last line before.
        for presence in self.present.values():
            self._leave(presence, self.at, "the driver ended")
        self.present.clear()
        self.ended = None
        self.down_seconds += event.down_seconds
        step = event.clock_stepped_forward_seconds - event.clock_stepped_back_seconds
        if abs(step) >= SMALLEST_STEP_SECONDS:
            self.clock_steps.append(step)
        if event.rolled_back_lines:
            self.rollbacks.append((event.at, event.rolled_back_lines))

    def _join(self, event: events.WorkerJoined) -> None:
        presence = WorkerPresence(event.worker, event.host, event.device, event.ranks, event.at, free_since=event.at)
        self.present[event.worker] = presence
        self.presences.append(presence)

    def _propose(self, event: events.TrialProposed) -> None:
        tensor = event.tensor_forward_flops
        operations = Operations(
            event.forward_flops + event.backward_flops,
            event.validation_flops,
            tensor + event.tensor_backward_flops,
            tensor if event.region_flops == 0 else event.validation_flops,
            event.region_flops,
        )
        round_ = self._asked.pop(event.number)
        is_of_start = event.parent is None and not event.morphs
        self.trials[event.number] = TrialRecord(
            operations, round_, round_, is_of_start, event.parameters, event.batch_size
        )

    def _start(self, event: events.TrialStarted, presence: WorkerPresence) -> None:
        if presence.free_since is not None:
            self.idle_spans.append(IdleSpan("gap", presence.worker, presence.free_since, event.at))
        presence.free_since, presence.trial = None, event.trial
        presence.trials += 1
        record = self.trials[event.trial]
        record.round, record.batch_size = event.round, event.batch_size
        record.worker, record.attempts = event.worker, event.attempt
        record.started = event.at if record.started is None else record.started
        record.outcome, record.ended = "training", None
        opened, ranks = self._open.get(event.trial), presence.ranks
        if opened is None:
            self._open[event.trial] = _Open(record, event.worker, event.at, ranks, event.at, event.epoch)
        else:
            opened.worker, opened.ordered, opened.ranks = event.worker, event.at, ranks
            opened.worked, opened.epoch = event.at, event.epoch

    def _prepare(self, event: events.TrialPrepared) -> None:
        opened = self._open[event.trial]
        opened.ranks = event.ranks
        self.present[opened.worker].prepared(event.at, event.ranks)
        if opened.worked == opened.ordered:  # otherwise the message arrived after those of its work
            opened.worked = event.at
        self.preparations.append(
            Preparation(
                event.trial,
                opened.worker,
                event.at,
                opened.ordered,
                event.build_seconds + event.weights_seconds,
                event.compile_seconds,
                event.precision,
            )
        )

    def _epoch(self, event: events.EpochFinished) -> None:
        if event.interval is not None:
            self._work(event, event.interval, event.regions)
        self.missing_regions += event.missing_regions
        assert self.started is not None
        opened = self._open[event.trial]
        opened.epoch = event.epoch + 1
        if not counts(self.started, event):
            return
        evaluation = msgspec.structs.replace(event, interval=None)
        opened.unsealed[event.epoch] = evaluation
        if self.last_epoch is None or event.epoch >= self.last_epoch.epoch:
            self.last_epoch, self.last_sealed = evaluation, None
        if not self.accuracies or event.accuracy > self.accuracies[-1][1]:
            self.accuracies.append((event.at, event.accuracy))
        self.best_by_half.take(event)

    def _seal(self, event: events.CheckpointWritten) -> None:
        evaluation = self._open[event.trial].unsealed.pop(event.epoch, None)
        if evaluation is None or event.sha256 is None:
            return
        sealed = SealedEpoch(evaluation, event.sha256)
        if evaluation is self.last_epoch:
            self.last_sealed = sealed
        if not self.sealed or evaluation.accuracy > self.sealed[-1].evaluation.accuracy:
            self.sealed.append(sealed)
        self.sealed_by_half.take(evaluation)

    def _work(self, event: events.Progress | events.EpochFinished, work: events.Work, regions: int = 0) -> None:
        opened, epoch, attempt = self._open[event.trial], event.epoch, event.attempt
        if attempt > 1 and opened.done_again.get(epoch) != attempt:
            opened.done_again[epoch] = attempt
            self._waste(opened, epoch)
        opened.worked = work.end
        operations, training, validation = opened.record.operations, work.training_images, work.validation_images
        in_regions = regions * operations.region
        row = self.intervals.append(
            event.trial,
            epoch,
            work,
            opened.ranks,
            training * operations.training + validation * operations.validation + in_regions,
            training * operations.tensor_training + validation * operations.tensor_validation + in_regions,
        )
        opened.epochs.append(epoch)
        opened.rows.append(row)

    def _finish(self, event: events.TrialFinished) -> None:
        record = self.trials[event.trial]
        self.finished.append((event.at, record.round))
        self.start_finished |= record.is_of_start
        record.outcome, record.ended = event.reason, event.at
        self._settle(event.trial)

    def _fail(self, event: events.TrialFailed) -> None:
        self.failed += 1
        opened, record = self._open.get(event.trial), self.trials[event.trial]
        self.failed_unlost += opened is None or opened.worked is not None
        record.outcome, record.reason, record.ended = "failed", event.reason, event.at
        self._settle(event.trial)

    def _settle(self, trial: int) -> None:
        opened = self._open.pop(trial, None)
        if opened is not None and opened.worked is not None:
            self._free(opened, opened.worked)

    def _free(self, opened: _Open, since: float) -> None:
        presence = self.present[opened.worker]
        assert opened.worked is not None, "an attempt ends once"
        if since > opened.worked:
            self.idle_spans.append(IdleSpan("lost", presence.worker, opened.worked, since))
        opened.worked = None
        presence.free_since, presence.trial = since, None

    def _leave(self, presence: WorkerPresence, at: float, reason: str) -> None:
        presence.left, presence.left_reason = at, reason
        self.idle_spans += self.open_idle_spans(presence, at)
        if presence.trial is not None:
            opened = self._open[presence.trial]
            opened.worked = None
            _lose(opened.record, at, reason)

    def open_idle_spans(self, presence: WorkerPresence, at: float) -> list[IdleSpan]:
        """Return the current idle span of a present worker, as if it ended at `at`: one, or none if it has no length."""
        since = presence.free_since
        kind = "gap"
        if since is None:
            assert presence.trial is not None
            kind, since = "lost", self._open[presence.trial].worked
            assert since is not None, "a trial that a worker holds is running"
        return [IdleSpan(kind, presence.worker, since, at)] if at > since else []

    def _waste(self, opened: _Open, epoch: int) -> None:
        # Searched on demand: few epochs are repeated, and a list per epoch would cost more than the rest of the log.
        for done, row in zip(opened.epochs, opened.rows, strict=True):
            if done == epoch:
                self.intervals.waste(row)


def _lose(record: TrialRecord, at: float, reason: str) -> None:
    record.outcome, record.reason, record.ended = "lost", reason, at


def counts(started: events.RunStarted, evaluation: events.EpochFinished) -> bool:
    """Return True if an evaluation ended by the declared end. Later ones exist: a late message, or a late resume."""
    return evaluation.at <= started.duration_seconds


@contextmanager
def without_cycle_collection() -> Iterator[None]:
    """A fold makes millions of objects without cycles. The collector would take a fifth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def work_log(journal: Iterable[events.AnyEvent]) -> WorkLog:
    """Fold all events. Raise JournalDamaged if an event of a journal file contradicts earlier ones."""
    kept = WorkLog()
    with folding(journal):
        for event in journal:
            kept.take(event)
    return kept


@dataclass(slots=True)
class WorkerPresence:
    worker: int
    host: str
    device: str
    ranks: int
    joined: float
    left: float | None = None
    left_reason: str | None = None
    trials: int = 0
    """Number of attempts (starts of a training) assigned to it."""
    trial: int | None = None
    free_since: float | None = None
    """Time of its last trial's last image, or of its own start. None while it has a trial."""
    attempt_lost: float | None = None
    """Time of the last TrialLost of an attempt on it. None after the next one is prepared."""
    changes: list[tuple[float, int]] = field(default_factory=list)
    """(at, ranks from then on), if the worker lost a host or an accelerator and continued without it."""

    def prepared(self, at: float, ranks: int) -> None:
        """Missing ranks count as absent from the loss of the previous attempt, or from `at` if none was lost."""
        now = self.changes[-1][1] if self.changes else self.ranks
        if ranks != now:
            since = at if self.attempt_lost is None or ranks > now else self.attempt_lost
            self.changes.append((since, ranks))
        self.attempt_lost = None

    def spans(self) -> Iterator[tuple[float, float | None, int]]:
        """Yield (start, end, ranks) with constant ranks, in order. The last end is None if the worker has not left."""
        begins = [(self.joined, self.ranks), *self.changes]
        ends = [*(at for at, _ in self.changes), self.left]
        for (start, ranks), end in zip(begins, ends, strict=True):
            yield start, end, ranks


@dataclass(frozen=True, slots=True)
class IdleSpan:
    kind: str
    """'gap': without a trial. 'lost': between the last message of an attempt and its loss."""
    worker: int
    start: float
    end: float


def window(work_log: WorkLog, at: float | None = None) -> Window:
    """`at`: end of the window for a run that has not ended. Default: the last event."""
    assert work_log.started is not None
    end = work_log.at if at is None else at
    if work_log.ended is not None:
        end = work_log.ended.at
    return valid_window(work_log.started.warmup_seconds, work_log.started.duration_seconds, end)
