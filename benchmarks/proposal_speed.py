"""Processor time of a proposal from ResNet-50, after 10, 100, 500 and 50,000 finished trials.

    python -m benchmarks.proposal_speed [--finished 10 100 500 50000] [--searcher morphism] [--proposals 40] [--processes 7]

`--processes 0` skips cold proposals. Each of them generates the history again, which takes minutes for 50,000 trials.

Timed is the whole of searchers.propose in a round that tunes: legal morphs, candidates, regression, the child with its
fingerprint and cost, TPE, and the enlarged graph with its fingerprint and cost. Warm: between two proposals the history
receives a result and the previous proposal, as in a run. Cold: the first proposal of a new process that has imported everything
and received the history, but computed nothing from it. The history is synthetic: results rise with growth, parents are the best
16 at their time, only those keep their weights, and min(200, finished) trials are in flight.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from hashlib import blake2b
from math import exp
from random import Random

from aiperf.statistics.interleaved import interval_of_median
from benchmarks.pairs import describe_machine
from morphism import Budget, start
from searchers.growth import drawn
from searchers.history import (
    PARENTS,
    Finished,
    History,
    Observation,
    Proposal,
    Request,
    Searcher,
    Space,
    TrialInFlight,
    WeightsDropped,
)
from searchers.propose import propose
from searchers.searcher_config import EvolutionConf, MorphismConf, RandomConf, TpeConf

ROUND = 5
IN_FLIGHT = 200
SEARCHERS = {"morphism": MorphismConf, "evolution": EvolutionConf, "random": RandomConf}


def space() -> Space:
    """Return the paper's search space: ResNet-50, up to four times its operations, batch up to 448."""
    graph = start("resnet50_v1")
    return Space(graph, Budget.of(graph), 448, 8, 448, tuning_from_round=4)


def invented(finished: int) -> list[Observation]:
    return list(_invented(finished, History(space()), Random(finished)))


def _invented(finished: int, history: History, random: Random) -> Iterator[Observation]:
    grown: dict[int | None, int] = {None: 0}  # morphs since the start
    in_flight = min(IN_FLIGHT, finished)
    kept: list[tuple[float, int]] = []
    for number in range(finished + in_flight):
        parents = [parent for parent in history.parents() if history.choices(parent).kinds()]
        parent = parents[int(random.random() * len(parents))] if parents and random.random() < 0.95 else None
        morphs = (drawn(history.choices(parent), random),)
        grown[number] = grown[parent] + 1
        batch_size, kernel_size = 8 + 8 * int(random.random() * 55), 3 + 2 * int(random.random() * 3)
        fingerprint = blake2b(repr(number).encode(), digest_size=16).hexdigest()
        observations: list[Observation] = [
            TrialInFlight(number, ROUND, parent, morphs, batch_size, kernel_size, fingerprint)
        ]
        if number >= in_flight:
            done = number - in_flight
            accuracy = 0.9 - 0.3 * exp(-grown[done] / 10) + 0.02 * (random.random() - 0.5)
            observations.append(Finished(done, accuracy))
            kept.append((accuracy, done))
            if len(kept) > PARENTS:
                worst = min(kept)
                kept.remove(worst)
                observations.append(WeightsDropped(worst[1]))
        history.observe(observations)
        yield from observations


def warm(history: History, searcher: Searcher, proposals: int) -> list[float]:
    """Return the processor seconds of each proposal."""
    tuner, seconds = TpeConf().build(), []
    number = len(history.trials)
    for done in range(proposals + 5):
        request = Request(number + done, ROUND, 1)
        begin = time.process_time()
        proposal = propose(searcher, history, request, tuner)
        seconds.append(time.process_time() - begin)
        oldest = next(iter(history.in_flight))
        history.observe([_observation(history, request, proposal), Finished(oldest, 0.7 + (done * 37 % 11) / 100)])
    return seconds[5:]


def _observation(history: History, request: Request, proposal: Proposal) -> TrialInFlight:
    return TrialInFlight(
        request.number,
        request.round,
        proposal.parent,
        proposal.morphs,
        proposal.batch_size,
        proposal.kernel_size,
        history.grown(proposal.parent, proposal.morphs).fingerprint,
        proposal.pruned,
    )


def cold(finished: int, searcher: Searcher) -> tuple[float, float]:
    """Return the processor seconds of the first proposal, and of the history update before it. Needs a new process."""
    observations, tuner = invented(finished), TpeConf().build()
    begin = time.process_time()
    history = History(space())
    history.observe(observations)
    updated = time.process_time()
    propose(searcher, history, Request(len(history.trials), ROUND, 1), tuner)
    return time.process_time() - updated, updated - begin


def in_new_process(act: Callable[..., tuple[float, float]], *arguments: object) -> tuple[float, float]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(act, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--finished", type=int, nargs="+", default=[10, 100, 500, 50_000])
    parser.add_argument("--searcher", choices=SEARCHERS, default="morphism")
    parser.add_argument("--proposals", type=int, default=40)
    parser.add_argument("--processes", type=int, default=7)
    arguments = parser.parse_args()
    searcher = SEARCHERS[arguments.searcher]().build()
    print(f"{describe_machine()}; {arguments.searcher} with TPE from resnet50_v1\n")
    print(
        "Processor time: median, its 95 % interval, and the least value, which other work on the machine affects least.\n"
    )
    print("| finished trials | warm, ms | cold, ms | history update, ms |")
    print("| --- | --- | --- | --- |")
    for finished in arguments.finished:
        history = History(space())
        history.observe(invented(finished))
        fast = warm(history, searcher, arguments.proposals)
        fresh = [in_new_process(cold, finished, searcher) for _ in range(arguments.processes)]
        columns = [fast, [first for first, _ in fresh], [update for _, update in fresh]]
        print(f"| {finished} | " + " | ".join(_median(column) for column in columns) + " |", flush=True)


def _median(seconds: list[float]) -> str:
    if not seconds:
        return "not measured"
    low, high = interval_of_median(seconds)
    return f"{statistics.median(seconds) * 1e3:.1f} ({low * 1e3:.1f}–{high * 1e3:.1f}), least {min(seconds) * 1e3:.1f}"


if __name__ == "__main__":
    main()
