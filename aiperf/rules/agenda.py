"""What is still to be trained of the run that this one follows: a fold of this run's journal, beside `Run`.

A trial can be trained once its parent's is settled here, since it inherits its weights; of those that can the first in the
followed run's order is next. So on one worker the order is the same, and on any number no worker waits while there is work
that can be begun.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiperf.journal.events import (
    AnyEvent,
    ProposalRequested,
    RunResumed,
    TrialFailed,
    TrialFinished,
    TrialProposed,
    TrialRejected,
    TrialStarted,
    WorkerLost,
)
from aiperf.rules.fitting import REMEDY, EventRefused
from aiperf.rules.followed import FollowedTrial


@dataclass(slots=True)
class Agenda:
    """`take` each event of this run after its first (EventRefused: it asks for what is not due); then `first` and `is_done` say
    what is left. Trials are named by their numbers in the followed run, but for `here`."""

    trials: Sequence[FollowedTrial]
    """In the order in which they began there."""
    ready: list[int] = field(default_factory=list, init=False)
    """Places in `trials` of those that can be trained now, in order."""
    here: dict[int, int] = field(default_factory=dict, init=False)
    """The number in this run of each that was proposed."""
    _waiting: dict[int, list[int]] = field(default_factory=dict, init=False)
    """Places of those that wait for their parent to be settled, by the parent."""
    _asked: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)
    """(worker, followed trial) of each number of this run that is asked for or proposed, and has not begun."""
    _of: dict[int, int] = field(default_factory=dict, init=False)
    """The followed trial of each number of this run that has begun and is not settled."""
    _places: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._places = {trial.number: place for place, trial in enumerate(self.trials)}
        for place, trial in enumerate(self.trials):
            if (
                trial.proposal.parent not in self._places
            ):  # none, or one that nobody trains: that is told when it is asked for
                self.ready.append(place)
            else:
                self._waiting.setdefault(trial.proposal.parent, []).append(place)

    @property
    def is_done(self) -> bool:
        """Whether each was begun, or cannot be trained here."""
        return not (self.ready or self._waiting or self._asked)

    @property
    def first(self) -> FollowedTrial | None:
        """The next that can be trained now."""
        return self.trials[self.ready[0]] if self.ready else None

    def trial(self, number: int) -> FollowedTrial:
        """A trial of the followed run. Raises KeyError: none of that number is followed."""
        return self.trials[self._places[number]]

    def take(self, event: AnyEvent) -> None:
        """One more line of this run."""
        match event:
            case ProposalRequested():
                assert event.follows is not None, "the validator has seen that a run that follows asks for nothing else"
                self._ask(event.number, event.worker, event.follows)
            case TrialProposed():
                self.here[self._asked[event.number][1]] = event.number
            case TrialRejected():
                self._settle(self._asked.pop(event.number)[1])
            case TrialStarted():
                if event.trial in self._asked:
                    self._of[event.trial] = self._asked.pop(event.trial)[1]
            case TrialFinished():
                self._settle(self._of.pop(event.trial))
            case TrialFailed():
                begun = self._of.pop(event.trial, None)
                self._settle(self._asked.pop(event.trial)[1] if begun is None else begun)
            case WorkerLost():
                self._give_back([number for number, (worker, _) in self._asked.items() if worker == event.worker])
            case RunResumed():
                self._give_back(list(self._asked))
            case _:
                pass

    def _ask(self, number: int, worker: int, trial: int) -> None:
        place = self._places.get(trial, -1)
        index = bisect_left(self.ready, place)
        if self.ready[index : index + 1] != [place]:
            raise EventRefused(
                f"a run asks for a trial of the followed run that is due; proposal {number} is to be its trial {trial!r}, "
                f"which is not. {REMEDY}"
            )
        del self.ready[index]
        self._asked[number] = (worker, trial)

    def _settle(self, trial: int) -> None:
        for place in self._waiting.pop(trial, []):
            insort(self.ready, place)

    def _give_back(self, numbers: Sequence[int]) -> None:
        """Their worker is gone before they began: they are asked for again."""
        for number in numbers:
            _, trial = self._asked.pop(number)
            self.here.pop(trial, None)
            insort(self.ready, self._places[trial])
