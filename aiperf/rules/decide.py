"""What is to be done next: a function of the run and the time, which changes nothing.

It looks at what the last events touched (lost trials, idle and hungry workers, the longest silent trial, checkpoints that
nobody needs), never at all workers, so that a decision costs the same with one worker and with four thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, repeat

from aiperf.rng import derive
from aiperf.rules.agenda import Agenda
from aiperf.rules.procedure import end_of_trial
from aiperf.rules.state import Run


@dataclass(frozen=True, slots=True)
class Start:
    """Train a trial on a worker, from an epoch on."""

    trial: int
    attempt: int
    worker: int
    epoch: int
    round: int
    """That it is trained as: every attempt at a trial has that of the first."""


@dataclass(frozen=True, slots=True)
class Request:
    """Have a proposal made for a worker: for its next trial, or as a spare."""

    number: int
    worker: int
    round: int
    seed: int
    starting_network: bool
    """Nobody has it: the starting network itself is wanted."""
    spare: bool
    follows: int | None = None
    """The trial of the followed run that is wanted."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A proposal has not come, and another is to be made."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """A trial was lost after its last epoch: there is nothing left to do."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A trial has used its attempts, or waits for a worker and cannot be begun any more."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class WriteOff:
    """A worker has been silent too long."""

    worker: int
    reason: str


@dataclass(frozen=True, slots=True)
class DropCheckpoint:
    """Nobody will inherit from this trial."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """The run is over."""

    reason: str


Command = Start | Request | Reject | Finish | GiveUp | WriteOff | DropCheckpoint | End


def decide(run: Run, now: float, agenda: Agenda | None = None) -> list[Command]:
    """The commands that the run's state and the time call for; none, if it is to go on as it goes.

    `now`: seconds since the run began. `agenda`: of a run that follows another. Each command, carried out, becomes an event;
    deciding again after those gives what they call for in turn.
    """
    if run.ended is not None:
        return []
    if (reason := _end(run, now, agenda)) is not None:
        return [End(reason)]
    # First of all, and one after the other: nothing else may be decided for workers, or with proposals, that these take away;
    # and should the starting network be given up, the next request is for it again.
    if commands := _silent(run, now) or _unanswered(run, now) or _orphaned(run) or _over(run):
        return commands
    # Lost trials first: their epochs are paid for already, and a parent's weights may wait on them.
    taken = set(islice(run.idle, len(run.lost)))
    for number, worker in zip(run.lost, run.idle, strict=False):
        trial = run.trials[number]
        commands.append(Start(number, trial.attempt + 1, worker, trial.saved_epoch + 1, trial.round))
    for worker in run.ready:
        if worker not in taken:
            there = run.workers[worker]
            commands.append(Start(run.next_of(there), 1, worker, 1, there.round + 1))
    commands += _requests(run, taken) if agenda is None else _next_to_follow(run, taken, agenda)
    commands += [
        DropCheckpoint(number, f"not among the best {len(run.best)} that can grow") for number in run.droppable
    ]
    return commands


def _requests(run: Run, taken: set[int]) -> list[Command]:
    """The proposals that are to be asked for now; `taken`: idle workers that are given a lost trial at this moment.

    A worker that is about to begin something is not asked for yet: what it is short of shows when it has begun.
    """
    commands: list[Command] = []
    number, start_is_due = run.next_number, run.start_is_due
    for name in run.hungry:
        if name in taken or name in run.ready:
            continue
        worker = run.workers[name]
        due, spares = run.short_of(worker)
        for is_spare in (*repeat(False, due), *repeat(True, spares)):
            # A spare may wait for hours, and the starting network is trained first of all.
            wants_start = start_is_due and not is_spare
            seed = derive(run.started.seed, "proposal", number)
            commands.append(Request(number, name, worker.round + 1, seed, wants_start, is_spare))
            number, start_is_due = number + 1, start_is_due and not wants_start
    return commands


def _next_to_follow(run: Run, taken: set[int], agenda: Agenda) -> list[Command]:
    """The first trial of the followed run that can be trained, for the first worker that has nothing to do.

    One at a time: one that cannot be trained here lets its children be asked for, which stand before others.
    """
    wanted = agenda.first
    name = next((name for name in run.idle if name in run.hungry and name not in taken), None)
    if wanted is None or name is None:
        return []
    seed = derive(run.started.seed, "proposal", run.next_number)
    round_ = run.workers[name].round + 1
    return [Request(run.next_number, name, round_, seed, wanted.is_start, spare=False, follows=wanted.number)]


def _end(run: Run, now: float, agenda: Agenda | None) -> str | None:
    if now >= run.duration:
        return "duration"
    if run.limits.trials is not None and run.finished >= run.limits.trials:
        return "trials"
    if (most := run.most_corrupt_images) is not None and len(run.corrupt) > most:
        return "corrupt images"
    if agenda is not None:
        return "followed" if agenda.is_done and not _is_anything_under_way(run) else None
    if bool(run.workers) and len(run.exhausted) == len(run.workers) and not _is_anything_under_way(run):
        return (
            "no proposals"  # every worker's requests came to nothing, and nothing is under way that could change that
        )
    return None


def _is_anything_under_way(run: Run) -> bool:
    """Whether a trial or a proposal is to come to something without anybody being asked."""
    return bool(run.running or run.ready or run.lost or run.ending or run.requests)


def _silent(run: Run, now: float) -> list[Command]:
    # Ordered by their last words: the first that is not silent ends the look.
    commands: list[Command] = []
    for number in islice(run.running, len(run.running)):
        trial = run.trials[number]
        silent = now - trial.last_word
        if silent < run.limits.silence_seconds:
            break
        assert trial.worker is not None
        commands.append(WriteOff(trial.worker, f"no word for {silent:.0f} s while training trial {number}"))
    return commands


def _orphaned(run: Run) -> list[Command]:
    return [
        GiveUp(number, f"the weights of its parent, trial {run.trials[number].parent}, went while it waited")
        for number in run.orphaned
    ]


def _over(run: Run) -> list[Command]:
    commands: list[Command] = []
    for number in run.ending:
        trial = run.trials[number]
        if (over := end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)) is not None:
            commands.append(Finish(number, over))
        else:
            reason = f"lost {trial.losses_of_worker} times; the limit is {run.limits.attempts} attempts"
            commands.append(GiveUp(number, reason))
    return commands


def _unanswered(run: Run, now: float) -> list[Command]:
    # Ordered by when they were made: the first that is not overdue ends the look.
    commands: list[Command] = []
    given_up: set[int] = set()
    for request in run.requests.values():
        waited = now - request.at
        if waited < run.limits.silence_seconds:
            break
        if request.worker in run.idle:
            # It neither trains nor proposes: nothing shows that it is still there.
            if request.worker not in given_up:
                commands.append(WriteOff(request.worker, f"no word for {waited:.0f} s, and no proposal"))
            given_up.add(request.worker)
        else:
            commands.append(Reject(request.number, f"no answer for {waited:.0f} s"))
    return commands
