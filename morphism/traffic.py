"""Memory traffic of a network: the elements that each layer moves between an accelerator and its memory.

Each tensor that a kernel (a function on the accelerator) reads or writes counts once. The kernels are PyTorch's eager ones:
statistics, normalization, ReLU and addition each have their own, forward and backward. Caches are left out.
"""

from collections import Counter
from dataclasses import dataclass
from typing import assert_never

from morphism import ops
from morphism.cost import kind, layer_costs
from morphism.graph import Graph
from morphism.shapes import channels_of

GRADIENT_SUMS = "gradient_sums"
"""Kind of the sums of gradients of a value with several readers. The other kinds are those of `morphism.cost`."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Elements that one layer moves. `forward` and `backward` are per image, `weights` per batch."""

    kind: str
    forward: int = 0
    backward: int = 0
    weights: int = 0
    """Trained values: read once forward, and read and written as a gradient backward."""

    def elements(self, batch: int) -> tuple[int, int]:
        """Return (elements moved in the forward pass, elements moved in the backward pass) for a batch of `batch` images."""
        return batch * self.forward + self.weights, batch * self.backward + 2 * self.weights


def layer_traffic(graph: Graph) -> tuple[Traffic, ...]:
    """Return the elements that each node moves to and from memory. Image and softmax, which belongs to the loss, move none."""
    return tuple(_traffic(graph, index) for index in range(len(graph.nodes)))


def gradient_sums(graph: Graph) -> tuple[Traffic, ...]:
    """Return the elements that the summation of gradients moves, one entry for each node that is an input of several nodes.

    Such a node has one gradient per reading node, and they are summed one by one. The entries are in the order in which the
    nodes are read first. The image is left out.
    """
    readers = Counter(each for node in graph.nodes for each in dict.fromkeys(node.inputs))
    return tuple(
        Traffic(GRADIENT_SUMS, backward=3 * (count - 1) * graph.shapes[index].elements)
        for index, count in readers.items()
        if count > 1 and index > 0
    )


def _traffic(graph: Graph, index: int) -> Traffic:
    node = graph.nodes[index]
    out = graph.shapes[index].elements
    entering = sum(graph.shapes[each].elements for each in node.inputs)
    name = kind(node.op) or "image"
    weights = layer_costs(graph)[index].parameters
    match node.op:
        case ops.Input() | ops.TokenInput() | ops.Softmax():
            return Traffic(name)
        case ops.BatchNormalisation():
            # statistics and normalization; sums and gradient
            return Traffic(name, out + 2 * out, 2 * out + 3 * out, weights)
        case ops.Relu():
            return Traffic(name, 2 * out, 3 * out)
        case ops.Add():
            return Traffic(name, 3 * out, 0)
        case ops.Convolution():
            # input of both gradients, without the unused gradient of the image
            to_input = 0 if node.inputs[0] == 0 else out + entering
            return Traffic(name, entering + out, to_input + entering + out, weights)
        case ops.Dense():
            return Traffic(name, entering + out, 2 * (entering + out), weights)
        case ops.MaxPooling():
            # an 8-byte index per output, next to elements of 2 bytes
            return Traffic(name, entering + out + 4 * out, out + 4 * out + entering)
        case ops.AveragePooling() | ops.GlobalAveragePooling() | ops.Concat() | ops.Dropout():
            return Traffic(name, entering + out, entering + out)
        case ops.Embedding():
            # rows of the table, by token numbers of 8 bytes, next to elements of 2 bytes; their gradients are added
            return Traffic(name, 2 * out + 4 * entering, 3 * out + 4 * entering)
        case ops.RmsNorm():
            return Traffic(name, 2 * out, 3 * out, weights)
        case ops.Attention():
            length = out // channels_of(graph.shapes[index])
            inner, rows = length * node.op.width, length * node.op.heads
            # four products, rotary positions of query and key (9 each), and the fused kernel (4 forward, 8 backward)
            return Traffic(name, 4 * out + 26 * inner + rows, 14 * out + 34 * inner + rows, weights)
        case ops.GatedMlp():
            inner = out // channels_of(graph.shapes[index]) * node.op.hidden
            return Traffic(name, 3 * out + 8 * inner, 9 * out + 15 * inner, weights)
        case _:
            assert_never(node.op)
