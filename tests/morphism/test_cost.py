"""Operations, parameters and memory, beyond the paper's tables."""

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings

from morphism import (
    KINDS,
    Add,
    Attention,
    AveragePooling,
    BatchNormalisation,
    Concat,
    Convolution,
    Dense,
    Dropout,
    Embedding,
    GatedMlp,
    GlobalAveragePooling,
    Graph,
    Input,
    LayerCost,
    Map,
    MaxPooling,
    Node,
    Op,
    Relu,
    RmsNorm,
    Shape,
    Softmax,
    TokenInput,
    TokenNumbers,
    Tokens,
    Vector,
    cost,
    layer_cost,
    start,
)
from morphism.cost import layer_costs, padded_flops
from morphism.traffic import gradient_sums, layer_traffic
from tests.builders.graph import graphs
from tests.builders.reference_network import tensor_shapes

MAPS, POOLED = Map(4, 6, 5), Map(4, 3, 2)  # 120 and 24 elements
NUMBERS, TOKENS = TokenNumbers(5, 11), Tokens(5, 6)  # 15 pairs of a token and itself or an earlier one

BY_HAND: list[tuple[Op, tuple[Shape, ...], Shape, int, int, int]] = [
    # operation, what enters, what leaves, forward, backward, parameters
    (Convolution(8, 3, padding=1), (MAPS,), Map(8, 6, 5), 2 * 9 * 4 * 8 * 30, 4 * 9 * 4 * 8 * 30 + 2 * 288, 288),
    (Convolution(8, 3, padding=1, groups=2), (MAPS,), Map(8, 6, 5), 2 * 9 * 2 * 8 * 30, 4 * 9 * 2 * 8 * 30 + 288, 144),
    (Dense(10), (Vector(6),), Vector(10), 120, 240 + 2 * 70, 70),
    (BatchNormalisation(), (MAPS,), MAPS, 840, 36, 8),
    (Relu(), (MAPS,), MAPS, 120, 0, 0),
    (Add(), (MAPS, MAPS), MAPS, 120, 0, 0),
    (Concat(), (MAPS, MAPS), Map(8, 6, 5), 0, 0, 0),
    (MaxPooling(2, 2), (MAPS,), POOLED, 4 * 24, 0, 0),
    (AveragePooling(2, 2), (MAPS,), POOLED, (4 + 4) * 24, 0, 0),
    (GlobalAveragePooling(), (MAPS,), Vector(4), 120 + 16, 0, 0),
    (Dropout(0.5), (MAPS,), MAPS, 240, 0, 0),
    (Softmax(), (Vector(10),), Vector(10), 130, 0, 0),
    (Input(4, 6, 5), (), MAPS, 0, 0, 0),
    (TokenInput(11, 5), (), NUMBERS, 0, 0, 0),
    (Embedding(6), (NUMBERS,), TOKENS, 0, 30, 66),
    (RmsNorm(), (TOKENS,), TOKENS, 4 * 30 + 9 * 5, 0, 6),
    # 3 heads of 4 features: products of 1440 · 2 and 4 · 15 · 12, softmax and scale of 14 · 45, 6 · 60 of the rotary positions
    (Attention(3, 4), (TOKENS,), TOKENS, 2880 + 720 + 630 + 360, 2 * 3600 + 2 * 288, 288),
    (GatedMlp(7), (TOKENS,), TOKENS, 6 * 210 + 15 * 35, 2 * 1260 + 2 * 126, 126),
    (Add(), (TOKENS, TOKENS), TOKENS, 30, 0, 0),
    (Dense(11), (TOKENS,), Tokens(5, 11), 660, 1320 + 2 * 66, 66),
    (Softmax(), (Tokens(5, 11),), Tokens(5, 11), 13 * 55, 0, 0),
]


