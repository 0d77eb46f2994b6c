"""TPE on a stated landscape: batch size matters, networks grow, small batches diverge and kernels change.

No network is trained. The product's own searcher, tuner and check make the proposals, eight workers run asynchronously, and a
trial takes as long as its operations. Distances of the proposed batches from the landscape's best, and the share that diverges,
are compared between the first and the last quarter of a search. The best batch is in the middle of the range, near its lower
end, near the ceiling or near the default.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log2
from random import Random

from aiperf.journal.events import ProposalRequested, TrialProposed
from aiperf.journal.messages import ProposalFailed
from aiperf.rules.proposals import Proposer, check, make
from morphism import Budget, Convolution, Graph, cost, decode_morph, start
from searchers.history import PARENTS, FailedTrial, Finished, History, Space, TrialInFlight, WeightsDropped
from searchers.searcher_config import MorphismConf, TpeConf

WORKERS = 8
LARGEST = 512
PLACES = {"middle": (96.0, 384.0), "low": (16.0, 64.0), "high": (400.0, 512.0), "default": (208.0, 304.0)}
"""Range of the best batch, drawn uniformly in powers of two."""
EFFECTS = ("added", "factor")
"""Batch and kernel add to the error, or multiply it by a factor, so that they do not interact with growth."""
NOISE = 0.004
"""Standard deviation of a measured accuracy."""
RETAINED = 2 * PARENTS


@dataclass(frozen=True, slots=True)
class Landscape:
    """Accuracy as a function of architecture and batch size.

    error = 0.05 + 0.35 · exp(−0.5 · growth) + 0.01 · log2(batch/best)² + 0.005 · (k − kernel)², where growth is in forward
    operations, as a power of two of the start's, and k is the mean edge of the kernels that are not 1×1. By the effect "factor"
    it is (0.05 + 0.35 · exp(−0.5 · growth)) · exp(0.02 · log2(batch/best)² + 0.01 · (k − kernel)²). A batch below `bound`
    diverges. best (between the two of its place), bound (0.4..0.7 of it) and kernel (3..6) are drawn from the seed.
    """

    start: Graph
    seed: int
    place: str = "middle"
    effect: str = "added"

    @property
    def drawn(self) -> tuple[float, float, float]:
        """best, bound, kernel."""
        random = Random(self.seed)
        least, most = PLACES[self.place]
        best = least * (most / least) ** random.random()
        return best, best * random.uniform(0.4, 0.7), random.uniform(3, 6)

    def accuracy(self, graph: Graph, batch_size: int) -> float | None:
        """Return the accuracy that a trial would measure. None if it diverges."""
        best, bound, kernel = self.drawn
        if batch_size < bound:
            return None
        growth = log2(cost(graph).forward_flops / cost(self.start).forward_flops)
        edges = [node.op.kernel for node in graph.nodes if isinstance(node.op, Convolution) and node.op.kernel > 1]
        error = 0.05 + 0.35 * exp(-0.5 * growth)
        batches, kernels = log2(batch_size / best) ** 2, (statistics.fmean(edges) - kernel) ** 2
        if self.effect == "added":
            error += 0.01 * batches + 0.005 * kernels
        else:
            error *= exp(0.02 * batches + 0.01 * kernels)
        noise = Random(f"{self.seed} {graph.fingerprint} {batch_size}").gauss(0.0, NOISE)
        return min(1.0, max(0.0, 1.0 - error + noise))


@dataclass(slots=True)
class Course:
    """Proposals of a search, in order, without the starting network."""

    distances: list[float]
    """Distance of each batch from the best, in images."""
    failed: list[bool]
    best_accuracy: float = 0.0
    rejected: int = 0


def search(
    seed: int,
    trials: int,
    place: str = "middle",
    effect: str = "added",
    rounds: int = 0,
    startup_trials: int = TpeConf.startup_trials,
    *,
    learns_from_untuned: bool = False,
) -> Course:
    """Return a search with the rules of the product. `rounds`: rounds of each worker at the default batch, before tuning."""
    graph = start("digits_small")
    landscape, course = Landscape(graph, seed, place, effect), Course([], [])
    space = Space(graph, Budget.of(graph, 16), 256, 8, LARGEST, rounds + 1, learns_from_untuned)
    history = History(space)
    proposer = Proposer(MorphismConf().build(), TpeConf(startup_trials=startup_trials).build())
    running: list[tuple[float, int, float | None, bool]] = []
    kept: list[tuple[float, int]] = []
    now, number = 0.0, 0
    while len(course.distances) < trials:
        while len(running) < WORKERS and len(course.distances) < trials:
            request = ProposalRequested(
                at=0.0, number=number, worker=0, round=1 + number // WORKERS, seed=seed, position=1
            )
            word = make(proposer, history, request)
            assert not isinstance(word, ProposalFailed), word.reason
            event = check(history, request, word, 0.0)
            number += 1
            if not isinstance(event, TrialProposed):
                course.rejected += 1
                continue
            history.observe([_in_flight(event, request.round)])
            grown = history.graph(event.number)
            accuracy = landscape.accuracy(grown, 256 if event.number == 0 else event.batch_size)
            if event.number == 0:
                accuracy = accuracy or landscape.accuracy(grown, LARGEST)
            else:
                course.distances.append(abs(event.batch_size - landscape.drawn[0]))
                course.failed.append(accuracy is None)
            seconds = event.forward_flops * (0.1 if accuracy is None else 1.0)  # a divergence shows early
            heapq.heappush(running, (now + seconds, event.number, accuracy, event.can_grow))
        now, finished, result, can_grow = heapq.heappop(running)
        if result is None:
            history.observe([FailedTrial(finished, "divergence")])
            continue
        course.best_accuracy = max(course.best_accuracy, result)
        history.observe([Finished(finished, result)])
        if can_grow:
            heapq.heappush(kept, (result, finished))
        if len(kept) > RETAINED:
            history.observe([WeightsDropped(heapq.heappop(kept)[1])])
    return course


def _in_flight(event: TrialProposed, round: int) -> TrialInFlight:
    return TrialInFlight(
        event.number,
        round,
        event.parent,
        tuple([decode_morph(morph) for morph in event.morphs]),
        event.batch_size,
        event.kernel_size,
        event.fingerprint,
        own_kernel=event.own_kernel,
        can_grow=event.can_grow,
    )


Row = dict[str, list[float]]
"""Print for each seed: distance and share of failures in the first and the last quarter, and the best accuracy."""


def row(courses: Iterable[Course]) -> Row:
    """Figures of several searches."""
    found: Row = {name: [] for name in ("first", "last", "failed first", "failed last", "best")}
    for course in courses:
        quarter = len(course.distances) // 4
        found["first"].append(statistics.median(course.distances[:quarter]))
        found["last"].append(statistics.median(course.distances[-quarter:]))
        found["failed first"].append(statistics.fmean(course.failed[:quarter]))
        found["failed last"].append(statistics.fmean(course.failed[-quarter:]))
        found["best"].append(course.best_accuracy)
    return found
