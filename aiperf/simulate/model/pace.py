"""Time of the steps and epochs of a simulated worker, from the operations of its network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from cluster.simulated import SimulatedConf
from morphism import Cost

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
    steps = -(-training_images // global_batch)
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
        images_per_step=global_batch,
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
