"""A trial and its state: which there are, which events fit which, and the story of how each was reached.

`Trial` is data; `aiperf.rules.state` alone changes it. An event that does not fit the state of its trial is refused before
anything is changed, with the trial's story.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from aiperf.journal.events import (
    AnyEvent,
    BatchReduced,
    CheckpointDropped,
    CheckpointNotWritten,
    CheckpointWritten,
    EpochFinished,
    Progress,
    ProposalRequested,
    TrialFailed,
    TrialFinished,
    TrialHeartbeat,
    TrialLost,
    TrialPrepared,
    TrialProposed,
    TrialRejected,
    TrialStarted,
)


class TrialState(Enum):
    """Where a trial is between the request for it and its end. The first two are of numbers that are no trial yet, or never."""

    REQUESTED = "requested"
    """A proposal is asked for: there is no trial yet."""
    REJECTED = "rejected"
    """Nothing came of the request."""
    WAITING = "waiting"
    """Proposed, and waits for the worker that it was proposed for."""
    RUNNING = "running"
    LOST = "lost"
    """Its attempt ended with the worker or in it: it is tried again, or ends."""
    FINISHED = "finished"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    """The worker that it waited for, or was asked for, is gone."""


ATTEMPTED = (TrialState.RUNNING, TrialState.LOST, TrialState.FINISHED, TrialState.FAILED)

FITS: dict[type[AnyEvent], tuple[TrialState | None, ...]] = {
    ProposalRequested: (None,),
    TrialProposed: (TrialState.REQUESTED,),
    TrialRejected: (TrialState.REQUESTED,),
    TrialStarted: (TrialState.WAITING, TrialState.LOST),
    TrialPrepared: (TrialState.RUNNING,),
    Progress: (TrialState.RUNNING,),
    EpochFinished: (TrialState.RUNNING,),
    BatchReduced: (TrialState.RUNNING,),
    CheckpointWritten: (TrialState.RUNNING,),
    CheckpointNotWritten: (TrialState.RUNNING,),
    TrialHeartbeat: (TrialState.RUNNING,),
    TrialLost: (TrialState.RUNNING,),
    TrialFinished: (TrialState.RUNNING, TrialState.LOST),
    TrialFailed: (TrialState.WAITING, TrialState.RUNNING, TrialState.LOST),
    CheckpointDropped: ATTEMPTED,
}
"""The states of its trial that an event fits; None: nobody has heard of its number. What is not here concerns no trial, or all
of a worker's (WorkerLost, RunResumed)."""

LEADS_TO = {
    ProposalRequested: TrialState.REQUESTED,
    TrialProposed: TrialState.WAITING,
    TrialRejected: TrialState.REJECTED,
    TrialStarted: TrialState.RUNNING,
    TrialLost: TrialState.LOST,
    TrialFinished: TrialState.FINISHED,
    TrialFailed: TrialState.FAILED,
}
"""The state that an event brings its trial to; all others of FITS leave it where it is. A worker that goes, or a resume, takes
what waited for it to WITHDRAWN and what it trained to LOST."""


class EventRefused(ValueError):
    """An event that does not fit the run: the law, the offence with the trial's story, and the remedy."""


@dataclass(slots=True)
class Trial:
    """A proposal, and what became of it. The work log of its images is kept elsewhere (score)."""

    number: int
    round: int
    """Of the worker that starts it; until then that which it was asked for."""
    made_for: int
    """The worker that it is first tried on."""
    parent: int | None
    morphs: list[dict[str, Any]]
    batch_size: int
    can_grow: bool = True
    """Whether it may be a parent."""
    state: TrialState = TrialState.REQUESTED
    """Changed by `aiperf.rules.state.enter` alone."""
    attempt: int = 0
    losses_of_worker: int = 0
    """Attempts that ended with the worker or in it; those that a killed driver took along are not held against the trial."""
    worker: int | None = None
    epoch: int = 0
    """Finished epochs, counted from the last that can be taken up."""
    saved_epoch: int = 0
    """The last epoch with a checkpoint."""
    unsaved_epoch: int = 0
    """The last epoch of its attempt that the disk is known to have refused."""
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    best_accuracy: float = 0.0
    told_accuracy: float | None = None
    last_word: float = 0.0
    is_prepared: bool = False
    """Whether its attempt has said that the module stands."""
    has_worked: bool = False
    """Whether its attempt has told of work."""
    # Of the epoch in progress, so that sums of words become intervals.
    current_epoch: int = 0
    training_images: int = 0
    validation_images: int = 0
    interval_end: float = 0.0
    sums: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    """busy, communication, validation, input and checkpoint seconds of the attempt."""


_STATES = tuple(TrialState)
_PLACE = {state: place for place, state in enumerate(_STATES)}


@dataclass(slots=True)
class Stories:
    """Of every number each state that it came to, with the line of the journal and the event that brought it there.

    Columns of numbers, for all trials together: some 20 bytes a change, looked through only where an event is refused.
    """

    numbers: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    states: array[int] = field(default_factory=lambda: array("b"))
    events: array[int] = field(default_factory=lambda: array("b"))
    """Places in `names`."""
    names: list[str] = field(default_factory=list)

    def add(self, number: int, state: TrialState, line: int, event: AnyEvent) -> None:
        """One more change of state."""
        name = type(event).__name__
        if name not in self.names:
            self.names.append(name)
        self.numbers.append(number)
        self.lines.append(line)
        self.states.append(_PLACE[state])
        self.events.append(self.names.index(name))

    def of(self, number: int) -> Iterator[tuple[TrialState, int, str]]:
        """Each state of a number, in order: (state, line, event)."""
        for one, line, state, event in zip(self.numbers, self.lines, self.states, self.events, strict=True):
            if one == number:
                yield _STATES[state], line, self.names[event]

    def told(self, number: int) -> str:
        """The story of a number in words; empty, if no line tells of it."""
        return ", ".join(f"{state.value} (line {line}, {event})" for state, line, event in self.of(number))


REMEDY = "Go on from the line before it (resume_until), and report it if aiperf itself wrote it"


def number_of(event: Any) -> int:
    """The number of the trial that an event of FITS is about."""
    found: int = event.number if hasattr(event, "number") else event.trial
    return found


def refusal(event: AnyEvent, line: int, stories: Stories) -> EventRefused:
    """Why an event, as line `line` of a journal, does not fit the state of its trial."""
    number = number_of(event)
    fitting = " or ".join("not yet asked for" if state is None else state.value for state in FITS[type(event)])
    story = stories.told(number)
    return EventRefused(
        f"{type(event).__name__} is of a trial that is {fitting}; line {line} has trial {number!r}, "
        f"{f'whose story is: {story}' if story else 'of which no line before it tells'}. {REMEDY}"
    )
