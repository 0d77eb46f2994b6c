"""Trials of an earlier run that another run trains again, and their queue: each is ready once its parent is settled here."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from aiperf.errors import CannotFollow
from aiperf.journal import events
from aiperf.journal.legality import IllegalLine, TrialState
from aiperf.rng import derive
from aiperf.rules.evolve import replay
from aiperf.rules.procedure import epoch_limit
from aiperf.rules.proposals import described, returned
from aiperf.rules.state import Run, Trial
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
SAME = ("fingerprint", *events.COUNTS)
"""Counts of a proposal that must be equal in both runs."""


def answer(
    replay: ReplayQueue, history: History, request: events.ProposalRequested, at: float
) -> events.TrialProposed | events.TrialRejected:
    """Return the requested trial of the followed run as a proposal of this run, or a rejection: it would be other work here."""
    assert request.follows is not None, "a run that follows asks for nothing else"
    wanted = replay.trial(request.follows)
    parent = None if wanted.proposal.parent is None else replay.here.get(wanted.proposal.parent)

    def rejected(reason: str) -> events.TrialRejected:
        return events.TrialRejected(at=at, number=request.number, by="check", reason=reason)

    if (reason := _without_weights(replay, history, wanted)) is not None:
        return rejected(reason)
    if history.ceiling is not None and wanted.batch_size > history.ceiling:
        return rejected(
            f"trial {wanted.number} of the followed run had batches of {wanted.batch_size}; the most that fits here was "
            f"measured to be {history.ceiling}"
        )
    proposal = msgspec.structs.replace(
        returned(wanted.proposal),
        number=request.number,
        searcher=FOLLOW,
        parent=parent,
        batch_size=wanted.batch_size,
        pruned=(),
        seconds=0.0,
    )
    try:
        network = history.architecture(parent, tuple([decode_morph(morph) for morph in proposal.morphs]))
    except (IllegalMorph, DamagedMorph) as error:
        return rejected(str(error))
    proposed = described(history, request, proposal, network, at, wanted.follows)
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


WHY_LEFT_OUT = {
    TrialState.REQUESTED: "rejected",
    TrialState.REJECTED: "rejected",
    TrialState.WAITING: "never started",
    TrialState.WITHDRAWN: "never started",
    TrialState.FAILED: "failed",
}
"""Reasons for not following a proposal, by its state at the end of its run. Proposals in other states are followed."""


@dataclass(frozen=True, slots=True)
class FollowedTrial:
    """Trial (a network in training) of the earlier run that is to be trained again."""

    number: int
    proposal: events.TrialProposed
    """Proposal in the earlier run. Its parent is a number of that run."""
    batch_size: int
    """Images per accelerator in its last epoch, after reductions for lack of memory."""
    follows: events.FollowedValues

    @property
    def is_start(self) -> bool:
        return self.proposal.parent is None and not self.proposal.morphs


@dataclass(frozen=True, slots=True)
class FollowedHistory:
    first: events.RunStarted
    trials: tuple[FollowedTrial, ...]
    """Trials in the order of their start. A parent precedes its children."""
    left_out: dict[str, int]
    ranks: frozenset[int]
    devices: tuple[str, ...]
    workers: int

    def recorded(self, path: str, lines: int, last_hash: str) -> events.FollowedRun:
        """Return its description for the first line. Raise ValueError for no or different numbers of ranks."""
        (ranks,) = self.ranks
        return events.FollowedRun(
            run=self.first.run,
            path=path,
            lines=lines,
            last_hash=last_hash,
            trials=len(self.trials),
            left_out=self.left_out,
            ranks=ranks,
        )


def followed(journal: Iterable[events.AnyEvent]) -> FollowedHistory:
    """Return the trials to train again. A trial that the end of the run cut off is followed up to its round's maximum."""
    order: dict[int, None] = {}
    proposals: dict[int, events.TrialProposed] = {}
    joined: list[events.WorkerJoined] = []
    run: Run | None = None
    for run, event in replay(journal):  # noqa: B007 - the last one is used
        match event:
            case events.TrialProposed():
                proposals[event.number] = event
            case events.TrialStarted():
                order.setdefault(event.trial)
            case events.WorkerJoined():
                joined.append(event)
            case _:
                pass
    assert run is not None, "a replay gives at least one pair"
    trials = [run.trials[number] for number in order if run.trials[number].state not in WHY_LEFT_OUT]
    heirs = Counter(trial.parent for trial in trials)
    return FollowedHistory(
        first=run.started,
        trials=tuple(_trial(run, trial, proposals[trial.number], heirs[trial.number]) for trial in trials),
        left_out=_left_out(run),
        ranks=frozenset(event.ranks for event in joined),
        devices=tuple(sorted({event.device for event in joined})),
        workers=len({event.worker for event in joined}),
    )


def _trial(run: Run, trial: Trial, proposal: events.TrialProposed, heirs: int) -> FollowedTrial:
    is_whole = trial.state is TrialState.FINISHED
    most = epoch_limit(run.schedule, trial.round) if trial.epochs is None else trial.epochs
    of_its_own = derive(run.started.seed, "trial", trial.number)
    follows = events.FollowedValues(
        trial=trial.number,
        epochs=trial.epoch if is_whole else most,
        was_cut_off=not is_whole,
        seed=of_its_own if trial.follows is None else trial.follows.seed,
        heirs=heirs,
    )
    return FollowedTrial(trial.number, proposal, trial.batch_size, follows)


def _left_out(run: Run) -> dict[str, int]:
    left_out = Counter(WHY_LEFT_OUT[trial.state] for trial in run.trials.values() if trial.state in WHY_LEFT_OUT)
    left_out["rejected"] += run.next_number - len(run.trials)
    return {reason: count for reason, count in sorted(left_out.items()) if count}


def check_followed(first: events.RunStarted, work: FollowedHistory, last_hash: str) -> FollowedHistory:
    """Return `work`. Raise CannotFollow if its journal is another one than the first line names, by `last_hash`."""
    assert first.follows is not None, "checked by the caller"
    followed = f"'{first.follows.run}' (hash {first.follows.last_hash[:12]}…)"
    if last_hash != first.follows.last_hash:
        raise CannotFollow(
            f"the proposals of '{first.run}' are recomputed from the journal of {followed}. The given journal is "
            f"'{work.first.run}' with the hash {last_hash[:12]}…: "
            "give the journal of the followed run"
        )
    return work
