"""Floating-point operations, parameters and training memory of a graph, counted from the formulas of the AIPerf paper.

Weights (Table I): multiply-accumulate 2; add, subtract, multiply, compare 1; divide and square root 4; exponential 8.
Counted as executed: true kernels and strides, and no input gradient for a layer that reads nothing but the image
(the exception that Table III needs and Table II omits). An operation that this file does not know cannot be counted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, assert_never

from morphism.graph import Graph, known, once_per_graph, remember
from morphism.ops import (
    Add,
    AveragePooling,
    BatchNormalisation,
    Concat,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Input,
    MaxPooling,
    Op,
    Relu,
    Softmax,
)
from morphism.shapes import Map, Shape, Vector

KINDS = (
    "convolution",
    "dense",
    "batch_normalisation",
    "relu",
    "add",
    "concat",
    "max_pooling",
    "average_pooling",
    "dropout",
    "softmax",
)
"""The rows of a count, in the order of Table III; global average pooling belongs to average_pooling."""

# FP32 each: the master weight, its gradient, its momentum
_BYTES_PER_PARAMETER = 12
_BYTES_PER_INDEX = 8  # torch remembers which element of a window was the largest as int64


_READ_BACKWARD: dict[type[Op], tuple[bool, bool]] = {
    Input: (False, False),
    Convolution: (True, False),
    BatchNormalisation: (True, False),
    Relu: (False, True),
    Add: (False, False),
    Concat: (False, False),
    MaxPooling: (True, False),
    AveragePooling: (True, False),
    GlobalAveragePooling: (True, False),
    Dense: (True, False),
    Dropout: (False, False),
    Softmax: (False, True),
}
"""Whether the backward pass of each operation reads what entered it, and what left it. One that stands not here is an error
when it is counted, and no operation that holds nothing."""


class LayerCost(NamedTuple):
    """What one layer, or all layers of one kind, cost per image."""

    forward_flops: int = 0
    """In training."""
    forward_validation_flops: int = 0
    backward_flops: int = 0
    """Gradients of input and weights, and the update of the weights (charged per image, as Table II does)."""
    tensor_forward_flops: int = 0
    """Convolutions and matrix products only: the count that utilisation is measured by."""
    tensor_backward_flops: int = 0
    parameters: int = 0


def total(layers: "list[LayerCost]") -> LayerCost:
    """The sum, field by field."""
    return LayerCost(*map(sum, zip(*layers, strict=True))) if layers else LayerCost()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a graph costs: operations per image, parameters, and what training holds in memory."""

    forward_flops: int
    """Per image, in training."""
    forward_validation_flops: int
    """Per image, in evaluation: without dropout."""
    backward_flops: int
    """Per image: gradients and update."""
    tensor_forward_flops: int
    """Per image, convolutions and matrix products only; equals torch's flop counter."""
    tensor_backward_flops: int
    """Per image; equals torch's flop counter where groups = 1 (it multiplies the weight gradient by the groups)."""
    parameters: int
    """Learnt values; running statistics are not among them."""
    held_elements: int
    """Elements per image that the forward pass keeps for the backward pass."""
    index_elements: int
    """Indices per image that max-pooling keeps for the backward pass."""
    largest_elements: int
    """Elements per image of the largest single layer output."""
    by_kind: Mapping[str, LayerCost]
    """One entry for each of KINDS, zeros where the graph has no such layer."""

    @property
    def training_flops(self) -> int:
        """Forward and backward per training image."""
        return self.forward_flops + self.backward_flops

    def epoch_flops(self, training_images: int, validation_images: int) -> int:
        """One pass over the training set with its updates, then one forward pass over the validation set."""
        return training_images * self.training_flops + validation_images * self.forward_validation_flops

    def training_memory(self, batch: int, bytes_per_element: int = 4) -> int:
        """Bytes that a training step needs at the least, on one accelerator.

        FP32 weights, gradients and momentum; with activations below four bytes also a copy of the weights in that
        precision; what the forward pass holds; and, as the backward pass goes, the gradients on both sides of the
        largest layer. Workspaces, fragmentation and the framework itself come on top: leave them room.
        """
        return training_memory(
            batch, bytes_per_element, self.parameters, self.held_elements, self.index_elements, self.largest_elements
        )


def training_memory(
    batch: int, bytes_per_element: int, parameters: int, held: int, indices: int = 0, largest: int = 0
) -> int:
    """Bytes, as `Cost.training_memory` explains: linear in the last four, so that it serves for differences too."""
    copies = bytes_per_element if bytes_per_element < 4 else 0
    activations = bytes_per_element * (held + 2 * largest) + _BYTES_PER_INDEX * indices
    return (_BYTES_PER_PARAMETER + copies) * parameters + batch * activations


