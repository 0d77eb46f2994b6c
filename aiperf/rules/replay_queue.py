"""Queue of the trials of a followed run that this run still has to train, as a function of this run's journal.

A trial is ready after its parent has finished or failed in this run, because it inherits the parent's weights. The next one
is the first ready one in the order of the followed run. No worker therefore waits while a trial is ready.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from aiperf.journal import events
from aiperf.journal.events import COUNTS, ProposalRequested, TrialProposed, TrialRejected
from aiperf.journal.legality import IllegalLine
from aiperf.rules.followed import FollowedTrial
from aiperf.rules.proposals import described, returned
from morphism import DamagedMorph, IllegalMorph, decode_morph
from searchers.history import History


@dataclass(slots=True)
class ReplayQueue:
    """Call `take` with each event after the first. Trials have their numbers in the followed run, except in `here`."""

    trials: Sequence[FollowedTrial]
    ready: list[int] = field(default_factory=list, init=False)
    """Indices in `trials` of the ready trials, in order."""
    here: dict[int, int] = field(default_factory=dict, init=False)
    """Number in this run of each proposed trial."""
    _waiting: dict[int, list[int]] = field(default_factory=dict, init=False)
    """Indices of trials that wait for their parent to be settled, by parent."""
    _asked: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)
    """(worker, followed trial) of each number of this run that was requested or proposed and has not started."""
    _of: dict[int, int] = field(default_factory=dict, init=False)
    """Followed trial of each number of this run that has started and is not settled."""
    _places: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._places = {trial.number: place for place, trial in enumerate(self.trials)}
        for place, trial in enumerate(self.trials):
            if (
                trial.proposal.parent not in self._places
            ):  # no parent, or one that is not trained: reported when the trial is requested
                self.ready.append(place)
            else:
                self._waiting.setdefault(trial.proposal.parent, []).append(place)

    @property
    def is_done(self) -> bool:
        """True if each trial of the followed run was started, or cannot be trained in this run."""
        return not (self.ready or self._waiting or self._asked)

    @property
    def first(self) -> FollowedTrial | None:
        return self.trials[self.ready[0]] if self.ready else None

    def trial(self, number: int) -> FollowedTrial:
        return self.trials[self._places[number]]

    def take(self, event: events.AnyEvent) -> None:
        """Update the queue. Raise IllegalLine if the event requests a trial that is not ready."""
        match event:
            case events.ProposalRequested():
                assert event.follows is not None, "the validator has seen that a run that follows asks for nothing else"
                self._ask(event.number, event.worker, event.follows)
            case events.TrialProposed():
                self.here[self._asked[event.number][1]] = event.number
            case events.TrialRejected():
                self._settle(self._asked.pop(event.number)[1])
            case events.TrialStarted():
                if event.trial in self._asked:
                    self._of[event.trial] = self._asked.pop(event.trial)[1]
            case events.TrialFinished():
                self._settle(self._of.pop(event.trial))
            case events.TrialFailed():
                begun = self._of.pop(event.trial, None)
                self._settle(self._asked.pop(event.trial)[1] if begun is None else begun)
            case events.WorkerLost():
                self._give_back([number for number, (worker, _) in self._asked.items() if worker == event.worker])
            case events.RunResumed():
                self._give_back(list(self._asked))
            case _:
                pass

    def _ask(self, number: int, worker: int, trial: int) -> None:
        place = self._places.get(trial, -1)
        index = bisect_left(self.ready, place)
        if self.ready[index : index + 1] != [place]:
            raise IllegalLine(
                f"a request must be for a trial of the followed run that is ready. Proposal {number} requests trial {trial!r}, "
                "which is not ready"
            )
        del self.ready[index]
        self._asked[number] = (worker, trial)

    def _settle(self, trial: int) -> None:
        for place in self._waiting.pop(trial, []):
            insort(self.ready, place)

    def _give_back(self, numbers: Sequence[int]) -> None:
        """Return trials to the queue: their worker was lost before their start."""
        for number in numbers:
            _, trial = self._asked.pop(number)
            self.here.pop(trial, None)
            insort(self.ready, self._places[trial])


FOLLOW = "follow"
"""Name of the searcher in the proposals of such a run."""
SAME = ("fingerprint", *COUNTS)
"""Counts of a proposal that must be equal in both runs."""


def answer(
    replay: ReplayQueue, history: History, request: ProposalRequested, at: float
) -> TrialProposed | TrialRejected:
    """Return the requested trial of the followed run as a proposal of this run, or a rejection.

    Rejected if the parent's weights are missing, the batch exceeds the measured largest batch, the morphs are illegal, or
    fingerprint or counts differ from those of the followed run.
    """
    assert request.follows is not None, "a run that follows asks for nothing else"
    wanted = replay.trial(request.follows)
    parent = None if wanted.proposal.parent is None else replay.here.get(wanted.proposal.parent)

    def rejected(reason: str) -> TrialRejected:
        return TrialRejected(at=at, number=request.number, by="check", reason=reason)

    if (reason := _without_weights(replay, history, wanted)) is not None:
        return rejected(reason)
    if history.ceiling is not None and wanted.batch_size > history.ceiling:
        return rejected(
            f"trial {wanted.number} of the followed run had batches of {wanted.batch_size}; the most that fits here was "
            f"measured to be {history.ceiling}"
        )
    word = msgspec.structs.replace(
        returned(wanted.proposal),
        number=request.number,
        searcher=FOLLOW,
        parent=parent,
        batch_size=wanted.batch_size,
        pruned=(),
        seconds=0.0,
    )
    try:
        network = history.architecture(parent, tuple([decode_morph(morph) for morph in word.morphs]))
    except (IllegalMorph, DamagedMorph) as error:
        return rejected(str(error))
    proposed = described(history, request, word, network, at, wanted.follows)
    for name in SAME:
        if (current := getattr(proposed, name)) != (recorded := getattr(wanted.proposal, name)):
            return rejected(
                f"trial {wanted.number} of the followed run has {name} {recorded!r} in its journal; the same morphs give "
                f"{current!r} here"
            )
    return proposed


def _without_weights(replay: ReplayQueue, history: History, wanted: FollowedTrial) -> str | None:
    followed_parent = wanted.proposal.parent
    if followed_parent is None:
        return None
    parent = replay.here.get(followed_parent)
    inherits = f"trial {wanted.number} of the followed run inherits from its trial {followed_parent}"
    if parent is None:
        return f"{inherits}, which could not be trained here"
    if parent not in history.accuracies:
        return f"{inherits}, whose like here, trial {parent}, did not finish"
    if parent in history.dropped:
        return f"{inherits}; the weights of its like here, trial {parent}, are gone"
    return None
