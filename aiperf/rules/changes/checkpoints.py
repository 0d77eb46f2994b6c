"""Retention of checkpoints: those of the best trials, and of trials whose children need their weights."""

from __future__ import annotations

import heapq

from aiperf.journal.events import CheckpointDropped, TrialProposed
from aiperf.rules.state import Run, Trial
from searchers.history import PARENTS

RETAINED = 2 * PARENTS
"""Number of kept checkpoints of trials that can grow. A proposal in progress may still name a parent that has just left the
best. In addition the best trial that cannot grow is kept."""


def keep_if_among_the_best(run: Run, trial: Trial, reported_accuracy: float) -> None:
    """Keep the checkpoint of a finished trial if it is among the best, and release that of the trial that it displaces."""
    if not trial.saved_epoch:
        return  # it has no checkpoint
    rank = (reported_accuracy, -trial.number)
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
    """Count a proposed trial as one more child that may need its parent's weights, so that these are kept.

    In a run that follows another, the proposal itself names the number of its children.
    """
    parent = event.parent
    if event.follows is not None:
        if event.follows.heirs:
            run.children_due[event.number] = event.follows.heirs
    elif parent is not None:
        run.children_due[parent] = run.children_due.get(parent, 0) + 1
        run.droppable.pop(parent, None)


def child_settled(run: Run, parent: int | None) -> None:
    """Count a child less for `parent`: it was settled (finished, failed or withdrawn) and no longer needs the weights.

    After the last child, the checkpoint can be dropped unless it is among the best. Nothing changes for None.
    """
    if parent not in run.children_due:
        return
    run.children_due[parent] -= 1
    if not run.children_due[parent]:
        del run.children_due[parent]
        if parent not in run.retained:
            drop_if_idle(run, parent)


def drop_if_idle(run: Run, number: int) -> None:
    """Mark the checkpoint of a finished or failed trial as droppable, unless a child needs it or it has none."""
    if number not in run.children_due and run.trials[number].saved_epoch:
        run.droppable[number] = None


def dropped(run: Run, event: CheckpointDropped) -> None:
    """Record that a checkpoint was dropped or is missing. Waiting children that need a missing one become orphaned."""
    trial = run.trials[event.trial]
    trial.saved_epoch = 0
    run.droppable.pop(event.trial, None)
    if event.trial in run.children_due:  # its file is missing: the run drops no checkpoint that a child needs
        for worker in run.workers.values():
            for waiting in worker.waiting:
                if run.trials[waiting].parent == event.trial:
                    run.orphaned[waiting] = None


def _release(run: Run, rank: tuple[float, int]) -> None:
    """Release a finished trial's weights once its children no longer need them."""
    number = -rank[1]
    run.retained.discard(number)
    drop_if_idle(run, number)
