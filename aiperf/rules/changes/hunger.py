"""Which workers are short of proposals and may be asked for: the hungry, and those whose search came to nothing too often."""

from __future__ import annotations

from aiperf.rules.state import Run
from aiperf.rules.worker import Worker


def update(run: Run, worker: Worker) -> None:
    """Proposals are to be made for it, if it is short of them and the search is not at its end."""
    if worker.number not in run.exhausted and any(run.short_of(worker)):
        run.hungry[worker.number] = None
    else:
        run.hungry.pop(worker.number, None)


def came_to_nothing(run: Run, worker: Worker, number: int) -> None:
    """A request of a worker that is present was rejected: another is made, unless too many in a row were."""
    worker.requested.discard(number)
    worker.rejected_in_a_row += 1
    # What a run follows comes to an end by itself, however much of it cannot be trained.
    if worker.rejected_in_a_row >= run.limits.rejections and run.started.follows is None:
        run.exhausted[worker.number] = None
    update(run, worker)


def ask_again(run: Run) -> None:
    """A trial has finished, and gives the search something to go on."""
    while run.exhausted:  # there is a new parent: each asks once more
        worker = run.workers[run.exhausted.popitem(last=False)[0]]
        worker.rejected_in_a_row = run.limits.rejections - 1
        update(run, worker)
    if run.finished == 1:  # from now on each has spares
        for worker in run.workers.values():
            update(run, worker)


def miss_start(run: Run, number: int) -> None:
    """A proposal or trial comes to nothing: if it was that of the starting network, another is due."""
    if run.start == number:
        run.start = None
