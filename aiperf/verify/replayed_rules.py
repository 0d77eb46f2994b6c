"""Second pass by the rules of the run. Intervals of work do not matter to its checks and are not decoded."""

from __future__ import annotations

import math
import struct
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aiperf.config import from_plain
from aiperf.errors import AiperfError
from aiperf.journal import events
from aiperf.journal.events import AnyEvent, EpochFinished, FollowedRun, Progress, RunStarted, TrialFinished
from aiperf.journal.journal import read_again
from aiperf.journal.legality import TrialState
from aiperf.ranking.levels import is_of_step
from aiperf.rules.decide import WEIGHTS_GONE, decide
from aiperf.rules.evolve import evolve
from aiperf.rules.followed import ReplayQueue, followed_again, unlike
from aiperf.rules.limits import PACKAGED
from aiperf.rules.procedure import end_of_trial, reported_accuracy
from aiperf.rules.proposals import Proposer, proposer_of
from aiperf.rules.state import Run, begin
from aiperf.verify.check import CheckResult, StateCheck
from aiperf.verify.proposals import FollowedReplay, Graphs, ProposalReplay, RecomputedProposals
from aiperf.verify.times import LATE_DECISION_SECONDS

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
                    found = f"epoch {event.epoch} of trial {trial.number} after its end ({over})"
                    self._notes.add(line, found, law=AFTER_END)
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
            found = f"trial {event.trial}: accuracy {event.accuracy!r}, but its best epoch has {trial.best_accuracy!r}"
            notes.add(line, found)
        if event.trial in self._sample and trial.accuracies:
            self._curves += 1
            reported = reported_accuracy(run.schedule, trial.accuracies)
            if abs(reported - event.reported_accuracy) > REPORTED_ROUNDING:
                found = f"trial {event.trial}: {event.reported_accuracy!r}, but its curve gives {reported!r}"
                notes.add(line, found, law=REPORTED)


LAW = "every line fits the state of its trial and worker, and the rules accept it"


@dataclass(frozen=True, slots=True)
class CostlySamples:
    chain: str
    """Last hash of the journal, which determines the samples."""
    answered: int
    proposals: tuple[int, ...]
    reported: tuple[int, ...]
    built: tuple[int, ...]
    followed: Path | None = None
    """Folder of the run whose list this run trained. None if not given, or if the run trained no list of a run."""


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
        replay, why_not = _agenda(started.follows, samples.followed)
    proposals = _proposals(started, samples, replay, why_not)
    if replay is not None:
        for found in unlike(replay.work, started):
            proposals.add(1, f"the list has {found}")
    # Decisions of a run that follows a list depend on the list as well.
    decisions = Decisions(run, replay, why_not)
    return decisions, (
        decisions,
        Results(frozenset(samples.reported)),
        Graphs(proposals.history, frozenset(samples.built), is_searched=started.follows is None),
        proposals,
    )


def _agenda(follows: FollowedRun, folder: Path | None) -> tuple[ReplayQueue | None, str | None]:
    if folder is None and follows.path not in PACKAGED:
        source = f"the run whose list it trained, '{follows.run}' (hash of the list {follows.identity}…)"
        return None, f"not checkable without the journal of {source}. Pass it with --followed RUN"
    try:
        again = followed_again(follows, folder or Path(follows.path), is_of_step)
    except AiperfError as error:
        return None, str(error)
    return ReplayQueue(again.work), None


def _proposals(
    started: RunStarted, samples: CostlySamples, replay: ReplayQueue | None, why_not: str | None
) -> RecomputedProposals:
    if replay is not None:
        again = FollowedReplay(started, ReplayQueue(replay.work))
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


DECISIONS_LAW = "the driver carries out all decisions of its rules, in their order, and nothing else"
FROM_OUTSIDE = ("interrupted", "no workers")
"""Reasons of run ends that do not follow from the run's state."""


