"""Memory of a simulated accelerator: possible batch sizes and the ceiling that its worker reports.

Memory use follows the model of `morphism.cost`, whose bytes are the minimum of a step. Nothing is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.errors import BadConfiguration
from aiperf.simulate.model.pace import ImageCosts
from aiperf.train.memory.batch_sizes import largest, nothing_fits
from aiperf.train.trainer_config import ELEMENT_BYTES, TrainerConf
from cluster.simulated import SimulatedConf
from morphism import Graph, cost


@dataclass(frozen=True, slots=True)
class AcceleratorMemory:
    """Memory of one accelerator, the same for all."""

    usable_bytes: int
    bytes_per_element: int
    """Bytes of one element of an activation."""
    ceiling: int
    """Largest batch for the starting graph, as each worker reports it."""

    def holds(self, figures: ImageCosts, batch_size: int) -> bool:
        """Return True if an architecture can be trained at a batch size. A rank makes the same check before it builds."""
        return figures.training_memory(batch_size, self.bytes_per_element) <= self.usable_bytes


def memory_of(conf: SimulatedConf, trainer: TrainerConf, start: Graph) -> AcceleratorMemory:
    """Return the memory of a configuration's accelerators. The ceiling is `conf.ceiling`, or computed as on a real rank.

    Raises BadConfiguration if the starting graph fits at no batch size. For ResNet-50 v1 of 224 pixels at 16 bits in 32 GiB
    the ceiling is 672. A batch of 681 would fill 90 % of the memory.
    """
    usable = conf.memory_bytes if trainer.memory_limit_bytes is None else trainer.memory_limit_bytes
    element = conf.bytes_per_element if trainer.precision == "auto" else ELEMENT_BYTES[trainer.precision]
    allowed = int(usable * trainer.ceiling_share)
    reckoned = largest(lambda batch: cost(start).training_memory(batch, element) <= allowed)
    if not reckoned:
        raise BadConfiguration(nothing_fits(start, element, allowed))
    return AcceleratorMemory(usable, element, conf.ceiling or reckoned)
