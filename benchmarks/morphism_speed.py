"""What growing a network costs before any training: legal, apply, fingerprint and count on a grown ResNet-50.

    python -m benchmarks.morphism_speed [--start resnet50_v1] [--morphs 30] [--times 40] [--seed 0]

Every figure is the median of processor time with its 95 % interval: the work is one thread's and waits for nothing, so
that on a quiet machine it is the time that passes, and on a busy one the neighbours are left out. Graphs remember what is
derived from them, so each time begins with a graph made anew, of which nothing has been derived. The goal is 5 ms for the
four together.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from resource import RUSAGE_CHILDREN, getrusage
from typing import ParamSpec, TypeVar

from benchmarks.pairs import describe_machine, interval_of_median
from morphism import STARTS, Budget, Graph, Morph, apply, cost, decode, encode, grow, legal, start
from morphism.draw import svg

GOAL_MILLISECONDS = 5.0
FOUR = ("legal (budget included)", "apply", "fingerprint", "count")

Given = ParamSpec("Given")
Result = TypeVar("Result")


def grown_at_random(graph: Graph, budget: Budget, morphs: int, random: Random) -> Graph:
    """The graph after random legal morphs, the four kinds as likely as each other."""
    for number in range(morphs):
        by_kind: dict[type[Morph], list[Morph]] = {}
        for morph in legal(graph, budget):
            by_kind.setdefault(type(morph), []).append(morph)
        if not by_kind:
            raise SystemExit(f"the budget was used up after {number} of {morphs} morphs; ask for fewer")
        graph = grow(graph, random.choice(by_kind[random.choice(list(by_kind))]))
    return graph


def timed(into: list[float], work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
    """What the work gives; its milliseconds go to the end of `into`."""
    begin = time.process_time()
    result = work(*given, **named)
    into.append(1000 * (time.process_time() - begin))
    return result


def measure(graph: Graph, budget: Budget, times: int, random: Random) -> dict[str, list[float]]:
    measured: dict[str, list[float]] = defaultdict(list)
    text = encode(graph)
    for _ in range(times):
        parent = timed(measured["graph made from its nodes"], Graph, graph.nodes)
        morphs = timed(measured["legal (budget included)"], legal, parent, budget)
        morph = random.choice(morphs)
        child, _plan = timed(measured["apply"], apply, parent, morph)
        timed(measured["fingerprint"], lambda made: made.fingerprint, child)
        timed(measured["count"], cost, child)
        measured["the four together"].append(sum(measured[name][-1] for name in FOUR))
        timed(measured["grow (apply, no weight plan)"], grow, parent, morph)
        timed(measured["encode"], encode, graph)
        timed(measured["decode"], decode, text)
        timed(measured["drawing"], svg, graph)
    return dict(measured)


def import_milliseconds(times: int) -> list[float]:
    """What `import morphism` adds to an interpreter that starts and ends, pair by pair."""

    added: list[float] = []
    for _ in range(times):
        with_it, without = (_child_milliseconds(code) for code in ("import morphism", "pass"))
        added.append(with_it - without)
    return added


def _child_milliseconds(code: str) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def row(name: str, values: Sequence[float]) -> str:
    low, high = interval_of_median(values)
    return f"{name:<28}{statistics.median(values):>9.3f}   {low:.3f}–{high:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--start", choices=STARTS, default="resnet50_v1")
    parser.add_argument("--morphs", type=int, default=30)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    random = Random(asked.seed)
    graph = start(asked.start)
    # wide enough for thirty morphs, and for morphs to be left to choose from; memory is limited so that it is reckoned
    budget = Budget.of(graph, factor=32.0, memory_bytes=2**40)
    grown = grown_at_random(graph, budget, asked.morphs, random)
    measured = measure(grown, budget, asked.times, random)
    measured["import morphism"] = import_milliseconds(max(6, asked.times // 2))
    print(f"{describe_machine()}; Python {sys.version.split()[0]}; {asked.times} times, seed {asked.seed}")
    print(
        f"{asked.start} grown by {asked.morphs} morphs: {len(grown.nodes)} nodes, "
        f"{len(legal(grown, budget))} legal morphs\n"
    )
    print(f"{'processor time':<28}{'ms':>9}   95 % interval")
    for name, values in measured.items():
        print(row(name, values))
    together = statistics.median(measured["the four together"])
    print(
        f"\ngoal {GOAL_MILLISECONDS:g} ms: {'met' if together <= GOAL_MILLISECONDS else 'missed'} ({together:.2f} ms)"
    )


if __name__ == "__main__":
    main()
