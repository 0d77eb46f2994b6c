"""Share of a square unit of multipliers (matrix unit) that the layers of a network fill, by their shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from morphism import Attention, Convolution, Dense, GatedMlp, Graph, Map, channels_of
from morphism.cost import layer_costs

LISTED = 5
"""Layers that --array lists."""


@dataclass(frozen=True, slots=True)
class ArrayLayer:
    """Forward matrix product of one layer. Its weight matrix is rows × columns, for each group of a convolution."""

    layer: str
    """Name of the layer in the graph."""
    rows: int
    """K²·input channels of a group, or input features."""
    columns: int
    """Output channels of a group, or output features."""
    flops: int
    """Operations of the forward pass per image."""
    occupied_flops: int
    """Operations with rows and columns rounded up to multiples of the array."""

    @property
    def share(self) -> float:
        """Share of the multipliers that do useful work in the layer, 0..1: operations ÷ occupied operations."""
        return self.flops / self.occupied_flops


def array_layers(graph: Graph, array: int) -> tuple[ArrayLayer, ...]:
    """Return the forward products of a graph with its weights, in order: not attention's products of tokens."""
    layers = []

    def add(name: str, rows: int, columns: int, flops: int) -> None:
        occupied = _rounded_up(rows, array) * _rounded_up(columns, array)
        layers.append(ArrayLayer(name, rows, columns, flops, flops // (rows * columns) * occupied))

    for node, cost in zip(graph.nodes, layer_costs(graph), strict=True):
        match node.op:
            case Convolution() as op:
                entering = graph.shapes[node.inputs[0]]
                assert isinstance(entering, Map)
                rows, columns = op.kernel**2 * entering.channels // op.groups, op.out_channels // op.groups
                add(node.name, rows, columns, cost.tensor_forward_flops)
            case Dense() as op:
                rows = channels_of(graph.shapes[node.inputs[0]])
                add(node.name, rows, op.out_features, cost.tensor_forward_flops)
            case (Attention() | GatedMlp()) as op:
                features = channels_of(graph.shapes[node.inputs[0]])
                length = graph.shapes[node.inputs[0]].elements // features
                for name, (columns, rows) in op.tensors(features).items():
                    add(f"{node.name}.{name}", rows, columns, 2 * length * rows * columns)
            case _:
                pass
    return tuple(layers)


def array_share(layers: tuple[ArrayLayer, ...]) -> float:
    """Operations ÷ occupied operations of all layers, 0..1. There must be a layer."""
    return sum(each.flops for each in layers) / sum(each.occupied_flops for each in layers)


def most_wasteful(layers: tuple[ArrayLayer, ...]) -> list[ArrayLayer]:
    wasteful = [each for each in layers if each.occupied_flops > each.flops]
    return sorted(wasteful, key=lambda each: each.flops - each.occupied_flops)[:LISTED]


def _rounded_up(number: int, array: int) -> int:
    return -(-number // array) * array
