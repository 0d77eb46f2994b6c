"""Next decisions, as a pure function of the run and the time.

It examines only the ordered sets that events maintain: lost trials, idle workers, workers with proposal demand, the trials
longest without a message, unneeded checkpoints. It never iterates over all workers. A decision therefore costs the same for
one worker and for four thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, repeat

from aiperf.rng import derive
from aiperf.rules.procedure import end_of_trial
from aiperf.rules.replay_queue import ReplayQueue
from aiperf.rules.state import Run


@dataclass(frozen=True, slots=True)
class StartTrial:
    """Start of a trial on a worker, with its first epoch."""

    trial: int
    attempt: int
    worker: int
    epoch: int
    round: int
    """Round of the trial, the same for all its attempts."""


@dataclass(frozen=True, slots=True)
class RequestProposal:
    """Request for a proposal for a worker's next trial or as a spare."""

    number: int
    worker: int
    round: int
    seed: int
    starting_network: bool
    """True if the starting network itself is requested, because no worker has it."""
    spare: bool
    follows: int | None = None
    """Requested trial of the followed run."""


@dataclass(frozen=True, slots=True)
class RejectRequest:
    """Rejection of a request without an answer, so that another request follows."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """End of a trial that was lost after its last epoch."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Failure of a trial that has used its attempts or can no longer be started."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeclareLost:
    """Loss of a worker that was silent too long."""

    worker: int
    reason: str


@dataclass(frozen=True, slots=True)
class DropCheckpoint:
    """Removal of a checkpoint that no trial will inherit."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """End of the run."""

    reason: str


Command = StartTrial | RequestProposal | RejectRequest | Finish | GiveUp | DeclareLost | DropCheckpoint | End


def decide(run: Run, now: float, agenda: ReplayQueue | None = None) -> list[Command]:
    """Return the commands that follow from the run's state and the time.

    `now`: seconds since the start of the run. `agenda`: replay queue of a following run. Each executed command becomes an
    event. Call again after these events for further commands.
    """
    if run.ended is not None:
        return []
    if (reason := _end(run, now, agenda)) is not None:
        return [End(reason)]
    # These commands come first, one group at a time. They remove workers and proposals that other commands would use. If the
    # starting network fails, the next request is for it again.
    if commands := _silent(run, now) or _unanswered(run, now) or _orphaned(run) or _over(run):
        return commands
    # Lost trials come first: their finished epochs are already paid for, and children may wait for their weights.
    taken = set(islice(run.idle, len(run.lost)))
    for number, worker in zip(run.lost, run.idle, strict=False):
        trial = run.trials[number]
        commands.append(StartTrial(number, trial.attempt + 1, worker, trial.saved_epoch + 1, trial.round))
    for worker in run.ready:
        if worker not in taken:
            ready = run.workers[worker]
            commands.append(StartTrial(run.next_of(ready), 1, worker, 1, ready.round + 1))
    if (room := run.room_for_trials) != 0:
        requests = _requests(run, taken) if agenda is None else _next_to_follow(run, taken, agenda)
        commands += requests[:room]
    commands += [
        DropCheckpoint(number, f"not among the best {len(run.best)} that can grow") for number in run.droppable
    ]
    return commands


def _requests(run: Run, taken: set[int]) -> list[Command]:
    """Return the requests that are due. `taken`: idle workers that get a lost trial in this decision.

    A worker that is about to start a trial is skipped. Its demand is known after the start.
    """
    commands: list[Command] = []
    number, start_is_due = run.next_number, run.start_is_due
    for name in run.with_demand:
        if name in taken or name in run.ready:
            continue
        worker = run.workers[name]
        due, spares = run.short_of(worker)
        for is_spare in (*repeat(False, due), *repeat(True, spares)):
            # A spare may wait for hours, but the starting network is trained first.
            wants_start = start_is_due and not is_spare
            seed = derive(run.started.seed, "proposal", number)
            commands.append(RequestProposal(number, name, worker.round + 1, seed, wants_start, is_spare))
            number, start_is_due = number + 1, start_is_due and not wants_start
    return commands


def _next_to_follow(run: Run, taken: set[int], agenda: ReplayQueue) -> list[Command]:
    """Return the first ready trial of the followed run for the first idle worker.

    There is one request at a time. If a trial cannot be trained, its children become ready before later trials.
    """
    wanted = agenda.first
    name = next((name for name in run.idle if name in run.with_demand and name not in taken), None)
    if wanted is None or name is None:
        return []
    seed = derive(run.started.seed, "proposal", run.next_number)
    round_ = run.workers[name].round + 1
    return [RequestProposal(run.next_number, name, round_, seed, wanted.is_start, spare=False, follows=wanted.number)]


def _end(run: Run, now: float, agenda: ReplayQueue | None) -> str | None:
    if now >= run.duration:
        return "duration"
    if run.limits.trials is not None and run.finished >= run.limits.trials:
        return "trials"
    if (most := run.most_corrupt_images) is not None and len(run.corrupt) > most:
        return "corrupt images"
    if agenda is not None:
        return "followed" if agenda.is_done and not _is_anything_under_way(run) else None
    if bool(run.workers) and len(run.exhausted) == len(run.workers) and not _is_anything_under_way(run):
        return "no proposals"  # all workers are skipped, and no trial or proposal in progress can change that
    return None


def _is_anything_under_way(run: Run) -> bool:
    """True if a trial or a proposal is in progress."""
    return bool(run.running or run.ready or run.lost or run.ending or run.requests)


def _silent(run: Run, now: float) -> list[Command]:
    # Ordered by the time of the last message. The first trial that is not silent ends the loop.
    commands: list[Command] = []
    for number in islice(run.running, len(run.running)):
        trial = run.trials[number]
        silent = now - trial.last_message
        if silent < run.limits.silence_seconds:
            break
        assert trial.worker is not None
        commands.append(DeclareLost(trial.worker, f"no word for {silent:.0f} s while training trial {number}"))
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
    # Ordered by the time of the request. The first one that is not overdue ends the loop.
    commands: list[Command] = []
    given_up: set[int] = set()
    for request in run.requests.values():
        waited = now - request.at
        if waited < run.limits.silence_seconds:
            break
        if request.worker in run.idle:
            # It neither trains nor proposes, so it has sent no sign of life.
            if request.worker not in given_up:
                commands.append(DeclareLost(request.worker, f"no word for {waited:.0f} s, and no proposal"))
            given_up.add(request.worker)
        else:
            commands.append(RejectRequest(request.number, f"no answer for {waited:.0f} s"))
    return commands
