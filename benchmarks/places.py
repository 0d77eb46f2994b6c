"""Measure the share of lists of equal machines in which two of them are called surely apart, and of entries not tested."""

from __future__ import annotations

import argparse
import random
from typing import NamedTuple

from aiperf.statistics.difference import ENOUGH, ListSpread, ScoredRun, over_runs, pooled, prior_of, ties

WINDOW_SECONDS = 39_600.0


class Rates(NamedTuple):
    apart: float
    """Share of the lists in which a tested entry is surely apart from another one."""
    not_tested: float
    """Share of the entries of the two machines whose range of places is not tested."""
    assumed_apart: float
    """Share of the lists in which the assumed spread alone, as if it were known, separates an entry."""


def rates(variation: float, runs: int, repeats: int, lists: int, seed: int, of_others: float | None = None) -> Rates:
    """Return the rates for lists of two machines of `runs` runs, and of `repeats` machines of three runs.

    `variation`: true coefficient of variation between runs. `of_others`: that of the machines of three runs (default: equal).
    """
    chance = random.Random(f"{variation} {runs} {repeats} {seed} {of_others}")
    kinds = [(runs, variation)] * 2 + [(ENOUGH, of_others or variation)] * repeats
    apart, not_tested, assumed_apart = 0, 0, 0
    for _ in range(lists):
        scores = [[1e15 * chance.lognormvariate(0, spread) for _ in range(number)] for number, spread in kinds]
        used = ListSpread(prior_of(WINDOW_SECONDS), pooled(scores)).used
        systems = [[ScoredRun(score, None, None, WINDOW_SECONDS) for score in of_system] for of_system in scores]
        estimates = [over_runs(each, of_median=True, spread=used) for each in systems]
        ranges = ties([(each.value, each) for each in estimates if each is not None])
        separated = [each.is_tested for each in ranges if each.allowed != (1, len(kinds))]
        apart += any(separated)
        assumed_apart += not all(separated)
        not_tested += sum(not each.is_tested for each in ranges[:2])
    return Rates(apart / lists, not_tested / lists / 2, assumed_apart / lists)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.places", description=__doc__)
    parser.add_argument("--lists", type=int, default=4000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    heads = "true CV", "runs of each of two machines", "machines of three runs", "falsely apart", "not tested"
    print(f"| {' | '.join(heads)} | apart by the assumption alone |\n| ---: | ---: | --- | ---: | ---: | ---: |")
    for variation in (0.02, 0.05, 0.10):
        for runs in (1, 2, 3, 5):
            for repeats, of_others in ((0, None), (5, None), (5, variation / 2)):
                one = rates(variation, runs, repeats, arguments.lists, arguments.seed, of_others)
                beside = f"{repeats}" if of_others is None else f"{repeats} of half the CV"
                cells = " | ".join(f"{value:.1%}" for value in one)
                print(f"| {variation:.0%} | {runs} | {beside} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
