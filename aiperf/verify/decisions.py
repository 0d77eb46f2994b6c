"""Check of the driver's decisions: each recorded one is required by the rules, and each required one is recorded.

The driver carries out all decisions, in their order, before it receives the next message. `times.py` checks those from
silence, because this pass skips the intervals of work, which end a silence.
"""

from __future__ import annotations

import math

from aiperf.journal import events
from aiperf.journal.legality import TrialState
from aiperf.rules.decide import WEIGHTS_GONE, decide
from aiperf.rules.replay_queue import ReplayQueue
from aiperf.rules.state import Run
from aiperf.verify.check import CheckResult, StateCheck

LAW = "the driver carries out all decisions of its rules, in their order, and nothing else"
LATE_SECONDS = 120.0
"""Longest delay of a decision in seconds. A turn with messages of 4096 workers takes a few seconds."""
FROM_OUTSIDE = ("interrupted", "no workers")
"""Reasons of run ends that do not follow from the run's state."""


class Decisions(StateCheck):
    """Check of the decisions. The state given to it loses its limit of silence."""

    looks_at_epochs = True

    def __init__(self, run: Run, replay: ReplayQueue | None, why_not: str | None) -> None:
        self._agenda = replay
        # The intervals of work, which end a silence, are not passed to this check.
        run.limits.silence_seconds = math.inf
        self._notes = CheckResult("decisions", LAW, "decisions")
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
        if self._due_since is not None and event.at - self._due_since > LATE_SECONDS:
            due = self._decided(run, event.at)
            if due and not isinstance(due[0], events.RunEnded):
                self._notes.add(
                    line, f"the rules require {_description(due[0])} since {self._due_since:.3f} s, but it was not done"
                )
            self._due_since = None

    def _missing(self, line: int, event: events.AnyEvent) -> None:
        self._notes.add(
            line, f"recorded is {_description(event)}, but the rules require {_description(self._required[0])} first"
        )


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
