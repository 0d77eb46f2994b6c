"""Legality of a journal event, given the state of the run: one table for the validator, `evolve` and `verify`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Protocol, get_args, get_origin, get_type_hints

import msgspec

from aiperf.journal import events

YEAR_10000 = 253_402_300_800


class IllegalLine(ValueError):
    """Error for a journal line that no run can write. The text has the rule and the offending value."""


def must(holds: bool, law: str, value: str) -> None:
    if not holds:
        raise IllegalLine(f"{law}. This line has {value}")


def must_be_integer(name: str, value: object, least: int, most: int) -> None:
    """Raise IllegalLine unless `value` is an integer from `least` to `most`. True and False are none."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise IllegalLine(f"{name} must be an integer from {least} to {most}. This line has {value!r}")


class TrialState(Enum):
    """State of a proposed network from its request to its end. REQUESTED and REJECTED precede or replace a trial."""

    REQUESTED = "requested"
    REJECTED = "rejected"
    WAITING = "waiting"
    """Proposed, and waiting for its worker."""
    RUNNING = "running"
    LOST = "lost"
    FINISHED = "finished"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    """The worker of its request or proposal was lost."""


class StateView(Protocol):
    """State of a run, as far as it decides which event may come next."""

    def state_of(self, number: int) -> TrialState | None:
        """None if it was never requested."""
        ...

    def attempt_of(self, trial: int) -> int:
        """Return the number of the last attempt, 0 before the first. The trial is not finished, failed or withdrawn."""
        ...

    def made_for(self, trial: int) -> int:
        """Return the worker that it was proposed for. The trial is not finished, failed or withdrawn."""
        ...

    def presence_of(self, worker: int) -> Presence: ...


Presence = Literal["unknown", "lost", "idle", "training"]
_PRESENT: tuple[Presence, ...] = ("idle", "training")
_JOINED: tuple[Presence, ...] = ("lost", "idle", "training")
_RUNNING = (TrialState.RUNNING,)
_PROPOSED = (*TrialState,)[2:]
_ATTEMPTED = (TrialState.RUNNING, TrialState.LOST, TrialState.FINISHED, TrialState.FAILED)


@dataclass(frozen=True, slots=True)
class LegalEvent:
    """Row of the table: requirements of one type of event."""

    states: tuple[TrialState | None, ...] | None = None
    """States of its trial. None as a state: the number was never requested. None as a whole: it concerns no single trial."""
    of_current_attempt: bool = False
    """True if its attempt must be the last one of the trial."""
    presence: tuple[Presence, ...] | None = None
    """Presence of its worker. None: it names no worker, or its trial determines the worker."""


LEGAL: dict[type[Any], LegalEvent] = {
    events.RunStarted: LegalEvent(),
    events.RunResumed: LegalEvent(),
    events.RunEnded: LegalEvent(),
    events.WorkerJoined: LegalEvent(presence=("unknown",)),
    events.WorkerLost: LegalEvent(presence=_PRESENT),
    events.WorkerNotStarted: LegalEvent(),
    events.NodeChecked: LegalEvent(),
    events.ScorePredicted: LegalEvent(),
    events.HelperLost: LegalEvent(presence=_PRESENT),
    events.CeilingMeasured: LegalEvent(presence=_PRESENT),
    events.ProposalRequested: LegalEvent((None,), presence=_PRESENT),
    events.TrialProposed: LegalEvent((TrialState.REQUESTED,)),
    events.TrialRejected: LegalEvent((TrialState.REQUESTED,)),
    events.TrialStarted: LegalEvent((TrialState.WAITING, TrialState.LOST), presence=("idle",)),
    events.TrialPrepared: LegalEvent(_RUNNING, of_current_attempt=True),
    events.StepsProfiled: LegalEvent(_RUNNING, of_current_attempt=True),
    events.Progress: LegalEvent(_RUNNING, of_current_attempt=True),
    events.EpochFinished: LegalEvent(_RUNNING, of_current_attempt=True),
    events.BatchReduced: LegalEvent(_RUNNING, of_current_attempt=True),
    events.CheckpointWritten: LegalEvent(_RUNNING, of_current_attempt=True),
    events.CheckpointNotWritten: LegalEvent(_RUNNING, of_current_attempt=True),
    events.TrialHeartbeat: LegalEvent(_RUNNING, of_current_attempt=True),
    events.TrialLost: LegalEvent(_RUNNING, of_current_attempt=True),
    events.TrialFinished: LegalEvent((TrialState.RUNNING, TrialState.LOST), of_current_attempt=True),
    events.TrialFailed: LegalEvent((TrialState.WAITING, TrialState.RUNNING, TrialState.LOST)),
    events.CheckpointDropped: LegalEvent(_ATTEMPTED),
    events.ImagesSkipped: LegalEvent(presence=_JOINED),
}

