"""Distance of tuned batches from the best one on landscapes: by the rules 5 and 4 of proposals, and at random.

Every search begins with three rounds of eight workers at the default batch. The landscapes: tests/builders/tuning_landscape.py.
"""

from __future__ import annotations

import argparse
from statistics import fmean
from typing import Any

from tests.builders.tuning_landscape import EFFECTS, PLACES, search

ROUNDS = 3
NEVER = 1_000_000
WAYS: dict[str, dict[str, Any]] = {
    "rules 5": {},
    "rules 4": {"learns_from_untuned": True},
    "random": {"startup_trials": NEVER},
}


def distances(seeds: range, trials: int, place: str, effect: str, way: str) -> tuple[float, float]:
    """Mean distance from the best batch, in images, in the first and in the last quarter of the searches."""
    courses = [search(seed, trials, place, effect, ROUNDS, **WAYS[way]).distances for seed in seeds]
    return fmean(fmean(each[: trials // 4]) for each in courses), fmean(
        fmean(each[-(trials // 4) :]) for each in courses
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning_landscape", description=__doc__)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--first-seed", type=int, default=3000)
    parser.add_argument("--trials", type=int, default=120)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    print(f"| best batch | effect | {' | '.join(WAYS)} |\n| --- | --- |{' ---: |' * len(WAYS)}")
    for place in PLACES:
        for effect in EFFECTS:
            found = [distances(seeds, arguments.trials, place, effect, way) for way in WAYS]
            cells = " | ".join(f"{first:.0f} to {last:.0f}" for first, last in found)
            print(f"| {place} | {effect} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
