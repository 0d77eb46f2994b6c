"""Landscapes: the error of an architecture as a formula of its properties, and searches on them in simulated runs.

No network is trained. Each run uses the simulated cluster with its rounds, observations, late proposal requests and a spare
proposal. Rules, searchers and journal are those of a real run. The coefficients of a landscape are drawn for each seed, so that
a searcher cannot be fitted to it. Trainings approach its error epoch by epoch, with noise while the learning rate is high.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import exp, log2
from pathlib import Path
from random import Random
from typing import Final

from aiperf.config import BudgetConf, RunConf
from aiperf.data.dataset_config import SyntheticConf
from aiperf.journal.events import TrialFinished
from aiperf.journal.journal import NAME, read
from aiperf.rules.limits import LimitsConf, ScheduleConf
from aiperf.simulate.model.learning_curves import Curve, curve
from aiperf.simulate.session import drive, open_run, world_of
from cluster.simulated import SimulatedConf
from morphism import Convolution, Graph, Map, cost, layer_cost, start
from searchers.searcher_config import OffConf, SearcherConf

HEAT: Final = 0.4
"""Relative increase of the error by the first epoch's learning rate. It falls with the learning rate to 0 after 60 epochs."""
HOT_NOISE: Final = 0.06
"""Noise of an evaluation at that learning rate, as a share of its error. It falls in the same way."""
ANNEALED_OVER: Final = 60
"""Epochs over which the learning rate falls (docs/benchmark.md)."""


@dataclass(frozen=True, slots=True)
class Landscape:
    """The error of an architecture: one of LANDSCAPES, with the coefficients of a seed."""

    start: Graph
    seed: int
    name: str = "balanced"

    def true_error(self, graph: Graph) -> float:
        """Return the error that long trainings approach, without luck and noise, 0 to 1."""
        return min(1.0, max(0.01, LANDSCAPES[self.name](self.start, graph, Random(self.seed))))


@dataclass(frozen=True, slots=True)
class OnLandscape:
    """Trainings of a simulated run (`aiperf.simulate.model.learning_curves`). Short trainings are noisy, as real ones are."""

    landscape: Landscape

    def floor(self, graph: Graph) -> float:
        return self.landscape.true_error(graph)

    def curve(self, seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
        """Return a curve annealed over 60 epochs, independent of its length. Its noise falls with the learning rate."""
        cold = curve(seed, classes, floor, inherited_epochs, epochs)
        draw = Random(f"hot {seed}")
        hot = [max(0.0, 1 - (epoch - 1) / ANNEALED_OVER) for epoch in range(1, epochs + 1)]
        noise = [each + HOT_NOISE * share * draw.gauss(0.0, 1.0) for each, share in zip(cold.noise, hot, strict=True)]
        return replace(cold, noise=tuple(noise), heat=tuple([HEAT * share for share in hot]))


def balanced(start: Graph, graph: Graph, random: Random) -> float:
    """Growth of each stage pays by its own share. Depth and width should grow together, and kernels have a best size.

    error = 0.04 + Σ over stages of share_s · 0.30 · exp(−0.7 · c_s) + 0.02 · Σ (d_s − w_s − lean_s)² + 0.01 · (k − kernel)²
    with, relative to the starting graph and in powers of two: c_s growth of the forward operations of a stage's convolutions,
    d_s of their number, w_s of their mean channels. k is the mean kernel edge of convolutions larger than 1×1.
    A stage is a height of maps. share_s (sum 1), lean_s (−0.5..0.5) and kernel (3.5..5.5) are drawn from the seed.
    """
    then, now = _stages(start), _stages(graph)
    draws = [random.expovariate(1.0) for _ in then]
    leans = [random.uniform(-0.5, 0.5) for _ in then]
    kernel = random.uniform(3.5, 5.5)
    error = 0.04
    for height, draw, lean in zip(then, draws, leans, strict=True):
        before, after = then[height], now[height]
        capacity = log2(after.flops / before.flops)
        depth = log2(after.convolutions / before.convolutions)
        width = log2(after.mean_channels / before.mean_channels)
        error += draw / sum(draws) * 0.30 * exp(-0.7 * capacity) + 0.02 * (depth - width - lean) ** 2
    return error + 0.01 * (_mean_kernel(graph) - kernel) ** 2


def one_stage(start: Graph, graph: Graph, random: Random) -> float:
    """Growth of one stage pays: error = 0.06 + 0.24 · exp(−1.0 · c), with c as in `balanced` for a stage drawn from the seed.

    Growth of the other stages only uses the budget.
    """
    then, now = _stages(start), _stages(graph)
    height = random.choice(sorted(then))
    return 0.06 + 0.24 * exp(-1.0 * log2(now[height].flops / then[height].flops))


def punished(start: Graph, graph: Graph, random: Random) -> float:
    """Growth increases the error, by stage: error = 0.18 + Σ share_s · 0.10 · c_s, with drawn shares."""
    then, now = _stages(start), _stages(graph)
    draws = {height: random.expovariate(1.0) for height in then}
    total = sum(draws.values())
    return 0.18 + sum(draws[at] / total * 0.10 * log2(now[at].flops / then[at].flops) for at in then)


def saturated(start: Graph, graph: Graph, random: Random) -> float:
    """No change has an effect: error = 0.20. The best network differs by luck alone."""
    return 0.20


LANDSCAPES: Final[Mapping[str, Callable[[Graph, Graph, Random], float]]] = {
    "balanced": balanced,
    "one_stage": one_stage,
    "punished": punished,
    "saturated": saturated,
}


@dataclass(slots=True)
class _Stage:
    flops: int = 0
    convolutions: int = 0
    channels: int = 0

    @property
    def mean_channels(self) -> float:
        return self.channels / self.convolutions


def _stages(graph: Graph) -> dict[int, _Stage]:
    stages: dict[int, _Stage] = defaultdict(_Stage)
    for node, shape in zip(graph.nodes, graph.shapes, strict=True):
        if isinstance(node.op, Convolution) and isinstance(shape, Map):
            stage = stages[shape.height]
            stage.flops += layer_cost(node.op, (graph.shapes[node.inputs[0]],), shape).forward_flops
            stage.convolutions += 1
            stage.channels += shape.channels
    return stages


def _mean_kernel(graph: Graph) -> float:
    edges = [node.op.kernel for node in graph.nodes if isinstance(node.op, Convolution) and node.op.kernel > 1]
    return statistics.fmean(edges) if edges else 1.0


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