class Decisions(StateCheck):
    """Check of the decisions. The state given to it loses its limit of silence."""

    looks_at_epochs = True

    def __init__(self, run: Run, replay: ReplayQueue | None, why_not: str | None) -> None:
        self._agenda = replay
        # The intervals of work, which end a silence, are not passed to this check.
        run.limits.silence_seconds = math.inf
        self._notes = CheckResult("decisions", DECISIONS_LAW, "decisions")
        self._notes.not_checked = why_not
        self._required: list[events.AnyEvent] = []
        """Remaining events of the last decision."""
        self._goes_with: int | None = None
        """Trial that has just finished without a checkpoint. A `CheckpointDropped` may follow its end."""
        self._due_since: float | None = None

    def before(self, line: int, run: Run, event: events.AnyEvent) -> None:
        goes_with = self._goes_with
        if self._notes.not_checked is not None:
            return
        if type(event) is events.EpochFinished and goes_with is None and not self._required and self._due_since is None:
            return
        if self._agenda is not None and isinstance(event, events.TrialProposed | events.TrialRejected):
            return  # The driver itself answers the previous request.
        self._goes_with = None
        if isinstance(event, events.CheckpointDropped) and event.trial == goes_with:
            return
        if isinstance(event, events.RunResumed) or _is_from_silence(event):
            self._required, self._due_since = [], None
            return
        if isinstance(event, events.RunEnded) and event.reason in FROM_OUTSIDE:
            self._required = []
            return
        if isinstance(event, events.TrialFinished) and not run.trials[event.trial].saved_epoch:
            self._goes_with = event.trial
        if _is_decided(run, event):
            self._recorded(line, run, event)
        else:
            self._received(line, run, event)

    def after(self, run: Run, event: events.AnyEvent) -> None:
        if self._agenda is not None:
            self._agenda.take(event)
        if _is_due(run):
            self._due_since = event.at if self._due_since is None else self._due_since
        else:
            self._due_since = None

    def _recorded(self, line: int, run: Run, event: events.AnyEvent) -> None:
        self._notes.examined += 1
        self._due_since = None
        expected = self._required
        if not (expected and _are_one(expected[0], event)):
            expected = self._decided(run, event.at)
            if not (expected and _are_one(expected[0], event)):
                # The time of the decision is between the previous line and this one.
                expected = self._decided(run, run.at)
        is_end_first = bool(expected) and isinstance(
            expected[0], events.RunEnded
        )  # the declared end of the run came first
        if self._required and expected is not self._required and not is_end_first:
            self._missing(line, event)
        if expected and _are_one(expected[0], event):
            self._required = expected[1:]
            return
        first = _description(expected[0]) if expected else "nothing"
        self._notes.add(line, f"recorded is {_description(event)}, but the rules require {first}")
        self._required = []

    def _decided(self, run: Run, at: float) -> list[events.AnyEvent]:
        decided = decide(run, at, self._agenda)
        return [
            one for one in decided if not (isinstance(one, events.CheckpointDropped) and one.cause == "not written")
        ]

    def _received(self, line: int, run: Run, event: events.AnyEvent) -> None:
        if self._required and not isinstance(self._required[0], events.RunEnded):
            if not isinstance(next(iter(self._decided(run, event.at)), None), events.RunEnded):
                self._missing(line, event)
            self._required = []
        if self._due_since is not None and event.at - self._due_since > LATE_DECISION_SECONDS:
            due = self._decided(run, event.at)
            if due and not isinstance(due[0], events.RunEnded):
                found = f"the rules require {_description(due[0])} since {self._due_since:.3f} s, but it was not done"
                self._notes.add(line, found)
            self._due_since = None

    def _missing(self, line: int, event: events.AnyEvent) -> None:
        found = f"recorded is {_description(event)}, but the rules require {_description(self._required[0])} first"
        self._notes.add(line, found)


def _is_from_silence(event: events.AnyEvent) -> bool:
    """Such a line comes before all other decisions (`times.py`)."""
    if isinstance(event, events.WorkerLost):
        return event.cause == "silence"
    return isinstance(event, events.TrialRejected) and event.by == "silence"


def _is_decided(run: Run, event: events.AnyEvent) -> bool:
    """Return True if the line is a decision of the driver and not a message."""
    match event:
        case events.ProposalRequested() | events.TrialStarted() | events.RunEnded():
            return True
        case events.TrialFinished():
            return run.trials[event.trial].state is not TrialState.RUNNING
        case events.TrialFailed():
            return run.trials[event.trial].state is not TrialState.RUNNING
        case events.CheckpointDropped():
            return event.cause == "not best"
        case _:
            return False


def _is_due(run: Run) -> bool:
    return bool(run.ready or run.lost or run.ending or run.orphaned or run.droppable or run.with_demand)


_OF_DECISION: dict[type, tuple[str, ...]] = {
    events.TrialStarted: ("trial", "attempt", "worker", "epoch", "batch_size", "round"),
    events.ProposalRequested: ("number", "worker", "round", "seed", "starting_network", "spare", "follows"),
    events.TrialFinished: ("trial", "reason"),
    events.TrialFailed: ("trial", "reason"),
    events.CheckpointDropped: ("trial",),
    events.RunEnded: ("reason",),
}
"""Decided fields of each event. `Results` checks the accuracies of TrialFinished."""


_FORMERLY = "went while it waited"
"""`WEIGHTS_GONE` in older journals."""


def _are_one(decided: events.AnyEvent, recorded: events.AnyEvent) -> bool:
    """Times differ, since the driver decides before it writes."""
    return type(decided) is type(recorded) and _decision(decided) == _decision(recorded)


def _decision(event: events.AnyEvent) -> list[object]:
    values = [getattr(event, name) for name in _OF_DECISION.get(type(event), ())]
    return [value.replace(_FORMERLY, WEIGHTS_GONE) if isinstance(value, str) else value for value in values]


def _description(event: events.AnyEvent) -> str:
    fields = [f"{name}={getattr(event, name)!r}" for name in _OF_DECISION.get(type(event), ())]
    return f"{type(event).__name__}({', '.join(fields)})"
