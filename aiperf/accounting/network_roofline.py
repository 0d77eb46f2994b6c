"""Roofline of a network's step (Williams et al. 2009): operations, bytes and shortest possible time of each layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from morphism import Graph
from morphism.cost import layer_costs
from morphism.traffic import gradient_sums, layer_traffic


class Layer(msgspec.Struct, frozen=True, rename={"pass_name": "pass", "bytes_moved": "bytes"}):
    """Cost of the forward or backward pass of one network layer, or of all layers of one kind, over a batch."""

    kind: str
    pass_name: str
    flops: float
    bytes_moved: float
    floor_seconds: float
    """Shortest time: the longer of operations ÷ peak and bytes ÷ bandwidth."""

    @property
    def intensity(self) -> float:
        """Operations per byte of memory traffic. 0 for a layer that moves no bytes."""
        return self.flops / self.bytes_moved if self.bytes_moved else 0.0


def layers(
    graph: Graph, batch: int, element_bytes: int, peak: float, bandwidth: float, *, is_training: bool = True
) -> tuple[Layer, ...]:
    """Return FLOP, bytes and shortest time of each layer in a training step, forward then backward, or in a validation step.

    `peak`: FLOPS. `bandwidth`: bytes per second of memory. A training step ends with the sums of the gradients.
    """

    def layer(kind: str, name: str, flops: float, elements: float) -> Layer:
        moved = element_bytes * elements
        return Layer(kind, name, flops, moved, max(flops / peak, moved / bandwidth))

    steps = []
    for cost, traffic in zip(layer_costs(graph), layer_traffic(graph), strict=True):
        forward, backward = traffic.elements(batch)
        if is_training:
            steps.append(layer(traffic.kind, "forward", batch * cost.forward_flops, forward))
            steps.append(layer(traffic.kind, "backward", batch * cost.backward_flops, backward))
        else:
            steps.append(layer(traffic.kind, "forward", batch * cost.forward_validation_flops, forward))
    if is_training:
        steps += [layer(each.kind, "backward", 0, each.elements(batch)[1]) for each in gradient_sums(graph)]
    return tuple(each for each in steps if each.flops or each.bytes_moved)


def floor(of: Sequence[Layer]) -> tuple[float, float]:
    """Return the operations of a step, and its shortest possible time in seconds."""
    return math.fsum(each.flops for each in of), math.fsum(each.floor_seconds for each in of)
