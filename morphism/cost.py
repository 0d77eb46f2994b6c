"""Floating-point operations, parameters and training memory of a network, by the formulas of Ren et al. 2021 (AIPerf).

Unit: operations (FLOP) per image. Weights (Table I of the paper): multiply-accumulate 2, add, subtract, multiply, compare 1,
divide, square root 4, exponential 8. Layers: Table II, see `layer_cost` and docs/benchmark.md. The real kernels and strides
are counted. A layer that reads only the image has no input gradient, as in Table III, an exception that Table II omits.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple, assert_never

from morphism import ops
from morphism.graph import Graph, known, once_per_graph, once_per_node, remember
from morphism.shapes import Map, Shape, TokenNumbers, Tokens, Vector, channels_of

_BYTES_PER_VALUE = 4  # FP32: a master weight, its gradient, each of its moments, and logits in the loss
_BYTES_PER_INDEX = 8  # torch stores the position of the maximum of a window as int64


_LAYERS: dict[type[ops.Op], tuple[str | None, bool, bool]] = {
    ops.Input: (None, False, False),
    ops.Convolution: ("convolution", True, False),
    ops.Dense: ("dense", True, False),
    ops.BatchNormalisation: ("batch_normalisation", True, False),
    ops.Relu: ("relu", False, True),
    ops.Add: ("add", False, False),
    ops.Concat: ("concat", False, False),
    ops.MaxPooling: ("max_pooling", True, False),
    ops.AveragePooling: ("average_pooling", True, False),
    ops.GlobalAveragePooling: ("average_pooling", True, False),
    ops.Dropout: ("dropout", False, False),
    ops.Softmax: ("softmax", False, True),
    ops.TokenInput: (None, False, False),
    ops.Embedding: ("embedding", False, False),
    ops.RmsNorm: ("rms_norm", True, False),
    ops.Attention: ("attention", True, False),
    ops.GatedMlp: ("gated_mlp", True, False),
}
"""Kind of each operation, in the order of Table III, and the tensors that its backward pass reads: (input, output).

The input has no kind, because it has no operations. A missing operation raises KeyError.
"""
_KEEPS_INDICES = {ops.MaxPooling, ops.TokenInput}
KINDS = tuple(dict.fromkeys([kind for kind, _, _ in _LAYERS.values() if kind is not None]))
"""Rows of a count, in the order of `_LAYERS`. Global average pooling belongs to average_pooling."""


class LayerCost(NamedTuple):
    """Cost of one layer, or of all layers of one kind. Operations are per image."""

    forward_flops: int = 0
    """Operations of the forward pass in training, per image."""
    forward_validation_flops: int = 0
    """Operations of the forward pass in evaluation, per image."""
    backward_flops: int = 0
    """Operations of the gradients of input and weights, and of the update, which Table II counts per image."""
    tensor_forward_flops: int = 0
    """Convolutions and matrix products only, for model FLOPS utilization (MFU)."""
    tensor_backward_flops: int = 0
    """Backward operations of convolutions and matrix products only."""
    parameters: int = 0
    """Trained values."""


def total(layers: "list[LayerCost]") -> LayerCost:
    """Return the sum of the costs of layers, field by field. All fields are 0 for no layers."""
    return LayerCost(*map(sum, zip(*layers, strict=True))) if layers else LayerCost()


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a network: operations per image, parameters, and elements in memory during training."""

    forward_flops: int
    """Operations of the forward pass per image, in training."""
    forward_validation_flops: int
    """Operations of the forward pass per image, in evaluation: without dropout."""
    backward_flops: int
    """Operations of the backward pass per image: gradients and update."""
    tensor_forward_flops: int
    """Per image, convolutions and matrix products only. Equals the result of torch.utils.flop_counter."""
    tensor_backward_flops: int
    """Per image. Equals torch.utils.flop_counter for groups = 1. Torch multiplies the weight gradient by the groups."""
    parameters: int
    """Trained values, without running statistics."""
    held_elements: int
    """Elements per image that the forward pass stores for the backward pass."""
    index_elements: int
    """Indices per image that max-pooling stores for the backward pass."""
    largest_elements: int
    """Elements per image of the largest single layer output."""
    by_kind: Mapping[str, LayerCost]
    """Cost of each of KINDS, zero if the graph has no such layer."""
    region_flops: int = 0
    """Per region that a detector evaluates, in addition to the operations of its image. 0 for graphs."""
    moments: int = 1
    """Values that the optimiser keeps for a parameter: the momentum of SGD, or the two moments of AdamW for language models."""
    fp32_elements: int = 0
    """Elements per image that are FP32 in every precision: the logits of a language model, their softmax and their gradient."""

    @property
    def training_flops(self) -> int:
        """Floating-point operations to train on one image once, forward and backward."""
        return self.forward_flops + self.backward_flops

    def epoch_flops(self, training_images: int, validation_images: int) -> int:
        """Return the floating-point operations of one epoch.

        An epoch trains on `training_images` images (forward and backward) and evaluates `validation_images` images (forward).
        """
        return training_images * self.training_flops + validation_images * self.forward_validation_flops

    def training_memory(self, batch: int, bytes_per_element: int = 4) -> int:
        """Return the least memory of a training step on one accelerator, in bytes. `batch`: images on this accelerator.

        The sum of: FP32 weights, gradients and moments of the optimiser, a copy of the weights if `bytes_per_element` (bytes of
        an activation) is below 4, the elements and max-pooling indices that the forward pass stores, and the input and output
        gradients of the largest layer. The logits of a language model are FP32 values of their own. Workspaces, fragmentation
        and the memory of the framework are not included.
        """
        of_layers = training_memory(
            batch,
            bytes_per_element,
            self.parameters,
            self.held_elements,
            self.index_elements,
            self.largest_elements,
            moments=self.moments,
        )
        return of_layers + batch * _BYTES_PER_VALUE * self.fp32_elements


