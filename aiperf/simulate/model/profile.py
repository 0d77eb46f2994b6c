"""Time of a simulated worker's steps and epochs: from the operations of its network, or as measured in a real run's journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from statistics import fmean, median, pstdev

import numpy as np
import numpy.typing as npt

from aiperf.errors import BadConfiguration
from aiperf.journal import events
from aiperf.journal.journal import folding, read
from aiperf.journal.run_folder import run_folder
from aiperf.train.trainer_config import ELEMENT_BYTES
from cluster.faults import WorkerLostConf
from cluster.simulated import SimulatedConf
from cluster.topology import LinkConf, exchange_seconds
from morphism import Cost

Real = npt.NDArray[np.float64]

SMALLEST_COST = 1e-6
FASTEST_LINK = 1e18
"""Largest bandwidth of a link in bytes per second: no time."""
GRADIENT_BYTES = 4
"""Bytes per parameter in the exchange."""
_CHECKPOINT_BYTES = 8
"""Bytes per parameter: weights and momentum in FP32."""
_BACKWARD_SHARE = 2 / 3
"""Share of a step's operations: the backward pass costs about twice the forward pass."""


@dataclass(frozen=True, slots=True)
class TrialTiming:
    """Times of the steps and epochs of one network on one worker, in seconds of the run's clock."""

    images_per_step: int
    """Images over all ranks."""
    step_seconds: float
    busy_seconds: float
    """Seconds per step: compute and visible exchange."""
    communication_seconds: float
    """Seconds per step: exchange that does not overlap with the backward pass."""
    input_seconds: float
    """Seconds per step: waiting for images."""
    steps: int
    training_seconds: float
    validation_seconds: float
    checkpoint_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Seconds of one epoch: training, validation and checkpoint."""
        return self.training_seconds + self.validation_seconds + self.checkpoint_seconds


def pace(
    conf: SimulatedConf,
    figures: Cost,
    batch_size: int,
    speed: float,
    training_images: int,
    validation_images: int,
    generation: int = 1,
) -> TrialTiming:
    """Return the times of the steps and epochs of a network on one simulated worker, in seconds."""
    ranks = conf.accelerators
    global_batch = batch_size * ranks
    steps = training_images // global_batch or 1  # whole steps, as in a real epoch
    if conf.step_costs:
        trained, validated = (
            seconds_of_an_image(conf.step_costs, figures, generation, batch_size, is_training=is_training) / speed
            for is_training in (True, False)
        )
        compute = batch_size * trained
        validation = validation_images / ranks * validated * conf.validation_cost
    else:
        flops = conf.flops * speed
        compute = conf.step_seconds + batch_size * figures.training_flops / flops
        validation = -(-validation_images // global_batch) * conf.step_seconds
        validation += validation_images / ranks * figures.forward_validation_flops / flops
    exchange = conf.all_reduce_seconds(GRADIENT_BYTES * figures.parameters)
    communication = max(0.0, exchange - conf.overlap * _BACKWARD_SHARE * compute)
    busy = compute + communication
    waiting = conf.input_share * busy
    return TrialTiming(
        images_per_step=min(global_batch, training_images),
        step_seconds=busy + waiting,
        busy_seconds=busy,
        communication_seconds=communication,
        input_seconds=waiting,
        steps=steps,
        training_seconds=steps * (busy + waiting),
        validation_seconds=validation,
        checkpoint_seconds=_CHECKPOINT_BYTES * figures.parameters / conf.checkpoint_bytes_per_second,
    )


def seconds_of_an_image(
    costs: Sequence[float], figures: Cost, generation: int, batch: int, *, is_training: bool
) -> float:
    """Return the accelerator-seconds of one image: the sum of five costs, each times its amount."""
    content = content_of_an_image(figures, generation, batch, is_training=is_training)
    return fsum(cost * amount for cost, amount in zip(costs, content, strict=True))


def content_of_an_image(figures: Cost, generation: int, batch: int, *, is_training: bool) -> tuple[float, ...]:
    """Return five amounts of work of one image, with which the five fitted costs are multiplied."""
    operations = figures.training_flops if is_training else figures.forward_validation_flops
    tensor = figures.tensor_forward_flops + figures.tensor_backward_flops * is_training
    return (1 / batch, tensor, operations - tensor, figures.parameters / batch, generation / batch)


@dataclass(slots=True)
class WorkOfAttempt:
    """Sums of images and seconds of one attempt (one training of a network by a worker) at one batch size."""

    proposal: events.TrialProposed
    generation: int
    worker: int
    batch: int
    training_images: int = 0
    steps_seconds: float = 0.0
    """Compute time of one rank in training steps, without the exchange."""
    exchange_seconds: float = 0.0
    """Gradient exchange that the backward pass did not hide."""
    validation_images: int = 0
    validation_seconds: float = 0.0
    """Busy time of one rank in validation steps."""

    def steps(self, ranks: int) -> float:
        """Return the number of training steps."""
        return self.training_images / (self.batch * ranks)

    def content(self) -> tuple[float, ...]:
        """Return the amounts of work of one training image, with which the five fitted costs are multiplied."""
        return content_of_an_image(_figures(self.proposal), self.generation, self.batch, is_training=True)


@dataclass(slots=True)
class Profile:
    """Measured figures of the machines of one run: speed, start-up times, memory and losses."""

    ranks: int = 0
    warmup_seconds: float = 0.0
    work: list[WorkOfAttempt] = field(default_factory=list)
    """Work after the warm-up. Before that the machine is cold and no work counts."""
    input_seconds: float = 0.0
    build_seconds: list[float] = field(default_factory=list)
    """Seconds from the order to the network with its weights, without compiling."""
    compile_seconds: list[float] = field(default_factory=list)
    checkpoint_seconds: list[tuple[float, int]] = field(default_factory=list)
    """Seconds of an interval with a checkpoint, with the trial's parameters."""
    join_seconds: list[float] = field(default_factory=list)
    """Start time of each worker that joined at the beginning."""
    proposal_seconds: list[float] = field(default_factory=list)
    attempts: int = 0
    losses: int = 0
    """Attempts that ended early, alone or with their worker."""
    memory_bytes: int = 0
    precision: str | None = None
    """Precision of the trials: fp32, tf32, bf16 or fp16."""
    ceilings: dict[str, int] = field(default_factory=dict)
    """Smallest measured ceiling by fingerprint of the starting graph: the limit of the run's proposals."""


