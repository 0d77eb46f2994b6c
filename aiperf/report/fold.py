"""Data of a run for its report, beside the work log: results of trials, descriptions of workers, errors. One pass."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np

from aiperf.accounting.intervals import Real, Window, share_inside
from aiperf.accounting.valid_flops import Target, target_of
from aiperf.accounting.work_log import WorkLog, counts
from aiperf.journal import events
from aiperf.journal.journal import Reader, folding
from aiperf.run_warning import RunWarning
from aiperf.units import ACCURACIES

LOST_TOGETHER_SECONDS = 60.0
"""A proposal and its worker that end within this time end together, as with their node."""


@dataclass(slots=True, kw_only=True)
class TrialResults:
    """Results of a trial (training of one network), which its row of the report contains."""

    number: int
    generation: int
    """Number of proposals from the starting graph to this trial, including its own."""
    batch_size: int
    epochs: int = 0
    """Number of finished epochs."""
    accuracy: float | None = None
    """Best measured validation accuracy of the evaluations that ended by the declared end."""
    reported_accuracy: float | None = None
    validation_loss: float | None = None
    """Validation loss of the last epoch."""
    precision: str | None = None


@dataclass(slots=True, kw_only=True)
class CollectedTrial(TrialResults):
    """A trial while events are read. Its attempts, times and outcome are in the work log."""

    proposal: events.TrialProposed


@dataclass(slots=True)
class Collected:
    started: events.RunStarted
    line: int = 1
    """Number of the current line. After the last event, the number of all lines."""
    resumes: list[events.RunResumed] = field(default_factory=list)
    trials: dict[int, CollectedTrial] = field(default_factory=dict)
    workers: dict[int, events.WorkerJoined] = field(default_factory=dict)
    """Description of each worker. Its presence and its trials are in the work log."""
    work_log: WorkLog = field(default_factory=WorkLog)
    begun_worker: array[int] = field(default_factory=lambda: array("q"))
    """Worker of each attempt."""
    begun_row: array[int] = field(default_factory=lambda: array("q"))
    """Number of intervals in the work log at the start of each attempt."""
    error_at: array[float] = field(default_factory=lambda: array("d"))
    error_trial: array[int] = field(default_factory=lambda: array("l"))
    error: array[float] = field(default_factory=lambda: array("d"))
    """Top-1 error of each counted evaluation. Empty for another metric."""
    target_epochs: list[events.EpochFinished] = field(default_factory=list)
    """Counted evaluations of a run with a target quality. Empty without a target."""
    best: int | None = None
    """Trial with the best accuracy. None before the first evaluation."""
    best_accuracy: float = -1.0
    asked: dict[int, int] = field(default_factory=dict)
    """Worker of each requested proposal."""
    ended: list[tuple[int, float]] = field(default_factory=list)
    """(worker, at) of each proposal that ended with its generator or in silence, while its worker lived."""
    batch_reductions: int = 0
    rejected: int = 0
    """Proposals that the driver's check refused."""
    checks: list[events.NodeChecked] = field(default_factory=list)
    """Preflight results of nodes, in the order of the journal."""
    predicted: events.ScorePredicted | None = None
    profiled: events.StepsProfiled | None = None
    """First time breakdown of traced steps."""
    versions_changed: dict[str, None] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    """First line that shows each value that rules check. Keys: name of the value, and value or ''."""

    torn: RunWarning | None = None
    """Warning about an incomplete last line that was dropped, or None."""
    torn_bytes: int = 0

    @property
    def target(self) -> Target | None:
        """Target quality of the run's workload. None for a neural architecture search."""
        return target_of(self.started.config)

    def shows(self, fact: str, value: str = "") -> None:
        """Record that the journal's current line shows the value `fact` that rules check, such as 'precisions'."""
        self.lines.setdefault((fact, value), self.line)


