"""A search on a landscape without a run: every trial's result is known when it ends, and proposals wait for nothing.

For what only searchers decide, at the least cost; see benchmarks/search_landscape.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

from benchmarks.landscapes import Landscape
from morphism import Budget, Graph, apply, cost
from searchers import (
    PARENTS,
    FailedTrial,
    Finished,
    History,
    Request,
    Searcher,
    Space,
    TrialInFlight,
    WeightsDropped,
    propose,
)

WORKERS = 8
NOISE = 0.004
"""Standard deviation of a measured accuracy."""


def accuracy(landscape: Landscape, graph: Graph) -> float:
    """As a trial would measure it: with noise that belongs to the seed and the architecture."""
    noise = Random(f"{landscape.seed} {graph.fingerprint}").gauss(0.0, NOISE)
    return min(1.0, max(0.0, 1.0 - landscape.true_error(graph) + noise))


def search(
    searcher: Searcher,
    landscape: Landscape,
    trials: int,
    seed: int,
    fails: Callable[[int], bool] = lambda number: False,
    told: Callable[[Graph], float] | None = None,
) -> list[float]:
    """A search of that many finished trials: after each, the true error of the trial with the best measured one.

    `fails` says which proposals end without a result; `told` replaces what the search is told.
    """
    history = History(Space(landscape.start, Budget.of(landscape.start, 4.0), 128, 8, 512, tuning_from_round=4))
    running: list[tuple[float, int, Graph]] = []
    course: list[float] = []
    best = (-1.0, 1.0)  # measured accuracy, true error
    kept: list[tuple[float, int]] = []
    now, number = 0.0, 0
    while len(course) < trials:
        while len(running) < WORKERS:
            proposal = propose(searcher, history, Request(number, 1, seed), None)
            graph = history.graph(proposal.parent)
            for morph in proposal.morphs:
                graph, _ = apply(graph, morph)
            history.tell(
                [
                    TrialInFlight(
                        number, 1, proposal.parent, proposal.morphs, proposal.batch_size, None, graph.fingerprint
                    )
                ]
            )
            heapq.heappush(running, (now + cost(graph).training_flops, number, graph))
            number += 1
        now, finished, graph = heapq.heappop(running)
        if fails(finished):
            history.tell([FailedTrial(finished)])
            continue
        measured = accuracy(landscape, graph)
        history.tell([Finished(finished, measured if told is None else told(graph))])
        heapq.heappush(kept, (history.accuracies[finished], finished))
        if len(kept) > PARENTS:
            history.tell([WeightsDropped(heapq.heappop(kept)[1])])
        best = max(best, (measured, landscape.true_error(graph)), key=lambda pair: pair[0])
        course.append(best[1])
    return course
