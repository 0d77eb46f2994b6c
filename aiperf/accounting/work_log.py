"""The work log of a run: every interval of the journal, and which of them count.

Each image of a (trial, epoch) counts once: when an epoch is begun again, by another attempt or with a smaller batch, what was
done of it before becomes wasted. An epoch that the end of the run cuts short counts as far as it went.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from aiperf.accounting.intervals import Intervals
from aiperf.accounting.presence import IdleSpan, Presence
from aiperf.accounting.trial_record import Operations, Preparation, TrialRecord
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
from aiperf.journal.journal import folding

SMALLEST_STEP_SECONDS = 1.0
"""A wall clock that differs by less is being kept right, and was not set."""


@dataclass(slots=True)
class _Open:
    """The work of an unsettled trial."""

    record: TrialRecord
    worker: int
    ordered: float
    """When the attempt was ordered."""
    ranks: int
    worked: float | None
    """End of the attempt's last interval, or when it was prepared or ordered; None while no attempt is running."""
    epoch: int
    """In progress, or next."""
    epochs: list[int] = field(default_factory=list)
    """Of each interval its epoch: when that is begun again, the interval turns into wasted work."""
    rows: list[int] = field(default_factory=list)
    """Of each interval its row."""
    done_again: dict[int, int] = field(default_factory=dict)
    """Of each epoch that a later attempt than the first has begun, that attempt."""