def collect(journal: Iterable[events.AnyEvent]) -> Collected:
    """Return the data of a run, collected from all events of its journal, which are read once and in order."""
    rest = iter(journal)
    started = next(rest)
    assert isinstance(started, events.RunStarted), "a journal begins with RunStarted"
    run = Collected(started)
    keep = run.work_log.take
    with folding(journal):
        keep(started)
        for run.line, event in enumerate(rest, start=2):
            keep(event)
            # Progress is most lines, and only the work log needs it.
            if type(event) is not events.Progress:
                _take(run, event)
    if isinstance(journal, Reader):
        run.torn, run.torn_bytes = journal.reading.warning, len(journal.reading.torn)
    return run


def _take(run: Collected, event: events.AnyEvent) -> None:
    match event:
        case events.EpochFinished():
            _epoch(run, event)
        case events.RunStarted():
            raise AssertionError("a journal begins once")
        case events.RunResumed():
            _resumed(run, event)
        case events.WorkerJoined():
            run.workers[event.worker] = event
            run.shows("beside_master", str(event.machine.get("host")))
        case events.NodeChecked():
            run.checks.append(event)
            if event.excluded:
                run.shows("excluded_share")
        case events.ScorePredicted():
            run.predicted = event
        case events.StepsProfiled():
            run.profiled = run.profiled or event
        case events.ProposalRequested():
            run.asked[event.number] = event.worker
        case events.TrialRejected():
            run.rejected += event.by == "check"
            if event.by in ("generator", "silence"):
                run.ended.append((run.asked[event.number], event.at))
        case events.TrialProposed():
            parent = None if event.parent is None else run.trials.get(event.parent)
            generation = 1 if parent is None else parent.generation + 1
            run.trials[event.number] = CollectedTrial(
                number=event.number, proposal=event, generation=generation, batch_size=event.batch_size
            )
            run.shows("searchers", event.searcher)
        case events.TrialStarted():
            run.trials[event.trial].batch_size = event.batch_size
            run.begun_worker.append(event.worker)
            run.begun_row.append(len(run.work_log.intervals))
        case events.TrialPrepared():
            run.trials[event.trial].precision = event.precision
            run.shows("precisions", event.precision)
        case events.WorkerLost():
            run.ended = [
                (worker, at)
                for worker, at in run.ended
                if worker != event.worker or at < event.at - LOST_TOGETHER_SECONDS
            ]
            if event.cause != "released":
                run.shows("workers_lost")
        case events.BatchReduced():
            run.batch_reductions += 1
            run.trials[event.trial].batch_size = event.to_batch_size
        case events.TrialFinished():
            run.trials[event.trial].reported_accuracy = event.reported_accuracy
        case events.RunEnded():
            run.lines["end_reason", ""] = run.line
        case (
            events.Progress()
            | events.CeilingMeasured()
            | events.CheckpointDropped()
            | events.CheckpointNotWritten()
            | events.CheckpointWritten()
            | events.ImagesSkipped()
            | events.TrialFailed()
            | events.TrialHeartbeat()
            | events.TrialLost()
            | events.WorkerNotStarted()
            | events.HelperLost()
        ):
            pass  # The work log handles these.
        case _:
            assert_never(event)


def _epoch(run: Collected, event: events.EpochFinished) -> None:
    trial = run.trials[event.trial]
    # An epoch is repeated after a loss. The repetition replaces it and does not count twice.
    if event.epoch > trial.epochs:
        trial.epochs = event.epoch
    trial.validation_loss = event.validation_loss
    if not counts(run.started, event):
        return
    if run.target is not None:
        run.target_epochs.append(event)
    if trial.accuracy is None or event.accuracy > trial.accuracy:
        trial.accuracy = event.accuracy
        if event.accuracy > run.best_accuracy:
            run.best, run.best_accuracy = event.trial, event.accuracy
            run.lines["error", ""] = run.line
    if run.started.metric in ACCURACIES:
        run.error_at.append(event.at)
        run.error_trial.append(event.trial)
        run.error.append(1.0 - event.accuracy)