_OF_NUMBERS = (events.ProposalRequested, events.TrialProposed, events.TrialRejected)
"""Events of a number that is not a trial yet."""


def check_ranges(event: msgspec.Struct) -> None:
    """Raise IllegalLine if a number of the event is out of the range that its field declares."""
    _check(type(event), event)


def check_ranges_of_line(body: bytes) -> None:
    """Raise IllegalLine if a line that could not be decoded has a number out of its range."""
    members = msgspec.json.decode(body)
    kind = _KINDS.get(str(members.get("event"))) if isinstance(members, dict) else None
    if kind is not None:
        _check(kind, members)


_KINDS: dict[Any, type[msgspec.Struct]] = {kind.__name__: kind for kind in LEGAL}


@cache
def ranges(kind: type[msgspec.Struct]) -> tuple[tuple[str, bool, tuple[float, float] | type[msgspec.Struct]], ...]:
    """Return (field, True for the values of a mapping, least and largest value or the part of an event with ranges)."""
    hints = get_type_hints(kind, include_extras=True)
    limits = ((name, get_origin(hint) is dict, _limits(hint)) for name, hint in hints.items())
    return tuple((name, is_mapping, limit) for name, is_mapping, limit in limits if limit is not None)


def _limits(hint: Any) -> tuple[float, float] | type[msgspec.Struct] | None:
    if get_origin(hint) is Annotated:
        (meta,) = hint.__metadata__
        return meta.ge, meta.le
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint if ranges(hint) else None
    return next((limits for each in get_args(hint) if (limits := _limits(each)) is not None), None)


def _check(kind: type[msgspec.Struct], owner: Any) -> None:
    """`owner`: an object of `kind`, or its members as JSON of unknown types."""
    for name, is_mapping, limits in ranges(kind):
        value = owner.get(name) if isinstance(owner, dict) else getattr(owner, name)
        for each in value.values() if is_mapping and isinstance(value, dict) else (value,):
            if isinstance(limits, tuple):
                if isinstance(each, int | float) and not limits[0] <= each <= limits[1]:
                    raise IllegalLine(f"{name} must be from {limits[0]} to {limits[1]}. This line has {each!r}")
            elif isinstance(each, dict | msgspec.Struct):
                _check(limits, each)


def check_state(event: Any, run: StateView) -> None:
    """Raise IllegalLine if the event does not fit the state of its trial, parent or worker, or is a second first line."""
    legal, kind = LEGAL[type(event)], type(event).__name__
    if legal.states is not None:
        number = event.number if type(event) in _OF_NUMBERS else event.trial
        state = run.state_of(number)
        if state not in legal.states:
            raise IllegalLine(
                f"{kind} requires a trial that is {_text(legal.states)}. Trial {number!r} is {_name(state)}"
            )
        if legal.of_current_attempt and event.attempt != run.attempt_of(number):
            raise IllegalLine(
                f"{kind} must name attempt {run.attempt_of(number)} of trial {number}. This line has {event.attempt!r}"
            )
    if legal.presence is not None and (presence := run.presence_of(event.worker)) not in legal.presence:
        required = " or ".join(legal.presence)
        raise IllegalLine(f"{kind} requires a worker that is {required}. Worker {event.worker!r} is {presence}")
    match event:
        case events.RunStarted():
            raise IllegalLine("RunStarted must be the first line. This line is a later one")
        case events.TrialProposed():
            is_older = event.parent is None or event.parent < event.number
            if not is_older or (event.parent is not None and run.state_of(event.parent) not in _PROPOSED):
                raise IllegalLine(
                    f"a parent must be proposed before its child. Trial {event.number} names {event.parent!r}"
                )
        case events.TrialStarted():
            attempt, made_for = run.attempt_of(event.trial) + 1, run.made_for(event.trial)
            if event.attempt != attempt:
                raise IllegalLine(
                    f"the next attempt of trial {event.trial} is {attempt}. This line has {event.attempt!r}"
                )
            if attempt == 1 and event.worker != made_for:
                raise IllegalLine(
                    f"trial {event.trial} must first start on worker {made_for}, for which it was proposed. "
                    f"This line has worker {event.worker!r}"
                )


def _text(states: tuple[TrialState | None, ...]) -> str:
    return " or ".join(map(_name, states))


def _name(state: TrialState | None) -> str:
    return "not requested" if state is None else state.value
