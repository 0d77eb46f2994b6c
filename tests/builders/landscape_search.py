"""A search on a landscape without a run: results are known at a trial's end, and proposals are not delayed.

It tests searchers alone at the least cost. tests/builders/landscapes.py simulates whole runs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

from morphism import Budget, Graph, apply, cost
from searchers.history import (
    PARENTS,
    FailedTrial,
    Finished,
    History,
    Request,
    Searcher,
    Space,
    TrialInFlight,
    WeightsDropped,
)
from searchers.propose import propose
from tests.builders.landscapes import Landscape

WORKERS = 8
NOISE = 0.004
"""Standard deviation of a measured accuracy."""


def accuracy(landscape: Landscape, graph: Graph) -> float:
    """Return the accuracy that a trial would measure. Its noise depends on seed and architecture."""
    noise = Random(f"{landscape.seed} {graph.fingerprint}").gauss(0.0, NOISE)
    return min(1.0, max(0.0, 1.0 - landscape.true_error(graph) + noise))


def search(
    searcher: Searcher,
    landscape: Landscape,
    trials: int,
    seed: int,
    fails: Callable[[int], bool] = lambda number: False,
    reported: Callable[[Graph], float] | None = None,
) -> list[float]:
    """Run a search of `trials` finished trials.

    `fails` selects the proposals without a result. `reported` replaces the accuracy that the search receives.

    Returns:
        After each trial: true error of the trial with the best measured accuracy.
    """
    history = History(Space(landscape.start, Budget.of(landscape.start, 4.0), 128, 8, 512, tuning_from_round=4))
    running: list[tuple[float, int, Graph]] = []
    best_errors: list[float] = []
    best = (-1.0, 1.0)  # measured accuracy, true error
    kept: list[tuple[float, int]] = []
    now, number = 0.0, 0
    while len(best_errors) < trials:
        while len(running) < WORKERS:
            proposal = propose(searcher, history, Request(number, 1, seed), None)
            graph = history.graph(proposal.parent)
            for morph in proposal.morphs:
                graph, _ = apply(graph, morph)
            history.observe(
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
            history.observe([FailedTrial(finished)])
            continue
        measured = accuracy(landscape, graph)
        history.observe([Finished(finished, measured if reported is None else reported(graph))])
        heapq.heappush(kept, (history.accuracies[finished], finished))
        if len(kept) > PARENTS:
            history.observe([WeightsDropped(heapq.heappop(kept)[1])])
        best = max(best, (measured, landscape.true_error(graph)), key=lambda pair: pair[0])
        best_errors.append(best[1])
    return best_errors
