"""The memory of a simulated accelerator: which batches it holds, and which ceiling its worker says.

It is filled as the model of `morphism.cost` has it, whose bytes are what a step needs at the least; nothing is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.errors import BadConfiguration
from aiperf.simulate.model.pace import Figures
from aiperf.train.batch_sizes import largest, nothing_fits
from aiperf.train.trainer_config import ELEMENT_BYTES, TrainerConf
from cluster.simulated import SimulatedConf
from morphism import Graph, cost


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one accelerator; all have the same."""

    usable_bytes: int
    bytes_per_element: int
    """Of an activation."""
    ceiling: int
    """The largest batch that each worker says it can hold of the starting graph."""

    def holds(self, figures: Figures, batch_size: int) -> bool:
        """Whether an architecture can be trained at a batch size, as a rank checks it before it builds."""
        return figures.training_memory(batch_size, self.bytes_per_element) <= self.usable_bytes


def memory_of(conf: SimulatedConf, trainer: TrainerConf, start: Graph) -> Memory:
    """What a configuration's accelerators hold; the ceiling is `conf.ceiling`, else found as a real rank finds it.

    Raises BadConfiguration where the starting graph does not fit at any batch. ResNet-50 v1 of 224 pixels at 16 bits in
    32 GiB: 672, where 681 would fill 90 % of the memory.
    """
    usable = conf.memory_bytes if trainer.memory_limit_bytes is None else trainer.memory_limit_bytes
    element = conf.bytes_per_element if trainer.precision == "auto" else ELEMENT_BYTES[trainer.precision]
    allowed = int(usable * trainer.ceiling_share)
    reckoned = largest(lambda batch: cost(start).training_memory(batch, element) <= allowed)
    if not reckoned:
        raise BadConfiguration(nothing_fits(start, element, allowed))
    return Memory(usable, element, conf.ceiling or reckoned)
