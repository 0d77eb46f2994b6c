"""Guided search against evolution and random search on a stated landscape: what would a run's best error be?

    python -m benchmarks.search_landscape [--seeds 24] [--trials 200] [--start digits_small] [--factor 4]

No network is trained. The landscape gives an architecture its accuracy at once, from what it is made of; its coefficients
are drawn anew for each seed, so that a searcher cannot be fitted to one, and every measurement carries noise. Workers run
asynchronously, a trial takes as long as its forward operations say, and only the best 16 trials keep their weights, as in a
run. What is compared is the true error of the trial that a run would name its best: the one with the best *measured* error.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log2
from random import Random

from benchmarks.pairs import describe_machine, interval_of_median
from morphism import Budget, Convolution, Graph, Map, apply, cost, layer_cost, start
from searchers import (
    PARENTS,
    EvolutionConf,
    Failed,
    Finished,
    History,
    MorphismConf,
    News,
    Proposed,
    RandomConf,
    Request,
    Searcher,
    Space,
    WeightsDropped,
    propose,
)

WORKERS = 8
FIRST_SEED = 1000
"""The searchers' defaults were chosen on seeds 0 to 11: what is reported was not seen then."""
CHECKPOINTS = (50, 100, 200)
NOISE = 0.004
"""Standard deviation of a measured accuracy, as of 25 evaluations on 10,000 images at 5 % error, or of two trainings."""


@dataclass(frozen=True, slots=True)
class Landscape:
    """Accuracy as a function of the architecture alone.

    error = 0.04 + Σ over stages of share_s · 0.30 · exp(−0.7 · c_s) + 0.02 · Σ (d_s − w_s − lean_s)² + 0.01 · (k − kernel)²
    where, against the starting graph and in powers of two, c_s is growth of a stage's convolutions in forward operations,
    d_s of their number and w_s of their mean channels, and k is the mean kernel edge of those that are not 1×1.
    A stage is a height of maps. share_s (sum 1), lean_s (−0.5..0.5) and kernel (3.5..5.5) are drawn from the seed.
    """

    start: Graph
    seed: int
    noise: float = NOISE

    def true_error(self, graph: Graph) -> float:
        """Without noise, 0..1."""
        random = Random(self.seed)
        then, now = _stages(self.start), _stages(graph)
        draws = [random.expovariate(1.0) for _ in then]
        leans = [random.uniform(-0.5, 0.5) for _ in then]
        kernel = random.uniform(3.5, 5.5)
        error = 0.04
        for height, draw, lean in zip(then, draws, leans, strict=True):
            before, after = then[height], now[height]
            capacity = log2(after.flops / before.flops)
            depth = log2(after.convolutions / before.convolutions)
            width = log2(after.mean_channels / before.mean_channels)
            error += draw / sum(draws) * 0.30 * exp(-0.7 * capacity) + 0.02 * (depth - width - lean) ** 2
        return min(1.0, error + 0.01 * (_mean_kernel(graph) - kernel) ** 2)

    def accuracy(self, graph: Graph) -> float:
        """As a trial would measure it: with noise that belongs to the seed and the architecture."""
        noise = Random(f"{self.seed} {graph.fingerprint}").gauss(0.0, self.noise)
        return min(1.0, max(0.0, 1.0 - self.true_error(graph) + noise))


@dataclass(slots=True)
class _Stage:
    flops: int = 0
    convolutions: int = 0
    channels: int = 0

    @property
    def mean_channels(self) -> float:
        return self.channels / self.convolutions


def _stages(graph: Graph) -> dict[int, _Stage]:
    stages: dict[int, _Stage] = defaultdict(_Stage)
    for node, shape in zip(graph.nodes, graph.shapes, strict=True):
        if isinstance(node.op, Convolution) and isinstance(shape, Map):
            stage = stages[shape.height]
            stage.flops += layer_cost(node.op, (graph.shapes[node.inputs[0]],), shape).forward_flops
            stage.convolutions += 1
            stage.channels += shape.channels
    return stages


def _mean_kernel(graph: Graph) -> float:
    edges = [node.op.kernel for node in graph.nodes if isinstance(node.op, Convolution) and node.op.kernel > 1]
    return statistics.fmean(edges) if edges else 1.0


