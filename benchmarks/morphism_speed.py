"""What growing a network costs before any training: legal, apply, fingerprint and count on a grown ResNet-50.

    python -m benchmarks.morphism_speed [--start resnet50_v1] [--morphs 30] [--times 40] [--seed 0]

Every figure is the median with its 95 % interval. Graphs remember what is derived from them, so each time begins with a
graph made anew, of which nothing has been derived. The goal is 5 ms for the four together.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from random import Random

from benchmarks.pairs import describe_machine, interval_of_median
from morphism import STARTS, Budget, Graph, Morph, apply, cost, decode, encode, legal, start, svg

GOAL_MILLISECONDS = 5.0


def grow(graph: Graph, budget: Budget, morphs: int, random: Random) -> Graph:
    """The graph after random legal morphs, the four kinds as likely as each other."""
    for number in range(morphs):
        by_kind: dict[type[Morph], list[Morph]] = {}
        for morph in legal(graph, budget):
            by_kind.setdefault(type(morph), []).append(morph)
        if not by_kind:
            raise SystemExit(f"the budget was used up after {number} of {morphs} morphs; ask for fewer")
        graph, _ = apply(graph, random.choice(by_kind[random.choice(list(by_kind))]))
    return graph


def milliseconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begin)


def measure(graph: Graph, budget: Budget, times: int, random: Random) -> dict[str, list[float]]:
    measured: dict[str, list[float]] = {}

    def add(name: str, work: Callable[[], object]) -> None:
        measured.setdefault(name, []).append(milliseconds(work))

    text = encode(graph)
    candidates = legal(graph, budget)
    for _ in range(times):
        parent = Graph(graph.nodes)
        morph = random.choice(candidates)
        add("legal (budget included)", lambda: legal(parent, budget))
        grown: list[Graph] = []
        add("apply", lambda: grown.append(apply(parent, morph)[0]))
        child = grown[0]
        add("fingerprint", lambda: child.fingerprint)
        add("count", lambda: cost(child))
        four = list(measured.values())[:4]
        measured.setdefault("the four together", []).append(sum(values[-1] for values in four))
        add("graph made from its nodes", lambda: Graph(graph.nodes))
        add("encode", lambda: encode(graph))
        add("decode", lambda: decode(text))
        add("drawing", lambda: svg(graph))
    return measured


def import_milliseconds(times: int) -> list[float]:
    """What `import morphism` adds to an interpreter that starts and ends, pair by pair."""

    def run(code: str) -> float:
        return milliseconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    return [run("import morphism") - run("pass") for _ in range(times)]


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
    grown = grow(graph, budget, asked.morphs, random)
    measured = measure(grown, budget, asked.times, random)
    measured["import morphism"] = import_milliseconds(max(6, asked.times // 2))
    print(f"{describe_machine()}; Python {sys.version.split()[0]}; {asked.times} times, seed {asked.seed}")
    print(
        f"{asked.start} grown by {asked.morphs} morphs: {len(grown.nodes)} nodes, "
        f"{len(legal(grown, budget))} legal morphs\n"
    )
    print(f"{'':<28}{'ms':>9}   95 % interval")
    for name, values in measured.items():
        print(row(name, values))
    together = statistics.median(measured["the four together"])
    print(
        f"\ngoal {GOAL_MILLISECONDS:g} ms: {'met' if together <= GOAL_MILLISECONDS else 'missed'} ({together:.2f} ms)"
    )


if __name__ == "__main__":
    main()