def profile(journal: Iterable[events.AnyEvent]) -> Profile:
    """Return the measured figures of a run's machines: images with their seconds, start-up times, memory in bytes, losses."""
    figures = Profile()
    proposals: dict[int, events.TrialProposed] = {}
    generations: dict[int, int] = {}
    current: dict[int, WorkOfAttempt] = {}
    ordered: dict[int, float] = {}
    for event in journal:
        match event:
            case events.RunStarted():
                figures.warmup_seconds = event.warmup_seconds
            case events.WorkerJoined():
                figures.ranks = event.ranks
                figures.memory_bytes = event.device_memory_bytes
                if not figures.attempts:
                    figures.join_seconds.append(event.at)
            case events.TrialProposed():
                proposals[event.number] = event
                generations[event.number] = 1 if event.parent is None else generations[event.parent] + 1
                figures.proposal_seconds.append(event.seconds)
            case events.TrialStarted():
                figures.attempts += 1
                ordered[event.trial] = event.at
                current[event.trial] = WorkOfAttempt(
                    proposals[event.trial], generations[event.trial], event.worker, event.batch_size
                )
                figures.work.append(current[event.trial])
            case events.BatchReduced():
                own = current[event.trial]
                current[event.trial] = WorkOfAttempt(own.proposal, own.generation, own.worker, event.to_batch_size)
                figures.work.append(current[event.trial])
            case events.CeilingMeasured():
                known = figures.ceilings.get(event.family, event.batch_size)
                figures.ceilings[event.family] = min(known, event.batch_size)
            case events.TrialPrepared():
                figures.precision = event.precision
                figures.build_seconds.append(max(0.0, event.at - ordered[event.trial] - event.compile_seconds))
                figures.compile_seconds.append(event.compile_seconds)
            case events.Progress() | events.EpochFinished():
                if event.interval is not None:
                    _worked(figures, current[event.trial], event.interval)
            case events.TrialLost():
                figures.losses += 1
            case events.WorkerLost():
                figures.losses += event.cause != "released"
            case _:
                pass
    return figures


def _worked(figures: Profile, own: WorkOfAttempt, work: events.Work) -> None:
    if work.start < figures.warmup_seconds:
        return
    own.training_images += work.training_images
    own.steps_seconds += work.busy_seconds - work.validation_seconds - work.communication_seconds
    own.exchange_seconds += work.communication_seconds
    own.validation_images += work.validation_images
    own.validation_seconds += work.validation_seconds
    figures.input_seconds += work.input_seconds
    if work.checkpoint_seconds > 0:
        figures.checkpoint_seconds.append((work.checkpoint_seconds, own.proposal.parameters))


def profile_of(run: str, runs: str) -> Profile:
    reader = read(run_folder(run, runs))
    lines = iter(reader)
    first = next(lines)
    assert isinstance(first, events.RunStarted)
    if first.simulated:
        raise BadConfiguration(f"a profile is read from a real run, but '{run}' is simulated: name a run that trained")
    with folding(reader):
        figures = profile(lines)
    if not any(each.steps_seconds > 0 and each.training_images for each in figures.work):
        raise BadConfiguration(
            f"a profile needs a run that trained, but '{run}' has no training after its warm-up: name another run"
        )
    return figures