def layer_cost(op: Op, inputs: tuple[Shape, ...], output: Shape, *, reads_image: bool = False) -> LayerCost:
    """What one layer costs per image, in Table I's and II's formulas.

    `reads_image`: nothing that could learn stands before it, so that no gradient towards its input is computed.
    A 7×7 convolution of stride 2 with 64 channels on 3×224×224: 236,027,904 forward, 236,046,720 backward.
    """
    match op:
        case BatchNormalisation():
            assert isinstance(output, Map)
            # multiply-accumulate 2, add 1, divide 4 an element; 36 a layer backward, however large
            forward = 7 * output.elements
            return LayerCost(forward, forward, 36, 0, 0, 2 * output.channels)
        case Relu() | Add():
            elements = output.elements
            return LayerCost(elements, elements)
        case Convolution():
            entering = inputs[0]
            assert isinstance(entering, Map) and isinstance(output, Map)
            weights = op.kernel * op.kernel * (entering.channels // op.groups) * output.channels
            forward = 2 * weights * output.height * output.width
            gradients = forward if reads_image else 2 * forward
            return LayerCost(forward, forward, gradients + 2 * weights, forward, gradients, weights)
        case MaxPooling():
            forward = op.kernel * op.kernel * output.elements
            return LayerCost(forward, forward)
        case AveragePooling():
            forward = (op.kernel * op.kernel + 4) * output.elements
            return LayerCost(forward, forward)
        case GlobalAveragePooling():
            forward = inputs[0].elements + 4 * output.elements
            return LayerCost(forward, forward)
        case Dense():
            entering = inputs[0]
            assert isinstance(entering, Vector)
            forward = 2 * entering.features * op.out_features
            gradients = forward if reads_image else 2 * forward
            parameters = (entering.features + 1) * op.out_features
            return LayerCost(forward, forward, gradients + 2 * parameters, forward, gradients, parameters)
        case Dropout():
            return LayerCost(2 * output.elements, 0)
        case Softmax():
            # exponential 8, add 1, divide 4
            forward = 13 * output.elements
            return LayerCost(forward, forward)
        case Concat() | Input():
            return LayerCost()
        case _:
            assert_never(op)


def kind(op: Op) -> str | None:
    """Which of KINDS an operation is counted under; None for the image, which does no work."""
    match op:
        case Convolution():
            return "convolution"
        case Dense():
            return "dense"
        case BatchNormalisation():
            return "batch_normalisation"
        case Relu():
            return "relu"
        case Add():
            return "add"
        case Concat():
            return "concat"
        case MaxPooling():
            return "max_pooling"
        case AveragePooling() | GlobalAveragePooling():
            return "average_pooling"
        case Dropout():
            return "dropout"
        case Softmax():
            return "softmax"
        case Input():
            return None
        case _:
            assert_never(op)


@once_per_graph
def held(graph: Graph) -> tuple[bool, ...]:
    """Whether the backward pass reads each node's output, be it the node's own or that of a node that reads it."""
    is_held = [_READ_BACKWARD[type(node.op)][1] for node in graph.nodes]
    for node in graph.nodes:
        if _READ_BACKWARD[type(node.op)][0]:
            is_held[node.inputs[0]] = True
    return tuple(is_held)


@once_per_graph
def layer_costs(graph: Graph) -> tuple[LayerCost, ...]:
    """What each node costs, in the order of the nodes."""
    shapes = graph.shapes
    return tuple(
        [
            layer_cost(node.op, tuple([shapes[index] for index in node.inputs]), output, reads_image=reads_image)
            for node, output, reads_image in zip(graph.nodes, shapes, graph.reads_image, strict=True)
        ]
    )


def hand_on_layer_costs(graph: Graph, grown: Graph, changed: Iterable[int], *, at: int = 0, added: int = 0) -> None:
    """Gives a grown graph what its layers cost, where that of the graph it grew from is known: only what changed is counted.

    `changed`: the nodes of `grown` whose operation, or a shape that enters or leaves it, is another. `at`, `added`: so many
    nodes were put in there, of which the first alone reads what stood before them, through a layer without parameters.
    """
    layers = known(graph, layer_costs)
    # where nothing learnt before, what was added does, and layers behind it pass gradients on that they did not
    if layers is None or (added and graph.reads_image[at - 1]):
        return
    costs = [*layers[:at], *(LayerCost(),) * added, *layers[at:]]
    for index in changed:
        node = grown.nodes[index]
        if not added:
            reads_image = graph.reads_image[index]
        else:
            reads_image = index == at and graph.reads_image[node.inputs[0]]
        entering = tuple([grown.shapes[entry] for entry in node.inputs])
        costs[index] = layer_cost(node.op, entering, grown.shapes[index], reads_image=reads_image)
    remember(grown, layer_costs, tuple(costs))


@once_per_graph
def cost(graph: Graph) -> Cost:
    """What the graph costs; counted once and remembered."""
    layers: dict[type[Op], list[LayerCost]] = {}
    kinds: dict[type[Op], str | None] = {}
    held_elements = index_elements = largest_elements = 0
    for node, output, layer, is_held in zip(graph.nodes, graph.shapes, layer_costs(graph), held(graph), strict=True):
        op = type(node.op)
        if op in layers:
            layers[op].append(layer)
        else:
            layers[op], kinds[op] = [layer], kind(node.op)
        elements = output.elements
        if is_held:
            held_elements += elements
        if elements > largest_elements:
            largest_elements = elements
        if op is MaxPooling:
            index_elements += elements
        elif op is Dropout:
            held_elements += elements  # its mask
    by_kind = dict.fromkeys(KINDS, LayerCost())
    for op, costs in layers.items():
        if (name := kinds[op]) is not None:
            by_kind[name] = total([by_kind[name], *costs])
    return Cost(
        *total(list(by_kind.values())),
        held_elements=held_elements,
        index_elements=index_elements,
        largest_elements=largest_elements,
        by_kind=MappingProxyType(by_kind),
    )
