"""Choice of the kept checkpoints: those of the best trials, and those that children inherit."""

from __future__ import annotations

import heapq

from aiperf.journal.events import CheckpointDropped, TrialProposed
from aiperf.rules.state import Run, Trial
from searchers.history import PARENTS

RETAINED = 2 * PARENTS
"""Number of kept checkpoints of trials that can grow. A proposal in progress may still name a parent that has just left the
best. In addition the best trial that cannot grow is kept."""


def keep_if_among_the_best(run: Run, trial: Trial, reported_accuracy: float) -> None:
    """Keep the checkpoint if it is among the RETAINED best that can grow, or the best that cannot."""
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
    """Count a trial as a child of its parent, whose checkpoint is kept until the child has ended."""
    parent = event.parent
    if event.follows is not None:
        if event.follows.heirs:
            run.children_due[event.number] = event.follows.heirs
    elif parent is not None:
        run.children_due[parent] = run.children_due.get(parent, 0) + 1
        run.droppable.pop(parent, None)


def child_settled(run: Run, parent: int | None) -> None:
    """Count a child less. After the last one, the parent's checkpoint is marked for removal."""
    if parent not in run.children_due:
        return
    run.children_due[parent] -= 1
    if not run.children_due[parent]:
        del run.children_due[parent]
        if parent not in run.retained:
            drop_if_idle(run, parent)


def drop_if_idle(run: Run, number: int) -> None:
    if number not in run.children_due and run.trials[number].saved_epoch:
        run.droppable[number] = None


def dropped(run: Run, event: CheckpointDropped) -> None:
    """Waiting trials that would inherit from the checkpoint are added to `run.orphaned`: they will fail."""
    trial = run.trials[event.trial]
    trial.saved_epoch = 0
    run.droppable.pop(event.trial, None)
    if event.trial in run.children_due:  # its file is missing: the run drops no checkpoint that a child needs
        for worker in run.workers.values():
            for waiting in worker.waiting:
                if run.trials[waiting].parent == event.trial:
                    run.orphaned[waiting] = None


def _release(run: Run, rank: tuple[float, int]) -> None:
    number = -rank[1]
    run.retained.discard(number)
    drop_if_idle(run, number)
