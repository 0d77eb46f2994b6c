"""Compare guided search, evolution and random search on landscapes in simulated runs, by the best error that they reach.

    python -m benchmarks.search_landscape [--landscape balanced one_stage punished saturated] [--workers 8] [--seeds 24]
        [--trials 200] [--searchers morphism evolution random] [--first-seed 1000] [--factor 4] [--save FILE] [--against FILE]

No network is trained. Each run uses the simulated cluster with its rounds, observations, late proposal requests and a spare
proposal (benchmarks/landscape_run.py). A landscape defines the error of an architecture. Trainings approach it epoch by epoch,
with noise while the learning rate is high (benchmarks/landscapes.py). Compared is the true error of the architecture with the
best measured accuracy, which a run would name its best. Also printed: this measured error, which determines the score, and the
true error of all trials of the last quarter. Measured and true error differ by luck and inheritance: of two equal networks, the
one with the longer trained lineage wins. `--save` stores all runs. `--against` compares with stored runs of another state of
the code, seed by seed.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from aiperf.statistics.interleaved import interval_of_median
from benchmarks.landscape_run import Course, Setting, run
from benchmarks.landscapes import LANDSCAPES, Landscape, OnLandscape
from benchmarks.pairs import describe_machine
from morphism import start
from searchers.searcher_config import EvolutionConf, MorphismConf, RandomConf, SearcherConf

FIRST_SEED = 1000
"""The searchers' defaults were chosen on seeds 0 to 11. Reported seeds are others."""
CHECKPOINTS = (50, 100, 200)
SEARCHERS: dict[str, type[SearcherConf]] = {"morphism": MorphismConf, "evolution": EvolutionConf, "random": RandomConf}


def main() -> None:
    """Print medians over seeds with their 95 % intervals, as Markdown."""
    asked = _asked()
    setting = Setting(asked.workers, asked.trials, asked.start, asked.factor, asked.warmup_rounds)
    graph = start(asked.start)
    places = [trials for trials in CHECKPOINTS if trials <= asked.trials]
    former = json.loads(asked.against.read_text()) if asked.against else {}
    saved: dict[str, dict[str, list[list[float]]]] = {}
    conditions = f"budget {asked.factor:g} × the start, {asked.seeds} seeds from {asked.first_seed}"
    print(f"{describe_machine()}; {asked.start}, {setting.workers} workers, {conditions}\n")
    spent = 0.0
    for landscape in asked.landscape:
        courses: dict[str, list[Course]] = {name: [] for name in asked.searchers}
        for name in asked.searchers:
            for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
                learning = OnLandscape(Landscape(graph, seed, landscape))
                courses[name].append(run(setting, SEARCHERS[name](), seed, learning))
        spent += sum(course.seconds for found in courses.values() for course in found)
        saved[landscape] = {name: [course.best for course in found] for name, found in courses.items()}
        _print(landscape, courses, places, former.get(landscape, {}))
        if asked.save:
            asked.save.write_text(json.dumps(saved))
    print(f"\n{spent:.0f} s of processor time")


def _print(
    landscape: str, courses: dict[str, list[Course]], places: Sequence[int], former: dict[str, list[list[float]]]
) -> None:
    print(f"\n**{landscape}**\n")
    heads = " | ".join(f"after {trials} trials" for trials in places)
    print(f"| true error | {heads} | growth of the last quarter | parents of round 1 |")
    print("| --- |" + " --- |" * len(places) + " ---: | ---: |")
    for name, found in courses.items():
        cells = [_median([course.best[trials - 1] for course in found]) for trials in places]
        print(f"| {name} | " + " | ".join(cells) + f" | {_growth(found):.2f} × | {_of_round_1(found):.0%} |")
    print(f"\n| measured error | {heads} | mean true error of the last quarter | depth of the named one |")
    print("| --- |" + " --- |" * len(places) + " --- | ---: |")
    for name, found in courses.items():
        cells = [_median([course.measured[trials - 1] for course in found]) for trials in places]
        depth = statistics.median([depth_of_best(course) for course in found])
        print(f"| {name} | " + " | ".join([*cells, _median([tried(course) for course in found])]) + f" | {depth:g} |")
    pairs = [(f"against {name}", [c.best for c in found]) for name, found in courses.items() if name != "morphism"]
    if "morphism" not in courses:
        return
    pairs += [(f"against {name} of the other state", found) for name, found in former.items()]
    print(f"\n| guided − other, within a seed | {heads} | guided better |")
    print("| --- |" + " --- |" * len(places) + " --- |")
    for against, others in pairs:
        both = list(zip([course.best for course in courses["morphism"]], others, strict=True))
        cells = [_median([guided[trials - 1] - other[trials - 1] for guided, other in both]) for trials in places]
        wins = sum(guided[places[-1] - 1] < other[places[-1] - 1] for guided, other in both)
        print(f"| {against} | " + " | ".join(cells) + f" | {wins} of {len(both)} seeds |")
    print(f"\n| guided − other, measured | {heads} | mean true error of the last quarter | measured better |")
    print("| --- |" + " --- |" * len(places) + " --- | --- |")
    for name in [name for name in courses if name != "morphism"]:
        met = list(zip(courses["morphism"], courses[name], strict=True))
        cells = [_median([one.measured[at - 1] - other.measured[at - 1] for one, other in met]) for at in places]
        cells.append(_median([tried(one) - tried(other) for one, other in met]))
        wins = sum(one.measured[-1] < other.measured[-1] for one, other in met)
        print(f"| against {name} | " + " | ".join(cells) + f" | {wins} of {len(met)} seeds |")


def tried(course: Course) -> float:
    """Return the mean true error of the architectures in a run's last quarter of trials."""
    return statistics.fmean([trial.true_error for trial in course.trials[-len(course.trials) // 4 :]])


def depth_of_best(course: Course) -> int:
    """Return the generations from the starting weights to the trial with the best measured accuracy, which counts as one."""
    parents = {trial.number: trial.parent for trial in course.trials}
    at: int | None = max(course.trials, key=lambda trial: trial.accuracy).number
    depth = 0
    while at is not None:
        at, depth = parents[at], depth + 1
    return depth


def _growth(found: Sequence[Course]) -> float:
    return statistics.fmean([trial.growth for course in found for trial in course.trials[-len(course.trials) // 4 :]])


def _of_round_1(found: Sequence[Course]) -> float:
    """Return the share of children with a parent of round 1, among children of the last quarter that have a parent."""
    rounds = [
        trial.parents_round
        for course in found
        for trial in course.trials[-len(course.trials) // 4 :]
        if trial.parents_round is not None
    ]
    return sum(round_ == 1 for round_ in rounds) / max(1, len(rounds))


def _median(values: Sequence[float]) -> str:
    if len(values) < 6:  # too few for an interval
        return f"{statistics.median(values):.4f}"
    low, high = interval_of_median(values)
    return f"{statistics.median(values):.4f} ({low:.4f}–{high:.4f})"


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--landscape", nargs="+", choices=LANDSCAPES, default=list(LANDSCAPES))
    parser.add_argument("--searchers", nargs="+", choices=SEARCHERS, default=list(SEARCHERS))
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--trials", type=int, default=max(CHECKPOINTS))
    parser.add_argument("--start", default="digits_small")
    parser.add_argument("--factor", type=float, default=4.0, help="budget, in multiples of the start")
    parser.add_argument("--warmup-rounds", type=int, default=3)
    parser.add_argument("--save", type=Path, help="keep the courses in this file")
    parser.add_argument("--against", type=Path, help="compare with the courses in this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
