"""What is to be done next: a function of the run and the time, which changes nothing.

It looks at what the last events touched (lost trials, idle and hungry workers, the longest silent trial, checkpoints that
nobody needs), never at all workers, so that a decision costs the same with one worker and with four thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from aiperf.run import Run
from aiperf.seeds import derive


@dataclass(frozen=True, slots=True)
class Start:
    """Train a trial on a worker, from an epoch on."""

    trial: int
    attempt: int
    worker: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Request:
    """Have a proposal made for a worker's round."""

    number: int
    worker: int
    round: int
    seed: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A trial has used its attempts."""

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


Command = Start | Request | GiveUp | WriteOff | DropCheckpoint | End


def decide(run: Run, now: float) -> list[Command]:
    """The commands that the run's state and the time call for; none, if it is to go on as it goes.

    `now`: seconds since the run began. Each command, carried out, becomes an event; deciding again after those gives what they
    call for in turn.
    """
    if run.ended is not None:
        return []
    if (reason := _end(run, now)) is not None:
        return [End(reason)]
    commands: list[Command] = []
    commands += _silent(run, now)
    lost = []
    for number in run.lost:
        trial = run.trials[number]
        if trial.losses_of_worker >= run.limits.attempts:
            commands.append(
                GiveUp(number, f"lost {trial.losses_of_worker} times; the limit is {run.limits.attempts} attempts")
            )
        else:
            lost.append(number)
    # Lost trials first: their epochs are paid for already, and a parent's weights may wait on them.
    taken = list(islice(run.idle, len(lost)))
    for number, worker in zip(lost, taken, strict=False):
        trial = run.trials[number]
        commands.append(Start(number, trial.attempt + 1, worker, trial.saved_epoch + 1))
    for worker in run.ready:
        if worker not in taken:
            commands.append(Start(run.workers[worker].waiting[0], 1, worker, 1))
    number = run.next_number
    for name in run.hungry:
        worker_state = run.workers[name]
        there = len(worker_state.waiting) + len(worker_state.requested)
        for ahead in range(there, run.limits.buffer):
            seed = derive(run.limits.seed, "proposal", number)
            commands.append(Request(number, name, worker_state.round + ahead + 1, seed))
            number += 1
    commands += [DropCheckpoint(number, f"not among the best {len(run.retained)}") for number in run.droppable]
    return commands


def _end(run: Run, now: float) -> str | None:
    if now >= run.limits.duration:
        return "duration"
    if run.limits.trials is not None and run.finished >= run.limits.trials:
        return "trials"
    if run.rejected_in_a_row >= run.limits.rejections:
        return "no proposals"
    return None


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
