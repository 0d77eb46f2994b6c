"""What the driver decided: each such line is what its rules called for as the run stood, and all that they called for was done.

Deciding is a function of the run and the time (`aiperf/rules/decide.py`), and the driver carries out what it gives, all of it
and in its order, before it listens again. So a line that was put in, left out, exchanged or moved, and a worker, seed or option
that is not what it was, make it decide otherwise. What the rules decide from silence is not looked at: intervals of work end a
silence, and are not shown here.
"""

from __future__ import annotations

import math

from aiperf.journal.events import (
    AnyEvent,
    CheckpointDropped,
    EpochFinished,
    ProposalRequested,
    RunEnded,
    RunResumed,
    TrialFailed,
    TrialFinished,
    TrialProposed,
    TrialRejected,
    TrialStarted,
    WorkerLost,
)
from aiperf.rules.agenda import Agenda
from aiperf.rules.decide import (
    Command,
    DropCheckpoint,
    End,
    Finish,
    GiveUp,
    Reject,
    Request,
    Start,
    WriteOff,
    decide,
)
from aiperf.rules.state import Run
from aiperf.rules.trial import TrialState
from aiperf.verify.check import Notes
from aiperf.verify.finding import Checked

LAW = "the driver does what its rules call for, all of it, in their order, and nothing else"
LATE_SECONDS = 120.0
"""What is called for is done in the turn in which it is heard of; a turn that hears of 4096 workers takes some seconds."""
FROM_OUTSIDE = ("interrupted", "no workers", "converged")
"""Ends that no rule on the state of a run calls for: whether a score has come to rest is decided from its work, and looked at
there (`converged.py`)."""


class Decisions:
    """A check of the run as the rules see it."""

    looks_at_epochs = True

    def __init__(self, run: Run, agenda: Agenda | None = None) -> None:
        """`agenda`: of a run that follows another, what it is to train."""
        self._agenda = agenda
        # Intervals of work, which end a silence, are not shown here.
        run.limits.silence_seconds = math.inf
        self._notes = Notes("decisions", LAW, "decisions")
        self._called_for: list[Command] = []
        """What is left of what the rules called for last."""
        self._goes_with: int | None = None
        """A trial that has just finished and left no checkpoint: its line goes with that of its end."""
        self._due_since: float | None = None

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """The event, and the run as it stands before it."""
        goes_with = self._goes_with
        if type(event) is EpochFinished and goes_with is None and not self._called_for and self._due_since is None:
            return  # nearly all lines
        if self._agenda is not None and isinstance(event, TrialProposed | TrialRejected):
            return  # the driver's own answer to the request before it
        self._goes_with = None
        if isinstance(event, CheckpointDropped) and event.trial == goes_with:
            return
        if isinstance(event, RunResumed) or _is_of_silence(event):
            self._called_for, self._due_since = [], None
            return
        if isinstance(event, RunEnded) and event.reason in FROM_OUTSIDE:
            self._called_for = []
            return
        if isinstance(event, TrialFinished) and not run.trials[event.trial].saved_epoch:
            self._goes_with = event.trial
        if _is_decided(run, event):
            self._decided(line, run, event)
        else:
            self._heard(line, run, event)

    def after(self, run: Run, event: AnyEvent) -> None:
        """The run as it stands after the event: what the rules call for next, once the last call is carried out."""
        if self._agenda is not None:
            self._agenda.take(event)
        if _is_due(run):
            self._due_since = event.at if self._due_since is None else self._due_since
        else:
            self._due_since = None

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def _decided(self, line: int, run: Run, event: AnyEvent) -> None:
        self._notes.examined += 1
        self._due_since = None
        expected = self._called_for
        if not (expected and _is(expected[0], event, run)):
            expected = decide(run, event.at, self._agenda)
            if not (expected and _is(expected[0], event, run)):
                # the time it was decided at lies between the line before and this one
                expected = decide(run, run.at, self._agenda)
        if self._called_for and expected is not self._called_for:
            if isinstance(expected[0] if expected else None, End):
                pass  # the declared end came in between
            else:
                self._left_out(line, event)
        if expected and _is(expected[0], event, run):
            self._called_for = expected[1:]
            return
        first = _words(expected[0]) if expected else "nothing"
        self._notes.add(line, LAW, f"{_told(event)}; the rules call for {first}")
        self._called_for = []

    def _heard(self, line: int, run: Run, event: AnyEvent) -> None:
        if self._called_for and not isinstance(self._called_for[0], End):
            if not isinstance(next(iter(decide(run, event.at, self._agenda)), None), End):
                self._left_out(line, event)
            self._called_for = []
        if self._due_since is not None and event.at - self._due_since > LATE_SECONDS:
            due = decide(run, event.at, self._agenda)
            if due and not isinstance(due[0], End):
                self._notes.add(
                    line, LAW, f"{_words(due[0])} has been called for since {self._due_since:.3f} s, and was not done"
                )
            self._due_since = None

    def _left_out(self, line: int, event: AnyEvent) -> None:
        self._notes.add(line, LAW, f"{_told(event)} comes where the rules call for {_words(self._called_for[0])}")


