"""Whose checkpoints are kept: those of the best trials, and of trials whose children need their weights."""

from __future__ import annotations

import heapq

from aiperf.journal.events import CheckpointDropped, TrialProposed
from aiperf.rules.state import Run
from aiperf.rules.trial import Trial
from searchers.history import PARENTS

RETAINED = 2 * PARENTS
"""Checkpoints kept of trials that can grow: a proposal under way may still name a parent that has just left the best. Besides
them that of the best trial that cannot grow is kept."""


def keep_if_among_the_best(run: Run, trial: Trial, told_accuracy: float) -> None:
    """A trial has finished: its checkpoint is kept, and that of the one that it displaces is not."""
    if not trial.saved_epoch:
        return  # there is nothing of it to be kept
    rank = (told_accuracy, -trial.number)
    run.retained.add(trial.number)
    if trial.can_grow:
        heapq.heappush(run.best, rank)
        if len(run.best) > RETAINED:
            _release(run, heapq.heappop(run.best))
    else:
        before, run.best_full = run.best_full, rank if run.best_full is None else max(rank, run.best_full)
        if before is not None:
            _release(run, min(rank, before))


def children_due(run: Run, event: TrialProposed) -> None:
    """A trial was proposed that may need its parent's weights. One that follows says itself how many will need its own."""
    parent = event.parent
    if event.follows is not None:
        if event.follows.heirs:
            run.children_due[event.number] = event.follows.heirs
    elif parent is not None:
        run.children_due[parent] = run.children_due.get(parent, 0) + 1
        run.droppable.pop(parent, None)


def child_settled(run: Run, parent: int | None) -> None:
    """A trial is settled, and needs its parent's weights no more."""
    if parent not in run.children_due:
        return
    run.children_due[parent] -= 1
    if not run.children_due[parent]:
        del run.children_due[parent]
        if parent not in run.retained:
            drop_if_idle(run, parent)


def drop_if_idle(run: Run, number: int) -> None:
    """A settled trial's checkpoint may go, unless a child still needs it."""
    if number not in run.children_due and run.trials[number].saved_epoch:
        run.droppable[number] = None


def dropped(run: Run, event: CheckpointDropped) -> None:
    """A checkpoint is gone: dropped by the run, or vanished."""
    trial = run.trials[event.trial]
    trial.saved_epoch = 0
    run.droppable.pop(event.trial, None)
    if event.trial in run.children_due:  # its file has vanished: the run itself drops none that is needed
        for worker in run.workers.values():
            for waiting in worker.waiting:
                if run.trials[waiting].parent == event.trial:
                    run.orphaned[waiting] = None


def _release(run: Run, rank: tuple[float, int]) -> None:
    """A finished trial's weights are to be kept no longer than its children need them."""
    number = -rank[1]
    run.retained.discard(number)
    drop_if_idle(run, number)
