"""Trials of an earlier run that another run trains again (follows), read from the earlier journal alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from aiperf.errors import CannotFollow
from aiperf.journal.events import (
    AnyEvent,
    FollowedRun,
    FollowedValues,
    RunStarted,
    TrialProposed,
    TrialStarted,
    WorkerJoined,
)
from aiperf.journal.legality import TrialState
from aiperf.rng import derive
from aiperf.rules.evolve import replay
from aiperf.rules.procedure import epoch_limit
from aiperf.rules.state import Run, Trial

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
    proposal: TrialProposed
    """Proposal in the earlier run. Its parent is a number of that run."""
    batch_size: int
    """Images per accelerator in its last epoch, after reductions for lack of memory."""
    follows: FollowedValues

    @property
    def is_start(self) -> bool:
        return self.proposal.parent is None and not self.proposal.morphs


@dataclass(frozen=True, slots=True)
class FollowedHistory:
    first: RunStarted
    trials: tuple[FollowedTrial, ...]
    """Trials in the order of their start. A parent precedes its children."""
    left_out: dict[str, int]
    ranks: frozenset[int]
    devices: tuple[str, ...]
    workers: int

    def recorded(self, path: str, lines: int, last_hash: str) -> FollowedRun:
        """Return its description for the first line. Raise ValueError for no or different numbers of ranks."""
        (ranks,) = self.ranks
        return FollowedRun(
            run=self.first.run,
            path=path,
            lines=lines,
            last_hash=last_hash,
            trials=len(self.trials),
            left_out=self.left_out,
            ranks=ranks,
        )


def followed(events: Iterable[AnyEvent]) -> FollowedHistory:
    """Return the trials that another run can train again. Rejected, failed and never started ones are left out.

    A trial that the end of the run cut off is followed up to the maximum of its round: the epoch of an early stop is unknown.
    """
    order: dict[int, None] = {}
    proposals: dict[int, TrialProposed] = {}
    joined: list[WorkerJoined] = []
    run: Run | None = None
    for run, event in replay(events):  # noqa: B007 - the last one is used
        match event:
            case TrialProposed():
                proposals[event.number] = event
            case TrialStarted():
                order.setdefault(event.trial)
            case WorkerJoined():
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


def _trial(run: Run, trial: Trial, proposal: TrialProposed, heirs: int) -> FollowedTrial:
    is_whole = trial.state is TrialState.FINISHED
    most = epoch_limit(run.schedule, trial.round) if trial.epochs is None else trial.epochs
    of_its_own = derive(run.started.seed, "trial", trial.number)
    follows = FollowedValues(
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


def check_followed(first: RunStarted, work: FollowedHistory, last_hash: str) -> FollowedHistory:
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
