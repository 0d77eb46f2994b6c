"""What is exported of a run: its Report, and beside it what that sums up: evaluations, proposals, states of trials.

A figure that stands in the Report is taken from there. The journal is read a second time for the rest, without its Progress
lines, and up to the line that the Report was made of: a run may be going on.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from aiperf.accounting.work_log import counts
from aiperf.journal.events import (
    AnyEvent,
    BatchReduced,
    Cause,
    EpochFinished,
    Progress,
    RunStarted,
    TrialFailed,
    TrialFinished,
    TrialProposed,
    TrialStarted,
)
from aiperf.journal.journal import NAME, read_again
from aiperf.report.facts import Report, TrialFacts
from aiperf.report.write import report_of

State = Literal["finished", "failed", "in training", "cut off", "waiting", "never started"]
"""What became of a trial. 'cut off' and 'never started': the run ended first."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The end of one epoch of one attempt."""

    at: float
    """Seconds since the run began."""
    trial: int
    attempt: int
    worker: int
    epoch: int
    accuracy: float
    validation_loss: float
    training_loss: float
    learning_rate: float
    counts: bool
    """Whether it was taken by the run's declared end."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial, with what the report does not show of it."""

    facts: TrialFacts
    proposal: TrialProposed
    state: State
    cause: Cause
    """Of its failure; empty where it did not fail, or the journal does not say."""
    evaluations: tuple[Evaluation, ...]
    """In the journal's order. An epoch that was lost and done again has one for each time."""

    @property
    def standing(self) -> list[Evaluation]:
        """One evaluation for each epoch, in the order of epochs: of those of an epoch that was done again the last."""
        last = {each.epoch: each for each in self.evaluations}
        return [last[epoch] for epoch in sorted(last)]

    @property
    def own_kernel(self) -> int | None:
        """The kernel size that its network has; None: none of its convolutions is tunable, or the journal does not say."""
        return self.proposal.kernel_size if self.proposal.own_kernel is None else self.proposal.own_kernel


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run, as it is exported."""

    folder: Path
    report: Report
    started: RunStarted
    trials: tuple[Trial, ...]
    """By number."""
    reductions: tuple[BatchReduced, ...]

    @property
    def title(self) -> str:
        """The run's name; a simulated run says so wherever its name stands."""
        return f"{self.report.run.name} (simulated)" if self.report.run.is_simulated else self.report.run.name

    def unix(self, at: float) -> float:
        """Seconds since 1970 (UTC) of a moment of the run, by the clock that its driver began with."""
        return self.started.started_unix + at

    def milliseconds(self, at: float) -> int:
        """The same in whole milliseconds."""
        return round(1000 * self.unix(at))

    def span(self, trial: Trial) -> tuple[float, float]:
        """When a trial began and ended, in seconds since the run began: one that never started begins with its
        proposal, one that was not settled ends with the journal."""
        began, ended = trial.facts.started, trial.facts.ended
        return trial.proposal.at if began is None else began, self.report.run.end if ended is None else ended

    @property
    def graphs(self) -> dict[str, dict[str, Any]]:
        """The starting network, and the best where there is one, in the form of docs/graph-format.md."""
        best = self.report.architecture
        found = {"start": self.started.start_graph, "best": None if best is None else best.graph}
        return {name: graph for name, graph in found.items() if graph is not None}

    def identity(self, *parts: object) -> str:
        """64 hexadecimal digits for a part of this run: the same whenever it is exported, another for every run."""
        run = self.report.run
        named = "\n".join(map(str, (run.name, run.started_unix, run.config_hash, *parts)))
        return hashlib.sha256(named.encode(errors="surrogatepass")).hexdigest()


def record_of(folder: Path) -> RunRecord:
    """The record of a run's folder.

    Raises:
        NoSuchRun: there is no journal.
        JournalDamaged: a line of it does not follow from the one before.
    """
    report = report_of(folder)
    return record(folder, report, islice(read_again(folder / NAME, Progress), report.run.events))


def record(folder: Path, report: Report, events: Iterable[AnyEvent | None]) -> RunRecord:
    """The record of a Report and the events that it was made of; Progress may be left out."""
    started: RunStarted | None = None
    proposals: dict[int, TrialProposed] = {}
    evaluations: defaultdict[int, list[Evaluation]] = defaultdict(list)
    settled: dict[int, TrialFinished | TrialFailed] = {}
    workers: dict[int, int] = {}
    reductions: list[BatchReduced] = []
    for event in events:
        match event:
            case RunStarted():
                started = event
            case TrialProposed():
                proposals[event.number] = event
            case TrialStarted():
                workers[event.trial] = event.worker
            case EpochFinished():
                assert started is not None, "a journal begins with RunStarted"
                evaluations[event.trial].append(_evaluation(event, workers[event.trial], counts(started, event)))
            case TrialFinished() | TrialFailed():
                settled[event.trial] = event
            case BatchReduced():
                reductions.append(event)
            case _:
                pass  # the report has it, or nobody asks for it
    assert started is not None, "a journal begins with RunStarted"
    is_over = report.run.end_reason is not None
    trials = tuple(
        _trial(facts, proposals[facts.number], evaluations[facts.number], settled.get(facts.number), is_over)
        for facts in sorted(report.trials, key=lambda facts: facts.number)
    )
    return RunRecord(folder, report, started, trials, tuple(reductions))


def _evaluation(event: EpochFinished, worker: int, is_counted: bool) -> Evaluation:
    return Evaluation(
        event.at,
        event.trial,
        event.attempt,
        worker,
        event.epoch,
        event.accuracy,
        event.validation_loss,
        event.training_loss,
        event.learning_rate,
        is_counted,
    )


def _trial(
    facts: TrialFacts,
    proposal: TrialProposed,
    evaluations: list[Evaluation],
    settled: TrialFinished | TrialFailed | None,
    is_over: bool,
) -> Trial:
    state: State
    match settled:
        case TrialFinished():
            state = "finished"
        case TrialFailed():
            state = "failed"
        case None if facts.started is None:
            state = "never started" if is_over else "waiting"
        case None:
            state = "cut off" if is_over else "in training"
    cause: Cause = settled.cause if isinstance(settled, TrialFailed) else ""
    return Trial(facts, proposal, state, cause, tuple(evaluations))