def training_memory(
    batch: int,
    bytes_per_element: int,
    parameters: int,
    held: int,
    indices: int = 0,
    largest: int = 0,
    *,
    moments: int = 1,
) -> int:
    """Return the least memory of a training step on one accelerator, in bytes.

    `batch`: images on this accelerator. `bytes_per_element`: bytes of an activation. `held`: elements per image that the
    forward pass stores for the backward pass. `indices`: indices per image that max-pooling stores. `largest`: elements per
    image of the largest layer output. `moments`: of the optimiser. The result is linear in the four arguments before it: for
    changes of these it is the change of the memory.
    """
    copies = bytes_per_element if bytes_per_element < 4 else 0
    activations = bytes_per_element * (held + 2 * largest) + _BYTES_PER_INDEX * indices
    return ((2 + moments) * _BYTES_PER_VALUE + copies) * parameters + batch * activations


def layer_cost(op: ops.Op, inputs: tuple[Shape, ...], output: Shape, *, reads_image: bool = False) -> LayerCost:
    """Return the floating-point operations of one layer per image, and its parameters, by Table II of Ren et al. 2021.

    `inputs`: shapes of its inputs for one image, in order. `output`: shape of its output. `reads_image`: True if no layer
    before it has parameters. There is then no input gradient: backward of a convolution or dense layer is forward +
    2 · parameters.

    With K kernel, C channels, H×W the output map, N elements of the output and F features. [D]: not in the paper, defined in
    docs/benchmark.md.

    | layer                   | forward                      | backward                     |
    | convolution             | 2·K²·(C_in/groups)·C_out·H·W | 2 · forward + 2 · parameters |
    | dense                   | 2·F_in·F_out                 | 2 · forward + 2 · parameters |
    | batch normalisation     | 7·N                          | 36                           |
    | ReLU, add               | N                            | 0                            |
    | max-pooling             | K²·N                         | 0                            |
    | average pooling [D]     | (K² + 4)·N                   | 0                            |
    | global average pooling  | elements of the input + 4·N  | 0                            |
    | dropout in training [D] | 2·N                          | 0                            |
    | softmax                 | 13·N                         | 0                            |
    | concat [D], image       | 0                            | 0                            |

    Operations on a sequence of T tokens with D features, all [D]. H heads of d features, F hidden units, V words, P = T·(T+1)/2
    pairs of tokens. A causal kernel skips the other pairs, so that only P are counted. The tensor counts have T² in place of
    P, as torch's counter and the published formulas of MFU.

    | layer                   | forward                                       | backward                           |
    | embedding               | 0                                             | T·D                                |
    | RMS norm                | 4·T·D + 9·T                                   | 0                                  |
    | attention: products     | 8·T·D·H·d + 4·P·H·d                           | 2 · forward + 2 · parameters       |
    | attention: others       | 14·P·H (softmax 13, scale 1) + 6·T·H·d rotary | 0                                  |
    | gated MLP: products     | 6·T·D·F                                       | 2 · forward + 2 · parameters       |
    | gated MLP: others       | 15·T·F (silu 14, product 1)                   | 0                                  |
    | add                     | T·D                                           | 0                                  |
    | dense, softmax          | 2·T·D·V, 13·T·V                               | 2 · forward + 2 · parameters, 0    |

    Example: a 7×7 convolution that reads the image, of stride 2 from 3×224×224 to 64×112×112, has 236,027,904 forward and
    236,046,720 backward.
    """
    match op:
        case ops.BatchNormalisation():
            assert isinstance(output, Map)
            # per element: multiply-accumulate 2, add 1, divide 4; backward 36 per layer, independent of its size (Table II)
            forward = 7 * output.elements
            return LayerCost(forward, forward, 36, 0, 0, 2 * output.channels)
        case ops.Relu() | ops.Add():
            elements = output.elements
            return LayerCost(elements, elements)
        case ops.Convolution():
            entering = inputs[0]
            assert isinstance(entering, Map) and isinstance(output, Map)
            weights = op.kernel * op.kernel * (entering.channels // op.groups) * output.channels
            forward = 2 * weights * output.height * output.width
            gradients = forward if reads_image else 2 * forward
            return LayerCost(forward, forward, gradients + 2 * weights, forward, gradients, weights)
        case ops.MaxPooling():
            forward = op.kernel * op.kernel * output.elements
            return LayerCost(forward, forward)
        case ops.AveragePooling():
            forward = (op.kernel * op.kernel + 4) * output.elements
            return LayerCost(forward, forward)
        case ops.GlobalAveragePooling():
            forward = inputs[0].elements + 4 * output.elements
            return LayerCost(forward, forward)
        case ops.Dense():
            entering = inputs[0]
            has_bias = isinstance(entering, Vector)
            forward = 2 * channels_of(entering) * output.elements
            gradients = forward if reads_image else 2 * forward
            parameters = (channels_of(entering) + has_bias) * op.out_features
            return LayerCost(forward, forward, gradients + 2 * parameters, forward, gradients, parameters)
        case ops.Dropout():
            return LayerCost(2 * output.elements, 0)
        case ops.Softmax():
            # per element: exponential 8, add 1, divide 4
            forward = 13 * output.elements
            return LayerCost(forward, forward)
        case ops.Concat() | ops.Input() | ops.TokenInput():
            return LayerCost()
        case ops.Embedding():
            assert isinstance(inputs[0], TokenNumbers)
            return LayerCost(0, 0, output.elements, 0, 0, inputs[0].vocabulary * op.features)
        case ops.RmsNorm():
            assert isinstance(output, Tokens)
            forward = 4 * output.elements + 9 * output.length
            return LayerCost(forward, forward, 0, 0, 0, output.features)
        case ops.Attention():
            assert isinstance(output, Tokens)
            length, width = output.length, op.width
            pairs, parameters = length * (length + 1) // 2, 4 * output.features * width
            products = 2 * length * parameters
            tensor = products + 4 * length * length * width
            counted = products + 4 * pairs * width
            # per pair and head: scale 1, softmax 13; rotary positions: 4 multiplications and 2 additions per pair of features
            forward = counted + 14 * pairs * op.heads + 6 * length * width
            return LayerCost(forward, forward, 2 * counted + 2 * parameters, tensor, 2 * tensor, parameters)
        case ops.GatedMlp():
            assert isinstance(output, Tokens)
            parameters = 3 * output.features * op.hidden
            products = 2 * output.length * parameters
            # silu: exponential 8, add 1, divide 4, multiply 1; product 1
            forward = products + 15 * output.length * op.hidden
            return LayerCost(forward, forward, 2 * products + 2 * parameters, products, 2 * products, parameters)
        case _:
            assert_never(op)


def held_within(op: ops.Op, output: Shape) -> int:
    """Return the elements that a layer stores for its backward pass in addition to outputs of nodes."""
    match op:
        case ops.Dropout():
            return output.elements  # its mask
        case ops.RmsNorm():
            assert isinstance(output, Tokens)
            return output.length
        case ops.Attention():
            assert isinstance(output, Tokens)
            # query, key, value, output and a number per row: fused kernels store no T × T matrix
            return output.length * (4 * op.width + op.heads)
        case ops.GatedMlp():
            assert isinstance(output, Tokens)
            return 4 * output.length * op.hidden  # gate, silu, up, product
        case _:
            return 0


def kind(op: ops.Op) -> str | None:
    """Return the kind of an operation as one of KINDS, such as 'convolution'. None for the image."""
    return _LAYERS[type(op)][0]


@once_per_graph
def held(graph: Graph) -> tuple[bool, ...]:
    """Return for each node, in order, True if the backward pass reads its output: memory must hold it until then."""
    is_held = [_LAYERS[type(node.op)][2] for node in graph.nodes]
    for node in graph.nodes:
        if _LAYERS[type(node.op)][1]:
            is_held[node.inputs[0]] = True
    return tuple(is_held)


@once_per_node
def layer_costs(graph: Graph, index: int) -> LayerCost:
    """Return the cost of each node (operations per image, parameters), in the order of the nodes."""
    node, shapes = graph.nodes[index], graph.shapes
    entering = tuple([shapes[entry] for entry in node.inputs])
    return layer_cost(node.op, entering, shapes[index], reads_image=graph.reads_image[index])


@once_per_node
def _stored(graph: Graph, index: int) -> tuple[int, int, int]:
    """Return the elements of the output, the elements that the layer stores besides, and the indices."""
    op, output = graph.nodes[index].op, graph.shapes[index]
    if isinstance(output, Tokens) and output == graph.shapes[-1] and isinstance(op, ops.Dense | ops.Softmax):
        return 0, 0, 0  # logits of a language model: Cost.fp32_elements
    return output.elements, held_within(op, output), output.elements * (type(op) in _KEEPS_INDICES)


@once_per_graph
def _by_kind(graph: Graph) -> dict[str, LayerCost]:
    layers: dict[str | None, list[LayerCost]] = {}
    for node, layer in zip(graph.nodes, layer_costs(graph), strict=True):
        layers.setdefault(kind(node.op), []).append(layer)
    return {name: total(layers.get(name, [])) for name in KINDS}


def hand_on_sums(graph: Graph, grown: Graph, changed: Collection[int], *, added: int = 0) -> None:
    """Store the sums of `grown` by kind of layer, from those of `graph`. Arguments as for `hand_on_nodes`, which precedes."""
    sums, layers = known(graph, _by_kind), known(grown, layer_costs)
    if sums is None or layers is None:
        return
    sums = dict(sums)
    for index in changed:
        if (name := kind(grown.nodes[index].op)) is not None:
            before = LayerCost() if added else layer_costs(graph)[index]
            sums[name] = LayerCost(*[a + b - c for a, b, c in zip(sums[name], layers[index], before, strict=True)])
    remember(grown, _by_kind, sums)


@once_per_graph
def padded_flops(graph: Graph) -> tuple[int, int]:
    """Return the counted operations per image, (forward, backward), in which a convolution multiplies zeros of its padding.

    They are part of the counts, since Table II counts each position of a kernel. Libraries may skip them.
    """
    forward = backward = 0
    for node, output, layer in zip(graph.nodes, graph.shapes, layer_costs(graph), strict=True):
        if isinstance(node.op, ops.Convolution):
            entering = graph.shapes[node.inputs[0]]
            assert isinstance(entering, Map) and isinstance(output, Map)
            every = node.op.kernel**2 * output.height * output.width
            form = node.op.kernel, node.op.stride, node.op.padding
            padded = every - _on_pixels(*form, entering.height, output.height) * _on_pixels(
                *form, entering.width, output.width
            )
            forward += layer.tensor_forward_flops * padded // every
            backward += layer.tensor_backward_flops * padded // every
    return forward, backward


@cache  # the layers of all networks of a run have few forms
def _on_pixels(kernel: int, stride: int, padding: int, before: int, after: int) -> int:
    """Number of (position, row of the kernel) on a pixel. `before`, `after`: rows of the map before and after the layer."""
    starts = [place * stride - padding for place in range(after)]
    return sum([max(0, min(start + kernel, before) - max(start, 0)) for start in starts])


@once_per_graph
def cost(graph: Graph) -> Cost:
    """Return the operations per image, parameters and stored elements per image of a graph."""
    logits = graph.shapes[-1] if isinstance(graph.shapes[-1], Tokens) else None
    by_kind, (elements, within, indices) = _by_kind(graph), zip(*_stored(graph), strict=True)
    return Cost(
        *total(list(by_kind.values())),
        held_elements=sum(compress(elements, held(graph))) + sum(within),
        index_elements=sum(indices),
        largest_elements=max(elements),
        by_kind=MappingProxyType(by_kind),
        moments=1 if logits is None else 2,
        fp32_elements=0 if logits is None else 3 * logits.elements,
    )
