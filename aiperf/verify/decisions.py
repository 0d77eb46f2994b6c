"""Check of the driver's decisions: each recorded decision is required by the rules, and each required decision is recorded.

Decisions are a function of the run's state and the time (`aiperf/rules/decide.py`). The driver carries out all of them, in
their order, before it receives the next message. An added, removed, exchanged or moved line leads to other decisions, and so
does a changed worker, seed or option. `times.py` checks decisions from silence, because this pass skips the intervals of
work, which end a silence.
"""

from __future__ import annotations

import math

from aiperf.journal import events
from aiperf.journal.legality import TrialState
from aiperf.rules.decide import (
    Command,
    DeclareLost,
    DropCheckpoint,
    End,
    Finish,
    GiveUp,
    RejectRequest,
    RequestProposal,
    StartTrial,
    decide,
)
from aiperf.rules.replay_queue import ReplayQueue
from aiperf.rules.state import Run
from aiperf.verify.check import Notes, StateCheck

LAW = "the driver carries out all decisions of its rules, in their order, and nothing else"
LATE_SECONDS = 120.0
"""Longest delay of a decision in seconds. A turn with messages of 4096 workers takes a few seconds."""
FROM_OUTSIDE = ("interrupted", "no workers", "converged")
"""Reasons of run ends that do not follow from the run's state. `converged.py` checks convergence from the recorded work."""


class Decisions(StateCheck):
    """Check the driver's decisions against the rules."""

    looks_at_epochs = True

    def __init__(self, run: Run, agenda: ReplayQueue | None = None) -> None:
        """Begin with a run without lines. `agenda`: replay queue of a run that follows another, else None."""
        self._agenda = agenda
        # The intervals of work, which end a silence, are not passed to this check.
        run.limits.silence_seconds = math.inf
        self._notes = Notes("decisions", LAW, "decisions")
        self._required: list[Command] = []
        """Remaining commands of the last decision."""
        self._goes_with: int | None = None
        """Trial that has just finished without a checkpoint. A `CheckpointDropped` may follow its end."""
        self._due_since: float | None = None

    def before(self, line: int, run: Run, event: events.AnyEvent) -> None:
        goes_with = self._goes_with
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
            self._decided(line, run, event)
        else:
            self._received(line, run, event)

    def after(self, run: Run, event: events.AnyEvent) -> None:
        """Update the pending decisions. `run`: state after the event."""
        if self._agenda is not None:
            self._agenda.take(event)
        if _is_due(run):
            self._due_since = event.at if self._due_since is None else self._due_since
        else:
            self._due_since = None

    def _decided(self, line: int, run: Run, event: events.AnyEvent) -> None:
        self._notes.examined += 1
        self._due_since = None
        expected = self._required
        if not (expected and _is(expected[0], event, run)):
            expected = decide(run, event.at, self._agenda)
            if not (expected and _is(expected[0], event, run)):
                # The time of the decision is between the previous line and this one.
                expected = decide(run, run.at, self._agenda)
        if self._required and expected is not self._required:
            if isinstance(expected[0] if expected else None, End):
                pass  # The declared end of the run came first.
            else:
                self._missing(line, event)
        if expected and _is(expected[0], event, run):
            self._required = expected[1:]
            return
        first = _description(expected[0]) if expected else "nothing"
        self._notes.add(line, f"recorded is {_recorded(event)}, but the rules require {first}")
        self._required = []

    def _received(self, line: int, run: Run, event: events.AnyEvent) -> None:
        if self._required and not isinstance(self._required[0], End):
            if not isinstance(next(iter(decide(run, event.at, self._agenda)), None), End):
                self._missing(line, event)
            self._required = []
        if self._due_since is not None and event.at - self._due_since > LATE_SECONDS:
            due = decide(run, event.at, self._agenda)
            if due and not isinstance(due[0], End):
                self._notes.add(
                    line, f"the rules require {_description(due[0])} since {self._due_since:.3f} s, but it was not done"
                )
            self._due_since = None

    def _missing(self, line: int, event: events.AnyEvent) -> None:
        self._notes.add(
            line, f"recorded is {_recorded(event)}, but the rules require {_description(self._required[0])} first"
        )


def _is_from_silence(event: events.AnyEvent) -> bool:
    """Return if the driver decided the line from silence. Such a line comes before all other decisions (`times.py`)."""
    if isinstance(event, events.WorkerLost):
        return event.cause == "silence"
    return isinstance(event, events.TrialRejected) and event.by == "silence"


def _is_decided(run: Run, event: events.AnyEvent) -> bool:
    """Return if the line is a decision of the driver and not a message."""
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


def _is(command: Command, event: events.AnyEvent, run: Run) -> bool:
    """Return if the event records the execution of the command."""
    if isinstance(event, events.TrialStarted) and event.batch_size != run.trials[event.trial].batch_size:
        return False
    if isinstance(command, DropCheckpoint) and isinstance(event, events.CheckpointDropped):
        return command.trial == event.trial  # its reason counts the checkpoints that remain
    return _command(event) == command


def _command(event: events.AnyEvent) -> Command | None:
    """Return the command that an event records. None for an event that records no decision."""
    match event:
        case events.TrialStarted():
            return StartTrial(event.trial, event.attempt, event.worker, event.epoch, event.round)
        case events.ProposalRequested():
            return RequestProposal(
                event.number,
                event.worker,
                event.round,
                event.seed,
                event.starting_network,
                event.spare,
                event.follows,
            )
        case events.TrialFinished():
            return Finish(event.trial, event.reason)
        case events.TrialFailed():
            return GiveUp(event.trial, event.reason)
        case events.CheckpointDropped():
            return DropCheckpoint(event.trial, event.reason)
        case events.RunEnded():
            return End(event.reason)
        case _:
            return None


def _description(command: Command) -> str:
    match command:
        case StartTrial():
            return (
                f"attempt {command.attempt} of trial {command.trial} on worker {command.worker} from epoch {command.epoch}, "
                f"round {command.round}"
            )
        case RequestProposal():
            return (
                f"proposal {command.number} for round {command.round} of worker {command.worker}, seed {command.seed}"
                f"{', the starting network' if command.starting_network else ''}{', a spare' if command.spare else ''}"
            )
        case RejectRequest():
            return f"the rejection of proposal {command.number}"
        case Finish():
            return f"the end of trial {command.trial} ({command.reason})"
        case GiveUp():
            return f"the failure of trial {command.trial} ({command.reason})"
        case DeclareLost():
            return f"the loss of worker {command.worker}"
        case DropCheckpoint():
            return f"the removal of the checkpoint of trial {command.trial}"
        case End():
            return f"the end of the run ({command.reason})"


def _recorded(event: events.AnyEvent) -> str:
    command = _command(event)
    batch = f", batch {event.batch_size}" if isinstance(event, events.TrialStarted) else ""
    return type(event).__name__ if command is None else f"{_description(command)}{batch}"
