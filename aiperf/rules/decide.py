"""Next decisions of a run, at a cost that does not depend on the number of workers: only ordered sets are examined."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat

from aiperf.journal import events
from aiperf.rng import derive
from aiperf.rules.followed import ReplayQueue
from aiperf.rules.interpret import end
from aiperf.rules.procedure import end_of_trial
from aiperf.rules.state import Run

WEIGHTS_GONE = "were dropped or lost before it started"


def decide(run: Run, now: float, replay: ReplayQueue | None = None) -> list[events.AnyEvent]:
    """Return the events that record the next decisions. Apply them to the run, then call again: they may allow further ones."""
    if run.ended is not None:
        return []
    if (reason := _end(run, now, replay)) is not None:
        return [events.RunEnded(at=now, reason=reason)]
    # These decisions come first, one group at a time. They remove workers and proposals that other decisions would use. If the
    # starting network fails, the next request is for it again.
    if decisions := _silent(run, now) or _unanswered(run, now) or _orphaned(run, now) or _over(run, now):
        return decisions
    # Lost trials come first: their finished epochs are already paid for, and children may wait for their weights.
    taken = set(islice(run.idle, len(run.lost)))
    for number, worker in zip(run.lost, run.idle, strict=False):
        trial = run.trials[number]
        decisions.append(_start(run, now, number, worker, trial.saved_epoch + 1, trial.round))
    for worker in run.ready:
        if worker not in taken:
            ready = run.workers[worker]
            decisions.append(_start(run, now, run.next_of(ready), worker, 1, ready.round + 1))
    if (room := run.room_for_trials) != 0:
        position = run.lines + len(decisions)
        if replay is None:
            decisions += islice(_requests(run, now, taken, position), room)
        else:
            decisions += _next_to_follow(run, now, taken, position, replay)
    reason = f"not among the best {len(run.best)} that can grow"
    decisions += [
        events.CheckpointDropped(at=now, trial=number, cause="not best", reason=reason) for number in run.droppable
    ]
    return decisions


def _start(run: Run, now: float, number: int, worker: int, epoch: int, round_: int) -> events.TrialStarted:
    trial = run.trials[number]
    return events.TrialStarted(
        at=now,
        trial=number,
        attempt=trial.attempt + 1,
        worker=worker,
        epoch=epoch,
        batch_size=trial.batch_size,
        round=round_,
    )


def _requests(run: Run, now: float, taken: set[int], position: int) -> Iterator[events.ProposalRequested]:
    """Yield the due requests. A worker that is about to start a trial is skipped: its demand is known after the start."""
    first, start_is_due = run.next_number, run.start_is_due
    number = first
    for name in run.with_demand:
        if name in taken or name in run.ready:
            continue
        worker = run.workers[name]
        due, spares = run.short_of(worker)
        for is_spare in (*repeat(False, due), *repeat(True, spares)):
            # A spare may wait for hours, but the starting network is trained first.
            wants_start = start_is_due and not is_spare
            yield events.ProposalRequested(
                at=now,
                number=number,
                worker=name,
                round=worker.round + 1,
                seed=derive(run.started.seed, "proposal", number),
                position=position + number - first,
                starting_network=wants_start,
                spare=is_spare,
            )
            number, start_is_due = number + 1, start_is_due and not wants_start


def _next_to_follow(
    run: Run, now: float, taken: set[int], position: int, replay: ReplayQueue
) -> list[events.ProposalRequested]:
    """One request at a time: the driver answers it at once, and the position of the next one counts that line."""
    wanted = replay.first
    name = next((name for name in run.idle if name in run.with_demand and name not in taken), None)
    if wanted is None or name is None:
        return []
    return [
        events.ProposalRequested(
            at=now,
            number=run.next_number,
            worker=name,
            round=run.workers[name].round + 1,
            seed=derive(run.started.seed, "proposal", run.next_number),
            position=position,
            follows=wanted,
        )
    ]


def _end(run: Run, now: float, replay: ReplayQueue | None) -> str | None:
    if now >= run.duration:
        return "duration"
    if run.limits.trials is not None and run.finished >= run.limits.trials:
        return "trials"
    if (most := run.most_corrupt_images) is not None and len(run.corrupt) > most:
        return "corrupt images"
    if replay is not None:
        return "followed" if replay.is_done and not _is_anything_under_way(run) else None
    if bool(run.workers) and len(run.exhausted) == len(run.workers) and not _is_anything_under_way(run):
        return "no proposals"  # all workers are skipped, and no trial or proposal in progress can change that
    return None


def _is_anything_under_way(run: Run) -> bool:
    return bool(run.running or run.ready or run.lost or run.ending or run.requests)


def _silent(run: Run, now: float) -> list[events.AnyEvent]:
    # Ordered by the time of the last message. The first trial that is not silent ends the loop.
    decisions: list[events.AnyEvent] = []
    for number in run.running:
        trial = run.trials[number]
        silent = now - trial.last_message
        if silent < run.limits.silence_seconds:
            break
        assert trial.worker is not None
        reason = f"no message for {silent:.0f} s while training trial {number}"
        decisions.append(events.WorkerLost(at=now, worker=trial.worker, cause="silence", reason=reason))
    return decisions


def _orphaned(run: Run, now: float) -> list[events.AnyEvent]:
    return [
        _failed(now, number, f"the weights of its parent, trial {run.trials[number].parent}, {WEIGHTS_GONE}")
        for number in run.orphaned
    ]


def _failed(now: float, number: int, reason: str) -> events.TrialFailed:
    return events.TrialFailed(at=now, trial=number, reason=reason, cause="machine")


def _over(run: Run, now: float) -> list[events.AnyEvent]:
    decisions: list[events.AnyEvent] = []
    for number in run.ending:
        trial = run.trials[number]
        if (over := end_of_trial(run.schedule, trial.round, trial.losses, trial.epochs)) is not None:
            decisions += end(run, trial, over, now)
        else:
            reason = f"lost {trial.losses_of_worker} times; the limit is {run.limits.attempts} attempts"
            decisions.append(_failed(now, number, reason))
    return decisions


def _unanswered(run: Run, now: float) -> list[events.AnyEvent]:
    # Ordered by the time of the request. The first one that is not overdue ends the loop.
    decisions: list[events.AnyEvent] = []
    silent: set[int] = set()
    for request in run.requests.values():
        waited = now - request.at
        if waited < run.limits.silence_seconds:
            break
        if request.worker not in run.idle:
            reason = f"no answer for {waited:.0f} s"
            decisions.append(events.TrialRejected(at=now, number=request.number, by="silence", reason=reason))
        elif request.worker not in silent:
            # It neither trains nor proposes, so it has sent no sign of life.
            silent.add(request.worker)
            reason = f"no message and no proposal for {waited:.0f} s"
            decisions.append(events.WorkerLost(at=now, worker=request.worker, cause="silence", reason=reason))
    return decisions