@pytest.mark.parametrize(("op", "entering", "leaving", "forward", "backward", "parameters"), BY_HAND)
def test_layer_costs_follow_tables_i_and_ii(
    op: Op, entering: tuple[Shape, ...], leaving: Shape, forward: int, backward: int, parameters: int
) -> None:
    layer = layer_cost(op, entering, leaving)

    assert (layer.forward_flops, layer.backward_flops, layer.parameters) == (forward, backward, parameters)
    assert layer.forward_validation_flops == (0 if isinstance(op, Dropout) else forward)
    if not isinstance(op, Convolution | Dense | Attention | GatedMlp):
        assert (layer.tensor_forward_flops, layer.tensor_backward_flops) == (0, 0)


def test_the_table_above_has_every_operation() -> None:
    assert {type(row[0]) for row in BY_HAND} == set(Op.__args__)


@dataclass(frozen=True)
class Unheard:
    """Operation that the counter does not know."""


def test_an_unknown_operation_is_an_error_and_never_zero() -> None:
    with pytest.raises(AssertionError, match="Unheard"):
        layer_cost(Unheard(), (MAPS,), MAPS)  # type: ignore[arg-type]


def test_dropout_works_in_training_and_not_in_evaluation() -> None:
    layer = layer_cost(Dropout(0.5), (MAPS,), MAPS)

    assert (layer.forward_flops, layer.forward_validation_flops) == (240, 0)


@given(graphs())
@settings(deadline=None)
def test_a_graph_costs_the_sum_of_its_layers_by_kind_and_by_node(graph: Graph) -> None:
    counted = cost(graph)
    in_all = [sum(column) for column in zip(*layer_costs(graph), strict=True)]

    assert tuple(counted.by_kind) == KINDS
    assert in_all == [sum(column) for column in zip(*counted.by_kind.values(), strict=True)]
    assert in_all == [getattr(counted, field) for field in LayerCost._fields]


@given(graphs())
@settings(deadline=None)
def test_parameters_are_the_elements_of_the_tensors_that_learn(graph: Graph) -> None:
    learnt = {name: shape for name, shape in tensor_shapes(graph).items() if "running" not in name}

    assert cost(graph).parameters == sum(math.prod(shape) for shape in learnt.values())


def test_no_input_gradient_without_weights_before_a_layer() -> None:
    # both convolutions read the image, one of them through a pooling. The third reads a layer with weights
    graph = Graph(
        (
            Node("image", Input(3, 8, 8)),
            Node("pool", MaxPooling(3, 1, 1), (0,)),
            Node("near", Convolution(3, 3, padding=1), (1,)),
            Node("direct", Convolution(3, 3, padding=1), (0,)),
            Node("sum", Add(), (2, 3)),
            Node("inner", Convolution(3, 3, padding=1), (4,)),
            Node("head.pool", GlobalAveragePooling(), (5,)),
            Node("head.dense", Dense(2), (6,)),
            Node("head.softmax", Softmax(), (7,)),
        )
    )
    near, direct, inner = (layer_costs(graph)[graph.index(name)] for name in ("near", "direct", "inner"))

    assert near == direct
    assert near.tensor_backward_flops == near.forward_flops
    assert inner.tensor_backward_flops == 2 * inner.forward_flops


def test_tensor_count_is_convolutions_and_matrix_products() -> None:
    counted = cost(start("resnet50_v1_5"))

    # torch's own flop counter for this network (torch 2.13, batch 1): 8.178 GFLOP forward, 24.299 in all
    assert round(counted.tensor_forward_flops / 1e9, 3) == 8.178
    assert round((counted.tensor_forward_flops + counted.tensor_backward_flops) / 1e9, 3) == 24.299


def test_a_dense_layer_behind_the_image_needs_no_input_gradient() -> None:
    image = Vector(3)

    behind_image, inner = (layer_cost(Dense(2), (image,), Vector(2), reads_image=reads) for reads in (True, False))

    assert behind_image.backward_flops == behind_image.forward_flops + 2 * 8
    assert inner.backward_flops == 2 * inner.forward_flops + 2 * 8


