"""Second pass by the rules of the run, for the checks of decisions, networks, proposals and results.

Intervals of work, most lines, do not matter to these checks and are not decoded (`read_again`).
"""

from __future__ import annotations

import struct
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aiperf.config import from_plain
from aiperf.errors import AiperfError
from aiperf.journal.events import AnyEvent, EpochFinished, FollowedRun, Progress, RunStarted, TrialFinished
from aiperf.journal.journal import folding, read, read_again
from aiperf.rules.evolve import evolve
from aiperf.rules.followed import check_followed, followed
from aiperf.rules.procedure import end_of_trial, reported_accuracy
from aiperf.rules.proposals import Proposer, proposer_of
from aiperf.rules.replay_queue import ReplayQueue
from aiperf.rules.state import Run, begin
from aiperf.verify.check import CheckResult, StateCheck
from aiperf.verify.decisions import Decisions
from aiperf.verify.proposals import FollowedReplay, Graphs, ProposalReplay, RecomputedProposals

RESULTS = "a trial ends when the rules of its round end it, with the best of its accuracies"
REPORTED = "the accuracy reported to the search is the value of the trial's curve at the last epoch of round 1"
AFTER_END = "no epoch follows the end of a trial"
REPORTED_ROUNDING = 1e-9
"""Absolute. Powers of C libraries differ in the last digit."""


class Results(StateCheck):
    """Check that each trial ended when the rules end it, with the best of its accuracies."""

    looks_at_epochs = True

    def __init__(self, sample: Container[int]) -> None:
        self._sample = sample
        self._notes = CheckResult("results", RESULTS, "trials")
        self._curves = 0

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        if type(event) is EpochFinished:
            trial = run.trials[event.trial]
            assert trial.worker is not None, "checked by the reader"
            if run.workers[trial.worker].nears_end:  # Else the trial cannot have ended.
                over = end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)
                if over is not None:
                    self._notes.add(
                        line, f"epoch {event.epoch} of trial {trial.number} after its end ({over})", law=AFTER_END
                    )
        elif isinstance(event, TrialFinished):
            self._finished(line, run, event)

    def checked(self) -> CheckResult:
        notes = self._notes
        if self._curves < notes.examined:
            notes.not_checked = f"reported accuracies, except those of {self._curves} trials (use --all)"
        return notes.close()

    def _finished(self, line: int, run: Run, event: TrialFinished) -> None:
        notes, trial = self._notes, run.trials[event.trial]
        notes.examined += 1
        reason = end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)
        if reason != event.reason:
            by_rules = "it continues" if reason is None else f"it ends by {reason!r}"
            notes.add(
                line,
                f"trial {event.trial} of round {trial.round} ended by {event.reason!r} after {len(trial.losses)} epochs; "
                f"by the rules of its round {by_rules}",
            )
        if event.accuracy != trial.best_accuracy:
            notes.add(
                line,
                f"trial {event.trial}: accuracy {event.accuracy!r}, but its best epoch has {trial.best_accuracy!r}",
            )
        if event.trial in self._sample and trial.accuracies:
            self._curves += 1
            reported = reported_accuracy(run.schedule, trial.accuracies)
            if abs(reported - event.reported_accuracy) > REPORTED_ROUNDING:
                notes.add(
                    line,
                    f"trial {event.trial}: {event.reported_accuracy!r}, but its curve gives {reported!r}",
                    law=REPORTED,
                )


LAW = "every line fits the state of its trial and worker, and the rules accept it"


@dataclass(frozen=True, slots=True)
class CostlySamples:
    """Samples of proposals and trials for the costly checks."""

    chain: str
    """Last hash of the journal, which determines the samples."""
    answered: int
    proposals: tuple[int, ...]
    reported: tuple[int, ...]
    built: tuple[int, ...]
    followed: Path | None = None
    """Folder of the run that this run follows. None if not given, or if the run follows none."""


def follow(path: Path, samples: CostlySamples) -> tuple[CheckResult, ...]:
    """Apply the rules to a readable journal. A line that they do not accept is a finding and ends the pass."""
    fitting = CheckResult("states", LAW, "lines")
    checks: Sequence[StateCheck] = ()
    line = 0
    try:
        for line, event in enumerate(read_again(path, Progress), 1):
            if isinstance(event, RunStarted):
                run = begin(event)
                decisions, checks = _checks(run, samples)
                of_epochs = [check for check in checks if check.looks_at_epochs]
            elif event is None:
                run.lines += 1
            else:
                for check in of_epochs if type(event) is EpochFinished else checks:
                    check.before(line, run, event)
                evolve(run, event)
                decisions.after(run, event)
    except (*_OF_A_LINE, AiperfError) as error:
        named = str(error) if isinstance(error, AiperfError | ValueError) else f"{type(error).__name__}: {error}"
        fitting.add(line, named)
        fitting.not_checked = "all lines after it"
    fitting.examined = line
    return (fitting.close(), *(check.checked() for check in checks))


_OF_A_LINE = (
    LookupError,
    ArithmeticError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    struct.error,
    msgspec.MsgspecError,
)
"""Errors of a fold on an impossible line that keeps all laws of reading. As in `aiperf.journal.journal.folding`."""


def _checks(run: Run, samples: CostlySamples) -> tuple[Decisions, Sequence[StateCheck]]:
    """The last check updates the searcher's history."""
    started = run.started
    replay: ReplayQueue | None = None
    why_not: str | None = None
    if started.follows is not None:
        replay, why_not = _agenda(started, started.follows, samples.followed)
    proposals = _proposals(started, samples, replay, why_not)
    # Decisions of a run that follows another depend on the other journal as well.
    decisions = Decisions(run, replay, why_not)
    return decisions, (
        decisions,
        Results(frozenset(samples.reported)),
        Graphs(proposals.history, frozenset(samples.built), is_searched=started.follows is None),
        proposals,
    )


def _agenda(started: RunStarted, follows: FollowedRun, folder: Path | None) -> tuple[ReplayQueue | None, str | None]:
    source = f"the run that it follows, '{follows.run}' (hash {follows.last_hash[:12]}…)"
    if folder is None:
        return None, f"not checkable without the journal of {source}. Pass it with --followed RUN"
    try:
        reader = read(folder, follows.lines)
        with folding(reader):
            work = followed(reader)
        check_followed(started, work, reader.reading.chain.decode())
    except AiperfError as error:
        return None, str(error)
    return ReplayQueue(work.trials), None


def _proposals(
    started: RunStarted, samples: CostlySamples, replay: ReplayQueue | None, why_not: str | None
) -> RecomputedProposals:
    if replay is not None:
        again = FollowedReplay(started, ReplayQueue(replay.trials))
        return RecomputedProposals(started, again, samples.answered, None)
    proposer: Proposer | None = None
    if why_not is None:
        try:
            conf = from_plain(started.config)
            proposer = proposer_of(conf.searcher, conf.hpo)
            why_not = None if samples.proposals else "all of them (--sample 0)"
        except AiperfError as error:
            why_not = str(error)
    made = ProposalReplay(started, proposer, frozenset(samples.proposals))
    return RecomputedProposals(started, made, samples.answered, why_not)