Extra = Callable[[int, Proposed], Sequence[News]]
"""News that a test slips in after a trial was proposed."""


def search(
    searcher: Searcher,
    landscape: Landscape,
    trials: int,
    seed: int,
    workers: int = WORKERS,
    fails: Callable[[int], bool] = lambda number: False,
    accuracy: Callable[[Graph], float] | None = None,
    factor: float = 4.0,
) -> list[float]:
    """A search of that many finished trials: after each, the true error of the trial with the best measured one.

    `fails` says which proposals end without a result; `accuracy` replaces what the search is told (a test's worst case);
    `factor` is the budget in multiples of the start.
    """
    space = Space(landscape.start, Budget.of(landscape.start, factor), 128, 8, 512, tuning_from_round=4)
    history = History(space)
    told = accuracy or landscape.accuracy
    running: list[tuple[float, int, Graph]] = []
    course: list[float] = []
    best = (-1.0, 1.0)  # measured accuracy, true error
    kept: list[tuple[float, int]] = []
    now, number = 0.0, 0
    while len(course) < trials:
        while len(running) < workers:
            proposal = propose(searcher, history, Request(number, 1, seed), None)
            graph = history.graph(proposal.parent)
            for morph in proposal.morphs:
                graph, _ = apply(graph, morph)
            news = Proposed(number, 1, proposal.parent, proposal.morphs, proposal.batch_size, None, graph.fingerprint)
            history.tell([news])
            heapq.heappush(running, (now + cost(graph).training_flops, number, graph))
            number += 1
        now, finished, graph = heapq.heappop(running)
        if fails(finished):
            history.tell([Failed(finished)])
            continue
        history.tell([Finished(finished, told(graph))])
        heapq.heappush(kept, (history.accuracies[finished], finished))
        if len(kept) > PARENTS:
            history.tell([WeightsDropped(heapq.heappop(kept)[1])])
        best = max(best, (landscape.accuracy(graph), landscape.true_error(graph)), key=lambda pair: pair[0])
        course.append(best[1])
    return course


def main() -> None:
    """Prints medians over seeds with their 95 % intervals, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--trials", type=int, default=max(CHECKPOINTS))
    parser.add_argument("--start", default="digits_small")
    parser.add_argument("--factor", type=float, default=4.0, help="budget, in multiples of the start")
    asked = parser.parse_args()
    graph = start(asked.start)
    searchers: dict[str, Searcher] = {
        "morphism": MorphismConf().build(),
        "evolution": EvolutionConf().build(),
        "random": RandomConf().build(),
    }
    courses = {
        name: [
            search(searcher, Landscape(graph, seed), asked.trials, seed, factor=asked.factor)
            for seed in range(FIRST_SEED, FIRST_SEED + asked.seeds)
        ]
        for name, searcher in searchers.items()
    }
    places = [trials for trials in CHECKPOINTS if trials <= asked.trials]
    conditions = f"budget {asked.factor:g} × the start, {asked.seeds} seeds, {WORKERS} workers, noise {NOISE}"
    print(f"{describe_machine()}; {asked.start}, {conditions}\n")
    print("| searcher | " + " | ".join(f"error after {trials} trials" for trials in places) + " |")
    print("| --- |" + " --- |" * len(places))
    for name, found in courses.items():
        print(
            f"| {name} | " + " | ".join(_median([course[trials - 1] for course in found]) for trials in places) + " |"
        )
    print("\nDifference within a seed (guided − other; below 0, guided is better):\n")
    print("| against | " + " | ".join(f"after {trials} trials" for trials in places) + " | guided better |")
    print("| --- |" + " --- |" * len(places) + " --- |")
    for name in ("evolution", "random"):
        pairs = list(zip(courses["morphism"], courses[name], strict=True))
        wins = sum(guided[places[-1] - 1] < other[places[-1] - 1] for guided, other in pairs)
        cells = [_median([guided[trials - 1] - other[trials - 1] for guided, other in pairs]) for trials in places]
        print(f"| {name} | " + " | ".join(cells) + f" | {wins} of {len(pairs)} seeds |")


def _median(values: Sequence[float]) -> str:
    low, high = interval_of_median(values)
    return f"{statistics.median(values):.4f} ({low:.4f}–{high:.4f})"


if __name__ == "__main__":
    main()