def _is_of_silence(event: AnyEvent) -> bool:
    """Whether a line may be a decision made from silence, before which nothing else is decided."""
    if isinstance(event, WorkerLost):
        return event.reason.startswith("no word for")
    return isinstance(event, TrialRejected) and event.reason.startswith("no answer for")


def _is_decided(run: Run, event: AnyEvent) -> bool:
    """Whether the driver decided it, rather than heard of it."""
    match event:
        case ProposalRequested() | TrialStarted() | RunEnded():
            return True
        case TrialFinished():
            return run.trials[event.trial].state is not TrialState.RUNNING
        case TrialFailed():
            return run.trials[event.trial].state is not TrialState.RUNNING
        case CheckpointDropped():
            return event.reason.startswith("not among the best")
        case _:
            return False


def _is_due(run: Run) -> bool:
    return bool(run.ready or run.lost or run.ending or run.orphaned or run.droppable or run.hungry)


def _is(command: Command, event: AnyEvent, run: Run) -> bool:
    """Whether an event is that command, carried out."""
    match command, event:
        case Start(), TrialStarted():
            said = (event.trial, event.attempt, event.worker, event.epoch, event.round)
            return said == (command.trial, command.attempt, command.worker, command.epoch, command.round) and (
                event.batch_size == run.trials[event.trial].batch_size
            )
        case Request(), ProposalRequested():
            asked = (event.worker, event.round, event.seed, event.starting_network, event.spare, event.follows)
            return event.number == command.number and asked == (
                command.worker,
                command.round,
                command.seed,
                command.starting_network,
                command.spare,
                command.follows,
            )
        case Finish(), TrialFinished():
            return (event.trial, event.reason) == (command.trial, command.reason)
        case GiveUp(), TrialFailed():
            return (event.trial, event.reason) == (command.trial, command.reason)
        case DropCheckpoint(), CheckpointDropped():
            return event.trial == command.trial
        case End(), RunEnded():
            return event.reason == command.reason
        case _:
            return False


def _words(command: Command) -> str:
    match command:
        case Start():
            return (
                f"attempt {command.attempt} at trial {command.trial} on worker {command.worker} from epoch {command.epoch}, "
                f"round {command.round}"
            )
        case Request():
            return (
                f"proposal {command.number} for round {command.round} of worker {command.worker}, seed {command.seed}"
                f"{', the starting network' if command.starting_network else ''}{', a spare' if command.spare else ''}"
            )
        case Reject():
            return f"proposal {command.number} to be given up"
        case Finish():
            return f"the end of trial {command.trial} ({command.reason})"
        case GiveUp():
            return f"trial {command.trial} to be given up ({command.reason})"
        case WriteOff():
            return f"worker {command.worker} to be written off"
        case DropCheckpoint():
            return f"the checkpoint of trial {command.trial} to be dropped"
        case End():
            return f"the run's end ({command.reason})"


def _told(event: AnyEvent) -> str:
    match event:
        case TrialStarted():
            command: Command = Start(
                event.trial, event.attempt, event.worker, event.epoch, -1 if event.round is None else event.round
            )
            return f"{_words(command)}, batch {event.batch_size}"
        case ProposalRequested():
            return _words(
                Request(event.number, event.worker, event.round, event.seed, event.starting_network, event.spare)
            )
        case RunEnded():
            return _words(End(event.reason))
        case CheckpointDropped():
            return _words(DropCheckpoint(event.trial, event.reason))
        case TrialFinished():
            return _words(Finish(event.trial, event.reason))
        case _:
            return type(event).__name__