@dataclass(slots=True)
class WorkLog:
    """A fold: `take` each event in the journal's order."""

    started: RunStarted | None = None
    at: float = 0.0
    """Of the last line."""
    ended: RunEnded | None = None
    intervals: Intervals = field(default_factory=Intervals)
    presences: list[Presence] = field(default_factory=list)
    preparations: list[Preparation] = field(default_factory=list)
    idle_spans: list[IdleSpan] = field(default_factory=list)
    accuracies: list[tuple[float, float]] = field(default_factory=list)
    """(at, validation accuracy) of every evaluation that counts and was better than all before."""
    finished: list[tuple[float, int]] = field(default_factory=list)
    """(at, round) of every finished trial."""
    start_finished: bool = False
    """Whether a trial of the starting network came to its end."""
    failed: int = 0
    rejected: int = 0
    unanswered: int = 0
    """Of these, proposals that never came: their generator had died, or was silent."""
    lost_workers: int = 0
    lost_helpers: list[tuple[str, int]] = field(default_factory=list)
    """What they were, and of which worker."""
    failed_starts: int = 0
    """Of workers."""
    hosts_without_worker: dict[str, str] = field(default_factory=dict)
    """Hosts where a start failed, or that hold no worker of the run's, and the first reason there."""
    lost_attempts: int = 0
    unwritten: list[CheckpointNotWritten] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Corrupt images, each with what its decoder said."""
    down_seconds: float = 0.0
    clock_steps: list[float] = field(default_factory=list)
    """Seconds by which the wall clock was set between two drivers; below 0: back."""
    rollbacks: list[tuple[float, int]] = field(default_factory=list)
    """(at, lines) of every time that lines of the journal were taken back."""
    trials: dict[int, TrialRecord] = field(default_factory=dict)
    """All that were proposed."""
    _present: dict[int, Presence] = field(default_factory=dict)
    _open: dict[int, _Open] = field(default_factory=dict)
    _asked: dict[int, int] = field(default_factory=dict)
    """Of each proposal that is asked for its round."""

    def take(self, event: AnyEvent) -> None:
        """One more line of the journal."""
        match event:
            case Progress():
                self._work(event, event)
            case EpochFinished():
                self._epoch(event)
            case ProposalRequested():
                self._asked[event.number] = event.round
            case TrialProposed():
                self._propose(event)
            case TrialRejected():
                self.rejected += 1
                self.unanswered += event.by == "nobody"
                self._asked.pop(event.number, None)
            case TrialStarted():
                self._start(event, self._present[event.worker])
            case TrialPrepared():
                self._prepare(event)
            case BatchReduced():
                opened = self._open[event.trial]
                self._waste(opened, opened.epoch)
            case TrialFinished():
                self._finish(event)
            case TrialFailed():
                self._fail(event)
            case TrialLost():
                self.lost_attempts += 1
                opened = self._open[event.trial]
                _lose(opened.record, event.at, event.reason)
                self._free(opened, event.at)
            case WorkerJoined():
                self._join(event)
            case WorkerLost():
                self.lost_workers += not event.released
                self._leave(self._present.pop(event.worker), event.at, event.reason)
            case WorkerNotStarted():
                self.failed_starts += event.failures > 0
                self.hosts_without_worker.setdefault(event.host, event.reason)
            case HelperLost():
                self.lost_helpers.append((event.helper, event.worker))
            case RunStarted():
                self.started = event
            case RunResumed():
                self._resume(event)
            case RunEnded():
                self.ended = event
            case CheckpointNotWritten():
                self.unwritten.append(event)
            case ImagesSkipped():
                self.skipped.update(event.files)
            case CeilingMeasured() | CheckpointDropped() | CheckpointWritten() | TrialHeartbeat() | NodeChecked():
                pass
            case _:
                assert_never(event)
        if event.at > self.at:
            self.at = event.at

    def _resume(self, event: RunResumed) -> None:
        # The killed driver's workers went with it, unseen: their time ends with the last line before.
        for presence in self._present.values():
            self._leave(presence, self.at, "the driver ended")
        self._present.clear()
        self.ended = None
        self.down_seconds += event.down_seconds
        step = event.clock_stepped_forward_seconds - event.clock_stepped_back_seconds
        if abs(step) >= SMALLEST_STEP_SECONDS:
            self.clock_steps.append(step)
        if event.rolled_back_lines:
            self.rollbacks.append((event.at, event.rolled_back_lines))

    def _join(self, event: WorkerJoined) -> None:
        presence = Presence(event.worker, event.host, event.device, event.ranks, event.at, free_since=event.at)
        self._present[event.worker] = presence
        self.presences.append(presence)

    def _propose(self, event: TrialProposed) -> None:
        tensor = event.tensor_forward_flops
        operations = Operations(
            event.forward_flops + event.backward_flops,
            event.validation_flops,
            tensor + event.tensor_backward_flops,
            tensor,
        )
        round_ = self._asked.pop(event.number)
        is_of_start = event.parent is None and not event.morphs
        self.trials[event.number] = TrialRecord(operations, round_, round_, is_of_start)

    def _start(self, event: TrialStarted, presence: Presence) -> None:
        if presence.free_since is not None:
            self.idle_spans.append(IdleSpan("gap", presence.worker, presence.ranks, presence.free_since, event.at))
        presence.free_since, presence.trial = None, event.trial
        presence.trials += 1
        record = self.trials[event.trial]
        if event.round is not None:
            record.round = event.round
        record.worker, record.attempts = event.worker, event.attempt
        record.started = event.at if record.started is None else record.started
        record.outcome, record.ended = "training", None
        opened, ranks = self._open.get(event.trial), presence.ranks
        if opened is None:
            self._open[event.trial] = _Open(record, event.worker, event.at, ranks, event.at, event.epoch)
        else:
            opened.worker, opened.ordered, opened.ranks = event.worker, event.at, ranks
            opened.worked, opened.epoch = event.at, event.epoch

    def _prepare(self, event: TrialPrepared) -> None:
        opened = self._open[event.trial]
        opened.ranks = event.ranks
        if opened.worked == opened.ordered:  # else its word came after those of its work
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

    def _epoch(self, event: EpochFinished) -> None:
        if event.interval is not None:
            self._work(event, event.interval)
        assert self.started is not None
        is_better = not self.accuracies or event.accuracy > self.accuracies[-1][1]
        if is_better and counts(self.started, event):
            self.accuracies.append((event.at, event.accuracy))
        self._open[event.trial].epoch = event.epoch + 1

    def _work(self, event: Progress | EpochFinished, work: Work) -> None:
        opened, epoch, attempt = self._open[event.trial], event.epoch, event.attempt
        if attempt > 1 and opened.done_again.get(epoch) != attempt:
            opened.done_again[epoch] = attempt
            self._waste(opened, epoch)
        opened.worked = work.end
        operations, training, validation = opened.record.operations, work.training_images, work.validation_images
        row = self.intervals.append(
            event.trial,
            work,
            opened.ranks,
            training * operations.training + validation * operations.validation,
            training * operations.tensor_training + validation * operations.tensor_validation,
        )
        opened.epochs.append(epoch)
        opened.rows.append(row)

    def _finish(self, event: TrialFinished) -> None:
        record = self.trials[event.trial]
        self.finished.append((event.at, record.round))
        self.start_finished |= record.is_of_start
        record.outcome, record.ended = event.reason, event.at
        self._settle(event.trial)

    def _fail(self, event: TrialFailed) -> None:
        self.failed += 1
        record = self.trials[event.trial]
        record.outcome, record.reason, record.ended = "failed", event.reason, event.at
        self._settle(event.trial)

    def _settle(self, trial: int) -> None:
        """A trial may be settled after it was lost, or before it began: it holds no worker then."""
        opened = self._open.pop(trial, None)
        if opened is not None and opened.worked is not None:
            self._free(opened, opened.worked)

    def _free(self, opened: _Open, since: float) -> None:
        """An attempt is over: its worker has been free since then; before that, and after its last image, it was lost."""
        presence = self._present[opened.worker]
        assert opened.worked is not None, "an attempt ends once"
        if since > opened.worked:
            self.idle_spans.append(IdleSpan("lost", presence.worker, presence.ranks, opened.worked, since))
        opened.worked = None
        presence.free_since, presence.trial = since, None

    def _leave(self, presence: Presence, at: float, reason: str) -> None:
        presence.left, presence.left_reason = at, reason
        self.idle_spans += self.open_idle_spans(presence, at)
        if presence.trial is not None:
            opened = self._open[presence.trial]
            opened.worked = None
            _lose(opened.record, at, reason)

    def open_idle_spans(self, presence: Presence, at: float) -> list[IdleSpan]:
        """What the idle span that a worker is in comes to if it ends now."""
        since = presence.free_since
        kind = "gap"
        if since is None:
            assert presence.trial is not None
            kind, since = "lost", self._open[presence.trial].worked
            assert since is not None, "a trial that a worker holds is running"
        return [IdleSpan(kind, presence.worker, presence.ranks, since, at)] if at > since else []

    def _waste(self, opened: _Open, epoch: int) -> None:
        """All that was done of an epoch so far; what was wasted before stays so."""
        # Looked for when it is needed: few epochs are done twice, and a list for each epoch would cost more than all else here.
        for done, row in zip(opened.epochs, opened.rows, strict=True):
            if done == epoch:
                self.intervals.waste(row)


def _lose(record: TrialRecord, at: float, reason: str) -> None:
    record.outcome, record.reason, record.ended = "lost", reason, at


def counts(started: RunStarted, evaluation: EpochFinished) -> bool:
    """Whether an evaluation counts: one that ended at or before the run's declared end. The driver still takes in what workers
    say of the time before the end a little after it, and a run that is resumed late may end long after."""
    return evaluation.at <= started.duration_seconds


def work_log(events: Iterable[AnyEvent]) -> WorkLog:
    """The work log after a journal's events."""
    kept = WorkLog()
    with folding(events):
        for event in events:
            kept.take(event)
    return kept
