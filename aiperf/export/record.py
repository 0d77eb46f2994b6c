"""Contents of an export: the Report of a run, and the evaluations, proposals and trial states behind it.

Values of the Report are taken from it. The journal is read a second time for the rest, without Progress lines, up to the last
line that the Report includes, since the run may still be running.
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
"""State of a trial. 'cut off' and 'never started': the run ended first."""


File = tuple[str, Iterable[bytes]]
"""Path below the export's folder with '/' between the parts, and content in pieces."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """End of one epoch of one attempt."""

    at: float
    """Seconds since the start of the run."""
    trial: int
    attempt: int
    worker: int
    epoch: int
    accuracy: float
    validation_loss: float | None
    training_loss: float
    learning_rate: float
    counts: bool
    """True if it ended before the run's declared end."""


@dataclass(frozen=True, slots=True)
class TrialDetails:
    """One trial, with values that the report does not show."""

    facts: TrialFacts
    proposal: TrialProposed
    state: State
    cause: Cause
    """Cause of its failure. Empty if it did not fail, or the journal does not record it."""
    evaluations: tuple[Evaluation, ...]
    """Evaluations in journal order. A repeated epoch has one for each time."""

    @property
    def last_evaluations(self) -> list[Evaluation]:
        """Return one evaluation per epoch, sorted by epoch. For a repeated epoch the last one."""
        last = {each.epoch: each for each in self.evaluations}
        return [last[epoch] for epoch in sorted(last)]

    @property
    def own_kernel(self) -> int | None:
        """Kernel size of its network. None if no convolution is tunable, or the journal does not record it."""
        return self.proposal.kernel_size if self.proposal.own_kernel is None else self.proposal.own_kernel


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it is exported."""

    folder: Path
    report: Report
    started: RunStarted
    trials: tuple[TrialDetails, ...]
    """Sorted by number."""
    reductions: tuple[BatchReduced, ...]

    @property
    def title(self) -> str:
        """Name of the run, with '(simulated)' for a simulated run."""
        return f"{self.report.run.name} (simulated)" if self.report.run.is_simulated else self.report.run.name

    def unix(self, at: float) -> float:
        """Return seconds since 1970 (UTC) for a time of the run, by the driver's clock at its start."""
        return self.started.started_unix + at

    def milliseconds(self, at: float) -> int:
        """Return the same in whole milliseconds."""
        return round(1000 * self.unix(at))

    def span(self, trial: TrialDetails) -> tuple[float, float]:
        """Return start and end of a trial in seconds since the start of the run.

        A trial that never started begins with its proposal. A trial that is not settled ends with the journal.
        """
        began, ended = trial.facts.started, trial.facts.ended
        return trial.proposal.at if began is None else began, self.report.run.end if ended is None else ended

    @property
    def graphs(self) -> dict[str, dict[str, Any]]:
        """Starting network, and the best network if there is one, in the form of docs/graph-format.md."""
        best = self.report.architecture
        graphs = {"start": self.started.start_graph, "best": None if best is None else best.graph}
        return {name: graph for name, graph in graphs.items() if graph is not None}

    def identity(self, *parts: object) -> str:
        """Return 64 hexadecimal digits that identify a part of this run: equal in each export, different for each run."""
        run = self.report.run
        named = "\n".join(map(str, (run.name, run.started_unix, run.config_hash, *parts)))
        return hashlib.sha256(named.encode(errors="surrogatepass")).hexdigest()


def record_of(folder: Path) -> RunRecord:
    """Return the record of a run's folder.

    Raises:
        NoSuchRun: there is no journal.
        JournalDamaged: a line of it is invalid after the previous lines.
    """
    report = report_of(folder)
    return record(folder, report, islice(read_again(folder / NAME, Progress), report.run.events))


def record(folder: Path, report: Report, events: Iterable[AnyEvent | None]) -> RunRecord:
    """Return the record of a Report and its events. Progress events may be left out."""
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
                pass  # in the report, or not exported
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
) -> TrialDetails:
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
    return TrialDetails(facts, proposal, state, cause, tuple(evaluations))