def _resumed(run: Collected, event: events.RunResumed) -> None:
    former: dict[str, Any] = run.resumes[-1].versions if run.resumes else run.started.versions
    for name in sorted({*former, *event.versions}):
        if former.get(name) != event.versions.get(name):
            run.versions_changed[name] = None
    run.resumes.append(event)
    run.lines.pop(("end_reason", ""), None)
    run.shows("resumes")
    if event.rolled_back_lines:
        run.shows("rolled_back_lines")


@dataclass(frozen=True, slots=True)
class ExchangeFacts:
    """Gradient exchange of all workers with several ranks in the valid window."""

    ranks: tuple[int, ...]
    """Numbers of ranks of these workers, each once."""
    bus_bytes_per_second: float
    """Bus bandwidth that ranks measured at their start with the gradients of the starting network."""
    transports: tuple[str, ...]
    """How NCCL connected the first ranks with the others, each once, such as 'NVLink'."""
    exchanged_bytes: float
    """Bytes of the gradients of all steps of one rank."""
    least_seconds: float
    """Minimum time at that bandwidth: bytes · 2(n − 1)/n ÷ bus bandwidth (Patarasu and Yuan 2009)."""
    visible_seconds: float
    """Communication that the backward pass did not hide."""
    waiting_seconds: float
    """Visible communication above the bound, of all intervals: waiting for the slowest rank."""
    busy_seconds: float
    """Time in steps."""


def gradient_bytes(parameters: int, config: Mapping[str, Any]) -> int:
    """Return the bytes of one step's gradients as sent: 4 per parameter, or 2 with trainer.fp16_compression."""
    return parameters * (2 if config.get("trainer", {}).get("fp16_compression") else 4)


def all_reduce_seconds(size: float, ranks: int, bus_bytes_per_second: float) -> float:
    """Return the seconds of an all-reduce at a bus bandwidth: size · 2(n − 1)/n ÷ bandwidth.

    `size`: bytes of each rank. `ranks`: number n of processes.

    >>> all_reduce_seconds(1000, 4, 1500)
    1.0
    """
    return size * 2 * (ranks - 1) / ranks / bus_bytes_per_second


def exchange_facts(run: Collected, inside: Window) -> ExchangeFacts | None:
    """Gradient exchange inside the window, over all workers with several ranks. None without such work or a bus bandwidth."""
    together = {number: joined for number, joined in run.workers.items() if joined.ranks > 1}
    bus = {number: joined.machine.get("measured_bus_bytes_per_second") for number, joined in together.items()}
    columns = run.work_log.intervals
    part = share_inside(columns.start, columns.end, inside) * np.isin(columns.worker, list(together))
    if None in bus.values() or not part.any():
        return None
    trials = sorted(run.trials)
    size = np.array([gradient_bytes(run.trials[each].proposal.parameters, run.started.config) for each in trials])
    batch = np.array([run.trials[each].batch_size for each in trials])
    trial, ranks = np.searchsorted(trials, columns.trial), columns.ranks
    speed = np.array([bus.get(worker) or math.inf for worker in columns.worker.tolist()])
    exchanged: Real = part * columns.training_images / (batch[trial] * ranks) * size[trial]
    least: Real = exchanged * 2 * (ranks - 1) / ranks / speed
    visible: Real = part * columns.clock("communication")
    sums = (exchanged, least, visible, np.maximum(0.0, visible - least), part * columns.clock("busy"))
    return ExchangeFacts(
        tuple(sorted({joined.ranks for joined in together.values()})),
        min(each for each in bus.values() if each is not None),
        tuple(sorted({str(how) for each in together.values() if (how := each.machine.get("exchange_transport"))})),
        *(math.fsum(each.tolist()) for each in sums),
    )
