"""What a proposal costs of a processor's time from ResNet-50, after 10, 100, 500 and 50,000 finished trials.

    python -m benchmarks.proposal_speed [--finished 10 100 500 50000] [--searcher morphism] [--proposals 40] [--processes 7]

`--processes 0` measures no cold ones, each of which invents its history anew: minutes for 50,000 trials.

Timed is the whole of searchers.propose in a round that tunes: legal morphs, candidates, regression, the child with its
fingerprint and cost, TPE, and the enlarged graph with its fingerprint and cost. Warm: between two proposals a result and the
former proposal are told, as in a run. Cold: the first proposal of a fresh process that has imported everything and was told
the history, but has derived nothing from it. The history is invented: results rise with growth, parents are the best 16 at
their time, only those keep their weights, and min(200, finished) trials are in flight.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from math import exp
from random import Random

from benchmarks.pairs import describe_machine, interval_of_median
from morphism import Budget, start
from searchers import (
    PARENTS,
    EvolutionConf,
    Finished,
    History,
    MorphismConf,
    Observation,
    Proposal,
    Proposed,
    RandomConf,
    Request,
    Searcher,
    Space,
    TpeConf,
    WeightsDropped,
    propose,
)
from searchers.growth import drawn

ROUND = 5
IN_FLIGHT = 200
SEARCHERS = {"morphism": MorphismConf, "evolution": EvolutionConf, "random": RandomConf}


def space() -> Space:
    """The paper's: from ResNet-50 within four times its operations, tuned up to a batch of 448."""
    graph = start("resnet50_v1")
    return Space(graph, Budget.of(graph), 448, 8, 448, tuning_from_round=4)


def invented(finished: int) -> list[Observation]:
    """News of a run in which so many trials finished."""
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
            Proposed(number, ROUND, parent, morphs, batch_size, kernel_size, fingerprint)
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
        history.tell(observations)
        yield from observations


def warm(history: History, searcher: Searcher, proposals: int) -> list[float]:
    """Processor seconds of each of so many proposals, a result and the former proposal told before each."""
    tuner, seconds = TpeConf().build(), []
    number = len(history.trials)
    for done in range(proposals + 5):
        request = Request(number + done, ROUND, 1)
        begin = time.process_time()
        proposal = propose(searcher, history, request, tuner)
        seconds.append(time.process_time() - begin)
        oldest = next(iter(history.in_flight()))
        history.tell([_told(history, request, proposal), Finished(oldest, 0.7 + (done * 37 % 11) / 100)])
    return seconds[5:]


def _told(history: History, request: Request, proposal: Proposal) -> Proposed:
    return Proposed(
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
    """Processor seconds of the first proposal, and of telling the history before it. Meant for a fresh process."""
    observations, tuner = invented(finished), TpeConf().build()
    begin = time.process_time()
    history = History(space())
    history.tell(observations)
    told = time.process_time()
    propose(searcher, history, Request(len(history.trials), ROUND, 1), tuner)
    return time.process_time() - told, told - begin


def main() -> None:
    """Prints medians with their 95 % intervals, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--finished", type=int, nargs="+", default=[10, 100, 500, 50_000])
    parser.add_argument("--searcher", choices=SEARCHERS, default="morphism")
    parser.add_argument("--proposals", type=int, default=40)
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--cold", type=int, help=argparse.SUPPRESS)  # what a fresh process is told to measure
    asked = parser.parse_args()
    searcher = SEARCHERS[asked.searcher]().build()
    if asked.cold is not None:
        print(json.dumps(cold(asked.cold, searcher)))
        return
    print(f"{describe_machine()}; {asked.searcher} with TPE from resnet50_v1\n")
    print("Processor time: median, its 95 % interval, and the least, which other work on the machine touches least.\n")
    print("| finished trials | warm, ms | cold, ms | telling all news, ms |")
    print("| --- | --- | --- | --- |")
    for finished in asked.finished:
        history = History(space())
        history.tell(invented(finished))
        fast = warm(history, searcher, asked.proposals)
        own = [sys.executable, "-m", "benchmarks.proposal_speed", "--searcher", asked.searcher, "--cold", str(finished)]
        fresh = [
            json.loads(subprocess.run(own, check=True, capture_output=True, text=True).stdout)
            for _ in range(asked.processes)
        ]
        columns = [fast, [first for first, _ in fresh], [telling for _, telling in fresh]]
        print(f"| {finished} | " + " | ".join(_median(column) for column in columns) + " |", flush=True)


def _median(seconds: list[float]) -> str:
    if not seconds:
        return "not measured"
    low, high = interval_of_median(seconds)
    return f"{statistics.median(seconds) * 1e3:.1f} ({low * 1e3:.1f}–{high * 1e3:.1f}), least {min(seconds) * 1e3:.1f}"


if __name__ == "__main__":
    main()
