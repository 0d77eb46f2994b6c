"""One search on a landscape in the simulated cluster, with rounds and delayed observations.

Rules, searchers and journal are those of a real run. Only the trainings are simulated.
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
from aiperf.simulate.driver_restarts import drive
from aiperf.simulate.model.learning_curves import Curve, Learning
from aiperf.simulate.session import open_run, world_of
from cluster.simulated import SimulatedConf
from morphism import Map, cost, start
from searchers.searcher_config import OffConf, SearcherConf

EPOCH_SECONDS = 4.0
"""Epoch time of the starting graph on one worker. It is short, since a driver looks about every half second of a run."""
IMAGES = 50_000
CLASSES = 10
_FOR_EVER = 3e5


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


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """One finished trial and its value for the search."""

    number: int
    round: int
    parent: int | None
    parents_round: int | None
    accuracy: float
    """Best measured accuracy."""
    reported: float
    final: float
    """Final accuracy after all epochs, without noise."""
    true_error: float
    """True error of the architecture."""
    growth: float


@dataclass(frozen=True, slots=True)
class Course:
    """Finished trials of a run, in order."""

    trials: list[FinishedTrial]
    best: list[float]
    """By trial: true error of the architecture with the best measured accuracy so far, which a run would name."""
    measured: list[float]
    """By trial: best measured error so far, which a run would report."""
    seconds: float
    """Processor seconds."""


def run(setting: Setting, searcher: SearcherConf, seed: int, learning: Learning) -> Course:
    """Run a search of `setting.trials` finished trials with the trainings of `learning`."""
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
    trials = [
        FinishedTrial(
            number=each.trial,
            round=rounds[each.trial],
            parent=proposal.parent,
            parents_round=None if proposal.parent is None else rounds[proposal.parent],
            accuracy=each.accuracy,
            reported=each.reported_accuracy,
            final=1 - _final_error(world.floors[each.trial], world.inherited[each.trial]),
            true_error=world.floors[each.trial],
            growth=(proposal.forward_flops + proposal.backward_flops) / of_start,
        )
        for each in finished
        for proposal in [proposed[each.trial]]
    ]
    return Course(trials, *_best(trials), time.process_time() - began)


def _final_error(floor: float, inherited_epochs: float) -> float:
    """Return the error after 60 epochs without luck, noise or a visible learning rate."""
    return Curve(1 - 1 / CLASSES, floor, inherited_epochs, (0.0,) * 60).error(60)


def _best(trials: list[FinishedTrial]) -> tuple[list[float], list[float]]:
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
