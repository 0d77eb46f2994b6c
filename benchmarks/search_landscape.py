"""Compare guided search, evolution and random search on landscapes in simulated runs, by the best error that they reach.

    python -m benchmarks.search_landscape [--landscape balanced one_stage punished saturated] [--workers 8] [--seeds 24]
        [--trials 200] [--searchers morphism evolution random] [--first-seed 1000] [--factor 4]

No network is trained. Each run uses the simulated cluster with its rounds, observations, late proposal requests and a spare
proposal. Rules, searchers and journal are those of a real run. A landscape defines the error of an architecture
(benchmarks/landscapes.py). Trainings approach it epoch by epoch, with noise while the learning rate is high. Compared is the
true error of the architecture with the best measured accuracy, which a run would name its best.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.config import BudgetConf, RunConf
from aiperf.data.dataset_config import SyntheticConf
from aiperf.journal.events import TrialFinished
from aiperf.journal.journal import NAME, read
from aiperf.rules.limits import LimitsConf, ScheduleConf
from aiperf.simulate.driver_restarts import drive
from aiperf.simulate.session import open_run, world_of
from aiperf.statistics.interleaved import interval_of_median
from benchmarks.landscapes import LANDSCAPES, Landscape, OnLandscape
from benchmarks.pairs import describe_machine
from cluster.simulated import SimulatedConf
from morphism import Map, cost, start
from searchers.searcher_config import EvolutionConf, MorphismConf, OffConf, RandomConf, SearcherConf

FIRST_SEED = 1000
"""The searchers' defaults were chosen on seeds 0 to 11. Reported seeds are others."""
CHECKPOINTS = (50, 100, 200)
"""Numbers of finished trials after which the errors are compared."""
SEARCHERS: dict[str, type[SearcherConf]] = {"morphism": MorphismConf, "evolution": EvolutionConf, "random": RandomConf}
EPOCH_SECONDS = 4.0
"""Epoch time of the starting graph on one worker. It is short, since a driver polls about every half second of a run."""
IMAGES = 50_000
CLASSES = 10
ENDLESS_SECONDS = 3e5


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting of compared searches."""

    workers: int = 8
    trials: int = 200
    start: str = "digits_small"
    factor: float = 4.0
    """Budget in multiples of the starting graph."""
    warmup_rounds: int = 3
    """Rounds in which the search receives predictions."""


def run(setting: Setting, searcher: SearcherConf, seed: int, landscape: str) -> list[float]:
    """Run a search of `setting.trials` finished trials.

    Returns:
        After each finished trial: true error of the architecture with the best measured accuracy.
    """
    learning = OnLandscape(Landscape(start(setting.start), seed, landscape))
    opening = open_run(configured(setting, searcher, seed))
    world = world_of(opening, learning=learning)
    with tempfile.TemporaryDirectory(prefix="landscape-") as folder:
        path = Path(folder) / NAME
        drive(world, opening.first, path)
        finished = [event for event in read(path) if isinstance(event, TrialFinished)]
    best: list[float] = []
    leading = finished[0]
    for trial in finished:
        if trial.accuracy > leading.accuracy:
            leading = trial
        best.append(world.floors[leading.trial])
    return best


def configured(setting: Setting, searcher: SearcherConf, seed: int) -> RunConf:
    graph = start(setting.start)
    image = graph.shapes[0]
    assert isinstance(image, Map)
    cluster = SimulatedConf(
        workers=setting.workers,
        accelerators=1,
        flops=IMAGES * cost(graph).training_flops / EPOCH_SECONDS,
        step_seconds=0.0,
        join_seconds=2.0,
        build_seconds=0.1,
        compile_seconds=0.0,
        proposal_seconds=0.1,
        turn_seconds=0.0,
    )
    return RunConf(
        dataset=SyntheticConf(
            training_images=IMAGES,
            validation_images=1000,
            classes=CLASSES,
            image=image.height,
            channels=image.channels,
        ),
        schedule=ScheduleConf(
            duration_seconds=ENDLESS_SECONDS, warmup_seconds=1.0, warmup_rounds=setting.warmup_rounds
        ),
        searcher=searcher,
        hpo=OffConf(),
        limits=LimitsConf(trials=setting.trials, silence_seconds=ENDLESS_SECONDS, progress_seconds=ENDLESS_SECONDS),
        budget=BudgetConf(factor=setting.factor),
        cluster=cluster,
        start=setting.start,
        seed=seed,
    )


def main() -> None:
    """Print medians over seeds with their 95 % intervals, as Markdown."""
    arguments = _arguments()
    setting = Setting(arguments.workers, arguments.trials, arguments.start, arguments.factor, arguments.warmup_rounds)
    checkpoints = [trials for trials in CHECKPOINTS if trials <= arguments.trials]
    conditions = f"budget {arguments.factor:g} × the start, {arguments.seeds} seeds from {arguments.first_seed}"
    print(f"{describe_machine()}; {arguments.start}, {setting.workers} workers, {conditions}\n")
    for landscape in arguments.landscape:
        errors = {
            name: [
                run(setting, SEARCHERS[name](), seed, landscape)
                for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds)
            ]
            for name in arguments.searchers
        }
        _print(landscape, errors, checkpoints)


def _print(landscape: str, errors: dict[str, list[list[float]]], checkpoints: Sequence[int]) -> None:
    """Print the true error of each searcher, and the difference of guided search to each other searcher."""
    heads = " | ".join(f"after {trials} trials" for trials in checkpoints)
    print(f"\n**{landscape}**\n\n| true error | {heads} |\n| --- |" + " --- |" * len(checkpoints))
    for name, runs in errors.items():
        print(
            f"| {name} | " + " | ".join(_median([best[trials - 1] for best in runs]) for trials in checkpoints) + " |"
        )
    if "morphism" not in errors:
        return
    print(f"\n| guided − other, within a seed | {heads} | guided better |\n| --- |" + " --- |" * (len(checkpoints) + 1))
    for name in errors.keys() - {"morphism"}:
        pairs = list(zip(errors["morphism"], errors[name], strict=True))
        cells = [_median([guided[at - 1] - other[at - 1] for guided, other in pairs]) for at in checkpoints]
        wins = sum(guided[-1] < other[-1] for guided, other in pairs)
        print(f"| against {name} | " + " | ".join(cells) + f" | {wins} of {len(pairs)} seeds |")


def _median(values: Sequence[float]) -> str:
    if len(values) < 6:  # too few for an interval
        return f"{statistics.median(values):.4f}"
    low, high = interval_of_median(values)
    return f"{statistics.median(values):.4f} ({low:.4f}–{high:.4f})"


def _arguments() -> argparse.Namespace:
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
    return parser.parse_args()


if __name__ == "__main__":
    main()
