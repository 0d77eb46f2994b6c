"""What of an earlier run another can follow: its trials in the order in which they began, from its journal alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from aiperf.journal.events import AnyEvent, FollowedRun, Follows, RunStarted, TrialProposed, TrialStarted, WorkerJoined
from aiperf.rng import derive
from aiperf.rules.procedure import epoch_limit
from aiperf.rules.replay import replay
from aiperf.rules.state import Run
from aiperf.rules.trial import Trial, TrialState

WHY_LEFT_OUT = {
    TrialState.REQUESTED: "rejected",
    TrialState.REJECTED: "rejected",
    TrialState.WAITING: "never started",
    TrialState.WITHDRAWN: "never started",
    TrialState.FAILED: "failed",
}
"""Why a proposal in this state at its run's end is not followed. Those in other states are."""


@dataclass(frozen=True, slots=True)
class FollowedTrial:
    """A trial of the earlier run, as it is to be trained again."""

    number: int
    """There."""
    proposal: TrialProposed
    """There: its parent is a number of that run."""
    batch_size: int
    """Images per accelerator of its last epoch: where the batch did not fit, the one that it went on with."""
    follows: Follows

    @property
    def is_start(self) -> bool:
        """Whether it is the starting network itself."""
        return self.proposal.parent is None and not self.proposal.morphs


@dataclass(frozen=True, slots=True)
class Followed:
    """An earlier run, as far as another follows it."""

    first: RunStarted
    trials: tuple[FollowedTrial, ...]
    """In the order in which they began: a parent stands before its children."""
    left_out: dict[str, int]
    ranks: frozenset[int]
    """Numbers of ranks that its workers had."""
    devices: tuple[str, ...]
    workers: int

    def recorded(self, path: str, lines: int, last_hash: str) -> FollowedRun:
        """As the first line of the following run says it."""
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


def followed(events: Iterable[AnyEvent]) -> Followed:
    """What can be followed of a journal's run, of any schema.

    A trial that finished is, with as many epochs as it had. One that was still being trained when the run ended is, up to the
    most epochs that its round allowed: where it would have stopped early nobody knows. Proposals that were rejected, never
    started or failed are not.

    Raises:
        EventRefused: an event does not fit the run as it stood before it.
    """
    order: dict[int, None] = {}
    proposals: dict[int, TrialProposed] = {}
    joined: list[WorkerJoined] = []
    run: Run | None = None
    for run, event in replay(events):  # noqa: B007 - the last of them is what is asked for
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
    return Followed(
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
    follows = Follows(
        trial=trial.number,
        epochs=trial.epoch if is_whole else most,
        was_cut_off=not is_whole,
        seed=of_its_own if trial.follows is None else trial.follows.seed,
        heirs=heirs,
    )
    return FollowedTrial(trial.number, proposal, trial.batch_size, follows)


def _left_out(run: Run) -> dict[str, int]:
    """Every number that was given and is not followed, by the reason."""
    there = Counter(WHY_LEFT_OUT[trial.state] for trial in run.trials.values() if trial.state in WHY_LEFT_OUT)
    there["rejected"] += run.next_number - len(run.trials)
    return {reason: count for reason, count in sorted(there.items()) if count}
