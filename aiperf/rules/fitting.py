"""Events that fit a run, by the state of their trial and the present workers. Others are refused with the trial's history."""

from __future__ import annotations

from collections.abc import Callable
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
    RunStarted,
    TrialFailed,
    TrialFinished,
    TrialHeartbeat,
    TrialLost,
    TrialPrepared,
    TrialProposed,
    TrialRejected,
    TrialStarted,
    WorkerJoined,
    WorkerLost,
)
from aiperf.rules.state import Run
from aiperf.rules.trial import TrialState
from aiperf.rules.trial_history import TrialHistories

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
"""States of its trial that an event fits. None: its number is unknown. Missing events concern no trial, or all trials of a
worker (WorkerLost, RunResumed)."""

_WORDS = frozenset(kind for kind, states in FITS.items() if states == (TrialState.RUNNING,))
"""Events that an attempt reports. It must be running."""


_OF_NUMBERS = (ProposalRequested, TrialProposed, TrialRejected)
"""Events of a number that is not a trial yet."""


class IllegalEvent(ValueError):
    """An event that does not fit the run. The text has the rule, the event with the trial's history, and the remedy."""


REMEDY = "Go on from the line before it (resume_until), and report it if aiperf itself wrote it"


def number_of(event: Any) -> int:
    """Return the number of the trial that an event of FITS concerns."""
    found: int = event.number if type(event) in _OF_NUMBERS else event.trial
    return found


def refusal(event: AnyEvent, line: int, stories: TrialHistories) -> IllegalEvent:
    """Return the error of an event, as line `line` of a journal, that does not fit the state of its trial."""
    number = number_of(event)
    fitting = " or ".join("not yet asked for" if state is None else state.value for state in FITS[type(event)])
    story = stories.text(number)
    return IllegalEvent(
        f"{type(event).__name__} is of a trial that is {fitting}; line {line} has trial {number!r}, "
        f"{f'whose story is: {story}' if story else 'of which no line before it tells'}. {REMEDY}"
    )


def check_that_it_fits(run: Run, event: AnyEvent) -> None:
    """Raise IllegalEvent if an event does not fit the state of its trial or of its worker."""
    kind = type(event)
    if kind in _WORDS:  # nearly all events
        if event.trial not in run.running:  # type: ignore[union-attr]
            raise refusal(event, run.lines + 1, run.stories)
        return
    fitting = FITS.get(kind)
    if fitting is not None and _state_of(run, event) not in fitting:
        raise refusal(event, run.lines + 1, run.stories)
    law = _LAWS.get(kind)
    if law is not None:
        law(run, event)


def _is_of_a_worker_that_is_present(run: Run, event: ProposalRequested | WorkerLost) -> None:
    if event.worker not in run.workers:
        raise _misfit(run, event, "is of a worker that is present", f"worker {event.worker!r}, which is not")


def _gives_a_new_number(run: Run, event: WorkerJoined) -> None:
    if event.worker in run.workers or event.worker in run.departed:
        raise _misfit(run, event, "gives a worker a number of its own", f"worker {event.worker!r} once more")


def _names_a_parent_that_was_proposed(run: Run, event: TrialProposed) -> None:
    if event.parent is not None and event.parent not in run.trials:
        raise _misfit(run, event, "names a parent that was proposed", f"trial {event.parent!r} as one")


def _begins_the_next_attempt(run: Run, event: TrialStarted) -> None:
    trial = run.trials[event.trial]
    if event.worker not in run.idle:
        raise _misfit(run, event, "is of a worker that trains nothing", f"worker {event.worker!r}, not such a one")
    if trial.state is TrialState.WAITING and event.worker != trial.made_for:
        raise _misfit(run, event, f"is first tried on worker {trial.made_for}", f"worker {event.worker!r}")
    if event.attempt != trial.attempt + 1:
        raise _misfit(run, event, f"begins attempt {trial.attempt + 1}", f"attempt {event.attempt!r}")


def _is_the_first_line(run: Run, event: RunStarted) -> None:
    raise _misfit(run, event, "is the first line", "it once more")


_LAWS: dict[type[AnyEvent], Callable[[Run, Any], None]] = {
    ProposalRequested: _is_of_a_worker_that_is_present,
    WorkerLost: _is_of_a_worker_that_is_present,
    WorkerJoined: _gives_a_new_number,
    TrialProposed: _names_a_parent_that_was_proposed,
    TrialStarted: _begins_the_next_attempt,
    RunStarted: _is_the_first_line,
}
"""Rules of an event in addition to the state of its trial."""


def _misfit(run: Run, event: AnyEvent, law: str, offence: str) -> IllegalEvent:
    story = f" of trial {event.trial} ({run.stories.text(event.trial)})" if isinstance(event, TrialStarted) else ""
    return IllegalEvent(f"{type(event).__name__}{story} {law}; line {run.lines + 1} has {offence}. {REMEDY}")


def _state_of(run: Run, event: AnyEvent) -> TrialState | None:
    """Return the state of the trial that an event of FITS concerns. None if its number is unknown."""
    number = number_of(event)
    trial = run.trials.get(number)
    if trial is not None:
        return trial.state
    if number in run.requests:
        return TrialState.REQUESTED
    return TrialState.REJECTED if 0 <= number < run.next_number else None
