"""One search on a landscape as a run makes it: the simulated cluster, with rounds and news that come late.

hear, decide and evolve, the searchers and the journal are those of a real run; only the trainings are invented.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from aiperf.config import BudgetConf, RunConf
from aiperf.data.dataset_config import SyntheticConf
from aiperf.journal.events import TrialFinished, TrialProposed, TrialStarted
from aiperf.journal.journal import NAME, read
from aiperf.rules.limits import LimitsConf, ScheduleConf
from aiperf.simulate.incarnations import drive
from aiperf.simulate.model.learning_curves import Curve, Learning
from aiperf.simulate.session import open_run, world_of
from cluster.simulated import SimulatedConf
from morphism import Map, cost, start
from searchers.searcher_config import OffConf, SearcherConf

EPOCH_SECONDS = 4.0
"""Of the starting graph on one worker: short, since a driver looks about every half a second of a run."""
IMAGES = 50_000
CLASSES = 10
_FOR_EVER = 3e5


@dataclass(frozen=True, slots=True)
class Setting:
    """What searches are compared in."""

    workers: int = 8
    trials: int = 200
    start: str = "digits_small"
    factor: float = 4.0
    """The budget, in multiples of the start."""
    warmup_rounds: int = 3
    """Rounds in which the search is told predictions."""


@dataclass(frozen=True, slots=True)
class Told:
    """One finished trial, and what the search was told of it."""

    number: int
    round: int
    parent: int | None
    parents_round: int | None
    accuracy: float
    """The best measured one."""
    told: float
    final: float
    """What its training would come to after all epochs, without noise."""
    true_error: float
    """Of the architecture."""
    growth: float


@dataclass(frozen=True, slots=True)
class Course:
    """A run's finished trials in their order."""

    trials: list[Told]
    best: list[float]
    """After each, the true error of the architecture whose measured accuracy is the best so far: what a run would name."""
    measured: list[float]
    """After each, the best measured error so far: what a run would report."""
    seconds: float
    """Of a processor."""


def run(setting: Setting, searcher: SearcherConf, seed: int, learning: Learning) -> Course:
    """A run of so many finished trials, whose trainings are those of `learning`."""
    began = time.process_time()
    opening = open_run(configured(setting, searcher, seed))
    world = world_of(opening, learning=learning)
    with tempfile.TemporaryDirectory(prefix="landscape-") as folder:
        path = Path(folder) / NAME
        drive(world, opening.first, path)
        rounds: dict[int, int] = {}
        proposed: dict[int, TrialProposed] = {}
        finished: list[TrialFinished] = []
        for event in read(path):
            if isinstance(event, TrialStarted) and event.attempt == 1 and event.round is not None:
                rounds[event.trial] = event.round
            elif isinstance(event, TrialProposed):
                proposed[event.number] = event
            elif isinstance(event, TrialFinished):
                finished.append(event)
    of_start = cost(opening.plan.graph).training_flops
    told = [
        Told(
            number=each.trial,
            round=rounds[each.trial],
            parent=proposal.parent,
            parents_round=None if proposal.parent is None else rounds[proposal.parent],
            accuracy=each.accuracy,
            told=each.told_accuracy,
            final=1 - _final_error(world.floors[each.trial], world.inherited[each.trial]),
            true_error=world.floors[each.trial],
            growth=(proposal.forward_flops + proposal.backward_flops) / of_start,
        )
        for each in finished
        for proposal in [proposed[each.trial]]
    ]
    return Course(told, *_best(told), time.process_time() - began)


def _final_error(floor: float, inherited_epochs: float) -> float:
    """After 60 epochs, without luck, noise or a learning rate that shows."""
    return Curve(1 - 1 / CLASSES, floor, inherited_epochs, (0.0,) * 60).error(60)


def _best(trials: list[Told]) -> tuple[list[float], list[float]]:
    best: list[float] = []
    measured: list[float] = []
    leading = trials[0]
    for trial in trials:
        if trial.accuracy > leading.accuracy:
            leading = trial
        best.append(leading.true_error)
        measured.append(1 - leading.accuracy)
    return best, measured


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
        schedule=ScheduleConf(duration_seconds=_FOR_EVER, warmup_seconds=1.0, warmup_rounds=setting.warmup_rounds),
        searcher=searcher,
        hpo=OffConf(),
        limits=LimitsConf(trials=setting.trials, silence_seconds=_FOR_EVER, progress_seconds=_FOR_EVER),
        budget=BudgetConf(factor=setting.factor),
        cluster=cluster,
        start=setting.start,
        seed=seed,
    )