def test_training_memory_by_hand() -> None:
    graph = Graph(
        (
            Node("image", Input(3, 8, 8)),  # 192, held: the convolution reads it
            Node("conv", Convolution(4, 3, padding=1), (0,)),  # 256, held: the normalisation reads it
            Node("norm", BatchNormalisation(), (1,)),  # not held: a ReLU needs only what leaves it
            Node("relu", Relu(), (2,)),  # 256, held
            Node("max", MaxPooling(2, 2), (3,)),  # not held, but 64 indices of 8 bytes
            Node("drop", Dropout(0.5), (4,)),  # 64 kept for the pooling, and a mask of 64
            Node("head.pool", GlobalAveragePooling(), (5,)),  # 4, held
            Node("head.dense", Dense(2), (6,)),  # a softmax needs only what leaves it
            Node("head.softmax", Softmax(), (7,)),  # 2, held
        )
    )
    held, largest, parameters = 192 + 256 + 256 + 64 + 64 + 4 + 2, 256, 108 + 8 + 10

    assert cost(graph).training_memory(16, 4) == 12 * parameters + 16 * (4 * (held + 2 * largest) + 8 * 64)
    assert cost(graph).training_memory(16, 2) == 14 * parameters + 16 * (2 * (held + 2 * largest) + 8 * 64)


@pytest.mark.parametrize(("network", "megabytes"), [("resnet50_v1", 457), ("resnet50_v1_5", 477)])
def test_bytes_of_an_eager_step_of_resnet50(network: str, megabytes: int) -> None:
    """Per image, without weights, in 16 bits (docs/training.md)."""
    graph = start(network)

    moved = sum(each.forward + each.backward for each in (*layer_traffic(graph), *gradient_sums(graph)))

    assert 2 * moved / 1e6 == pytest.approx(megabytes, abs=1)


@settings(max_examples=30)
@given(graphs())
def test_padded_operations_are_the_positions_outside_the_map(graph: Graph) -> None:
    forward = 0
    for node, leaving, layer in zip(graph.nodes, graph.shapes, layer_costs(graph), strict=True):
        if isinstance(node.op, Convolution):
            op, entering = node.op, graph.shapes[node.inputs[0]]
            assert isinstance(entering, Map) and isinstance(leaving, Map)
            inside = [
                [
                    0 <= place * op.stride - op.padding + row < before
                    for place in range(after)
                    for row in range(op.kernel)
                ]
                for before, after in ((entering.height, leaving.height), (entering.width, leaving.width))
            ]
            outside = sum(not (row and column) for row in inside[0] for column in inside[1])
            forward += layer.tensor_forward_flops * outside // (len(inside[0]) * len(inside[1]))

    assert padded_flops(graph)[0] == forward


def test_padding_is_4_percent_of_resnet50_and_17_with_kernels_of_7() -> None:
    graph = start("resnet50_v1")
    larger = [
        replace(op, kernel=7, padding=3) if isinstance(op, Convolution) and op.kernel == 3 else op
        for op in (node.op for node in graph.nodes)
    ]
    of_7 = Graph(tuple(replace(node, op=op) for node, op in zip(graph.nodes, larger, strict=True)))

    shares = [sum(padded_flops(each)) / cost(each).training_flops for each in (graph, of_7)]

    assert shares == pytest.approx([0.0413, 0.17], abs=0.005)


def test_memory_of_a_language_model_has_two_moments_and_fp32_logits() -> None:
    """16 bytes a parameter, 2 more for a copy in 16 bits, and three times the logits in FP32 in every precision."""
    counted = cost(start("llama_tiny", image=32, classes=5000))
    narrow = cost(start("llama_tiny", image=32, classes=4999))

    for size, copies in ((4, 0), (2, 2)):
        per_word = 2 * 128 * (16 + copies)  # rows of the embedding and of the head
        assert counted.training_memory(8, size) - narrow.training_memory(8, size) == per_word + 8 * 32 * 4 * 3
    assert counted.training_memory(0, 4) == 16 * counted.parameters