def calibrated(conf: SimulatedConf, figures: Profile) -> SimulatedConf:
    """Conf with a real run's values. `overlap` is 0: the measured exchange is the part that the backward pass did not hide."""
    costs, speeds, validation = _costs(figures)
    steps_seconds = fsum(each.steps_seconds + each.exchange_seconds for each in figures.work)
    copied = [parameters * 8 / seconds for seconds, parameters in figures.checkpoint_seconds]
    losses = [WorkerLostConf(rate=round(min(1.0, figures.losses / figures.attempts), 4))] if figures.losses else []
    return replace(
        conf,
        accelerators=figures.ranks,
        memory_bytes=figures.memory_bytes,
        bytes_per_element=conf.bytes_per_element if figures.precision is None else ELEMENT_BYTES[figures.precision],
        step_costs=costs,
        validation_cost=validation,
        links=[_link(figures)],
        overlap=0.0,
        speed_spread=min(1.0, pstdev(speeds)) if len(speeds) > 1 else conf.speed_spread,
        input_share=figures.input_seconds / steps_seconds,
        join_seconds=median(figures.join_seconds) if figures.join_seconds else conf.join_seconds,
        build_seconds=fmean(figures.build_seconds) if figures.build_seconds else conf.build_seconds,
        weights_bytes_per_second=FASTEST_LINK if figures.build_seconds else conf.weights_bytes_per_second,
        compile_seconds=fmean(figures.compile_seconds) if figures.compile_seconds else conf.compile_seconds,
        checkpoint_bytes_per_second=len(copied) / fsum(1 / each for each in copied)
        if copied
        else conf.checkpoint_bytes_per_second,
        proposal_seconds=fmean(figures.proposal_seconds) if figures.proposal_seconds else conf.proposal_seconds,
        faults=[*conf.faults, *losses],
    )


def _costs(figures: Profile) -> tuple[list[float], list[float], float]:
    """Return the five costs of training, each worker's relative speed, and the cost of validation."""
    trained = [each for each in figures.work if each.training_images and each.steps_seconds > 0]
    images = np.array([each.training_images for each in trained])
    content = np.array([each.content() for each in trained])
    busy = np.array([each.steps_seconds * figures.ranks for each in trained])
    fitted = _fit(content, busy / images, busy)
    expected = images * (content @ fitted)
    scale = float(busy.sum() / expected.sum())
    workers = np.array([each.worker for each in trained])
    speeds = [
        float(scale * expected[workers == worker].sum() / busy[workers == worker].sum())
        for worker in np.unique(workers)
    ]
    costs = [float(each) * scale for each in fitted]
    validated = fsum(
        each.validation_images * seconds_of_an_image(costs, figures, each.generation, each.batch, is_training=False)
        for each in figures.work
        for figures in [_figures(each.proposal)]
    )
    measured = fsum(each.validation_seconds for each in figures.work) * figures.ranks
    return costs, speeds, measured / validated if validated > 0 else 1.0


def _fit(content: Real, seconds: Real, weight: Real) -> Real:
    """Return the costs by non-negative least squares of the relative deviation, with scaled columns. Shape (5,)."""
    from scipy.optimize import nnls  # imported late: takes 0.3 s

    rows = content / seconds[:, None] * np.sqrt(weight)[:, None]
    size = np.linalg.norm(rows, axis=0)
    size[size == 0] = 1.0
    solution, _ = nnls(rows / size, np.sqrt(weight))
    # Each cost is positive: at least a millionth of the cost that would explain the whole time alone.
    whole = weight @ content
    alone = np.divide(float(weight @ seconds), whole, out=np.zeros(content.shape[1]), where=whole > 0)
    return np.asarray(np.maximum(solution / size, SMALLEST_COST * alone), dtype=np.float64)


def _link(figures: Profile) -> LinkConf:
    """Return one link with an all-reduce time equal to the measured exchange, by non-negative least squares."""
    from scipy.optimize import nnls

    ranks = figures.ranks
    trained = [each for each in figures.work if each.training_images]
    total = fsum(each.exchange_seconds for each in trained)
    if ranks == 1 or total == 0:
        return LinkConf(0, 0.0, FASTEST_LINK)
    units = (LinkConf(0, 1.0, FASTEST_LINK), LinkConf(0, 0.0, 1.0))
    rows = np.array(
        [
            [
                each.steps(ranks) * exchange_seconds(GRADIENT_BYTES * each.proposal.parameters, ranks, [unit])
                for unit in units
            ]
            for each in trained
        ]
    )
    scale = rows.max(axis=0)
    fitted, _ = nnls(rows / scale, np.array([each.exchange_seconds for each in trained]))
    alpha, inverse = fitted / scale
    factor = total / float((rows @ np.array([alpha, inverse])).sum())
    inverse *= factor
    return LinkConf(0, float(alpha * factor), 1 / float(inverse) if inverse * FASTEST_LINK > 1 else FASTEST_LINK)


def _figures(own: events.TrialProposed) -> Cost:
    flops = own.forward_flops, own.validation_flops, own.backward_flops
    return Cost(*flops, own.tensor_forward_flops, own.tensor_backward_flops, own.parameters, 0, 0, 0, {})
