"""Speed of a simulated worker: operations ÷ effective speed, and gradient exchange over layers of links.

The time of a step is the sum of a fixed part, the operations of its images ÷ the effective speed of an accelerator, the wait
for images, and the gradient exchange that does not overlap with the backward pass. Faults are not included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.simulated import SimulatedConf
from morphism import Cost
from morphism.cost import training_memory

GRADIENT_BYTES = 4
"""Bytes per parameter in the exchange."""
_CHECKPOINT_BYTES = 8
"""Bytes per parameter: weights and momentum in FP32."""
_BACKWARD_SHARE = 2 / 3
"""Share of a step's operations: the backward pass costs about twice the forward pass."""


@dataclass(frozen=True, slots=True)
class ImageCosts:
    """Costs of one image of a trial's architecture: the part of its `Cost` that a simulation of 50,000 trials can store."""

    training_flops: int
    validation_flops: int
    tensor_training_flops: int
    """Operations of convolutions and matrix products alone."""
    tensor_validation_flops: int
    parameters: int
    held_elements: int
    index_elements: int
    largest_elements: int

    @classmethod
    def of(cls, cost: Cost) -> ImageCosts:
        """Return the figures of a cost."""
        return cls(
            cost.training_flops,
            cost.forward_validation_flops,
            cost.tensor_forward_flops + cost.tensor_backward_flops,
            cost.tensor_forward_flops,
            cost.parameters,
            cost.held_elements,
            cost.index_elements,
            cost.largest_elements,
        )

    def training_memory(self, batch: int, bytes_per_element: int) -> int:
        """Return the minimum memory of a training step in bytes: see `Cost.training_memory`."""
        return training_memory(
            batch,
            bytes_per_element,
            self.parameters,
            self.held_elements,
            self.index_elements,
            self.largest_elements,
        )


@dataclass(frozen=True, slots=True)
class TrialTiming:
    """Timing of one trial on one worker, in seconds of the driver's clock."""

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
        """Return the seconds of an epoch: training, validation, checkpoint."""
        return self.training_seconds + self.validation_seconds + self.checkpoint_seconds


def pace(
    conf: SimulatedConf,
    figures: ImageCosts,
    batch_size: int,
    speed: float,
    training_images: int,
    validation_images: int,
    generation: int = 1,
) -> TrialTiming:
    """Return the pace of a trial at a batch size (per accelerator).

    `speed`: speed of the host relative to the configured one.
    `generation`: proposals from the starting graph to the network, counted from 1.
    """
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
        validation += validation_images / ranks * figures.validation_flops / flops
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
    costs: Sequence[float], figures: ImageCosts, generation: int, batch: int, *, is_training: bool
) -> float:
    """Return compute seconds of one accelerator by the five-cost model of `aiperf.statistics.speed_model`."""
    operations = figures.training_flops if is_training else figures.validation_flops
    tensor = figures.tensor_training_flops if is_training else figures.tensor_validation_flops
    content = (1 / batch, tensor, operations - tensor, figures.parameters / batch, generation / batch)
    return sum(cost * amount for cost, amount in zip(costs, content, strict=True))
