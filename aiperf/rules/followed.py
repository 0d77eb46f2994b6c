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
    """Number in the earlier run."""
    proposal: TrialProposed
    """Proposal in the earlier run. Its parent is a number of that run."""
    batch_size: int
    """Images per accelerator in its last epoch, after reductions for lack of memory."""
    follows: FollowedValues

    @property
    def is_start(self) -> bool:
        """True if the trial is the starting network itself, without a parent and without changes."""
        return self.proposal.parent is None and not self.proposal.morphs


@dataclass(frozen=True, slots=True)
class FollowedHistory:
    """Part of an earlier run that another run follows: its trials and its workers."""

    first: RunStarted
    trials: tuple[FollowedTrial, ...]
    """Trials in the order of their start. A parent precedes its children."""
    left_out: dict[str, int]
    ranks: frozenset[int]
    """Numbers of ranks of its workers."""
    devices: tuple[str, ...]
    workers: int

    def recorded(self, path: str, lines: int, last_hash: str) -> FollowedRun:
        """Return the description of the followed run that goes into the first line of the following run's journal.

        `path`: folder of the followed run. `lines`: number of lines read from its journal. `last_hash`: hash of the last of
        them. Raise ValueError if the workers of the followed run had different numbers of ranks, or if it had no worker.
        """
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
    """Return the trials that another run can train again. `events`: all events of the earlier run's journal, in order.

    A finished trial is followed with its number of epochs. A trial that the end of the run cut off is followed up to the
    largest number of epochs of its round, because the epoch of an early stop is unknown. Proposals that were rejected, never
    started or failed are left out. Raise IllegalLine if an event does not fit the run, and BadConfiguration if a limit or the
    schedule of the run is out of range.
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
    """Return the number of proposals that are not followed, by reason."""
    left_out = Counter(WHY_LEFT_OUT[trial.state] for trial in run.trials.values() if trial.state in WHY_LEFT_OUT)
    left_out["rejected"] += run.next_number - len(run.trials)
    return {reason: count for reason, count in sorted(left_out.items()) if count}


def check_followed(first: RunStarted, work: FollowedHistory, last_hash: str) -> FollowedHistory:
    """Return `work` if it was read from the journal that the run with the first line `first` follows.

    `last_hash`: hash of the last line of the journal that `work` was read from. Raise CannotFollow if it differs from the
    hash in `first`.
    """
    assert first.follows is not None, "checked by the caller"
    followed = f"'{first.follows.run}' (hash {first.follows.last_hash[:12]}…)"
    if last_hash != first.follows.last_hash:
        raise CannotFollow(
            f"the proposals of '{first.run}' are recomputed from the journal of {followed}. The given journal is "
            f"'{work.first.run}' with the hash {last_hash[:12]}…: "
            "give the journal of the followed run"
        )
    return work
