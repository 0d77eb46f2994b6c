"""How fast a simulated worker trains: operations ÷ effective speed, and the exchange of gradients over layers of links.

The time of a step is a fixed part, plus the operations of its images ÷ the speed that an accelerator reaches, plus waiting for
images, plus that part of the exchange of gradients which the backward pass does not hide. Faults are not considered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.simulated import LinkConf, SimulatedConf
from morphism import Cost
from morphism.cost import training_memory

_GRADIENT_BYTES = 4
_CHECKPOINT_BYTES = 8
"""Weights and momentum, FP32, of each parameter."""
_BACKWARD_SHARE = 2 / 3
"""Of a step's operations: the backward pass costs about twice the forward one."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one image of a trial's architecture costs: the few numbers of its `Cost` that a simulation of 50,000 keeps."""

    training_flops: int
    validation_flops: int
    parameters: int
    held_elements: int
    index_elements: int
    largest_elements: int

    @classmethod
    def of(cls, cost: Cost) -> Figures:
        """As counted."""
        return cls(
            cost.training_flops,
            cost.forward_validation_flops,
            cost.parameters,
            cost.held_elements,
            cost.index_elements,
            cost.largest_elements,
        )

    def training_memory(self, batch: int, bytes_per_element: int) -> int:
        """Bytes that a training step needs at the least: see `Cost.training_memory`."""
        return training_memory(
            batch,
            bytes_per_element,
            self.parameters,
            self.held_elements,
            self.index_elements,
            self.largest_elements,
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """An epoch of one trial on one worker, in seconds of the driver's clock."""

    images_per_step: int
    """Over all ranks."""
    step_seconds: float
    busy_seconds: float
    """Of a step: compute and visible exchange."""
    communication_seconds: float
    """Of a step: exchange that the backward pass does not hide."""
    input_seconds: float
    """Of a step: waiting for images."""
    steps: int
    training_seconds: float
    validation_seconds: float
    checkpoint_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Training, validation, checkpoint."""
        return self.training_seconds + self.validation_seconds + self.checkpoint_seconds


def exchange_seconds(size: float, ranks: int, links: Sequence[LinkConf]) -> float:
    """An all-reduce of `size` bytes by `ranks`: a ring at each layer of links, nearest first, on what the layer below left.

    A ring of n takes 2·(n−1) messages of size/n: 2·(n−1)·α + 2·(n−1)/n · size/β (Thakur, Rabenseifner and Gropp 2005, section
    4.4; Patarasu and Yuan 2009, for the bound); after the scatter of one layer each rank carries size/n into the next.

    >>> round(exchange_seconds(1e9, 4, [LinkConf(4, 1e-5, 100e9)]), 6)
    0.01506
    """
    seconds, left = 0.0, ranks
    for layer, link in enumerate(links):
        is_last = layer == len(links) - 1
        width = left if is_last else min(left, link.width)
        if width > 1:
            seconds += 2 * (width - 1) * link.latency_seconds + 2 * (width - 1) / width * size / link.bytes_per_second
            size /= width
            left = -(-left // width)
    return seconds


def pace(
    conf: SimulatedConf, figures: Figures, batch_size: int, speed: float, training_images: int, validation_images: int
) -> Pace:
    """The pace of a trial at a batch size (per accelerator) on a host of that speed, 1 being the configured one."""
    ranks, flops = conf.accelerators, conf.flops * speed
    global_batch = batch_size * ranks
    compute = conf.step_seconds + batch_size * figures.training_flops / flops
    exchange = exchange_seconds(_GRADIENT_BYTES * figures.parameters, ranks, conf.links)
    communication = max(0.0, exchange - conf.overlap * _BACKWARD_SHARE * compute)
    busy = compute + communication
    waiting = conf.input_share * busy
    steps = -(-training_images // global_batch)
    validation_steps = -(-validation_images // global_batch)
    return Pace(
        images_per_step=global_batch,
        step_seconds=busy + waiting,
        busy_seconds=busy,
        communication_seconds=communication,
        input_seconds=waiting,
        steps=steps,
        training_seconds=steps * (busy + waiting),
        validation_seconds=validation_steps * conf.step_seconds
        + validation_images / ranks * figures.validation_flops / flops,
        checkpoint_seconds=_CHECKPOINT_BYTES * figures.parameters / conf.checkpoint_bytes_per_second,
    )
