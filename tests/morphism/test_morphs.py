"""Morphs: what they preserve, what they cost, and where they are refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from morphism import (
    IMAGE_STARTS,
    JSON,
    Add,
    BatchNormalisation,
    Budget,
    Concat,
    Convolution,
    DamagedMorph,
    Deepen,
    Dense,
    GlobalAveragePooling,
    Graph,
    IllegalMorph,
    Input,
    Kernel,
    Lineage,
    Map,
    Morph,
    Node,
    RandomTensor,
    Relu,
    Skip,
    Softmax,
    Widen,
    ZeroTensor,
    apply,
    choices,
    cost,
    decode_morph,
    encode_morph,
    grow,
    legal,
    rebuild,
    start,
    unreached,
    useful_kernels,
)
from morphism.apply import copied_channels
from morphism.legal import changes, wider
from morphism.sites import LONGEST_SKIP, depths
from tests.builders.graph import NO_LIMIT, graphs, grown, morphs
from tests.builders.reference_network import carried_out, logits, tensor_shapes, trained_weights
from tests.morphism.test_graph import closed, conv

SMALL_STARTS = [start("digits_small"), start("resnet20", image=8), start("resnet18", image=16, classes=3)]
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@given(graphs(), st.data(), st.integers(0, 2**32 - 1))
@settings(unhurried, max_examples=200)
def test_every_legal_morph_preserves_the_function(graph: Graph, data: st.DataObject, seed: int) -> None:
    weights = trained_weights(graph, seed)
    image = graph.shapes[0]
    images = np.random.default_rng(seed).normal(size=(2, image.channels, image.height, image.width))  # type: ignore[union-attr]
    before = logits(graph, weights, images)

    for _ in range(data.draw(st.integers(1, 6))):
        morph = data.draw(morphs(graph, Budget.of(graph, factor=8)))
        if morph is None:
            break
        if isinstance(morph, Widen):
            morph = replace(morph, seed=data.draw(st.integers(0, 2**63 - 1)))
        child, plan = apply(graph, morph)
        weights, graph = carried_out(plan, weights, seed), child
        assert {name: weight.shape for name, weight in weights.items()} == tensor_shapes(graph)
        if isinstance(morph, Skip):
            # a branch that learns: γ is anything, and the next morph must preserve that too
            added = next(i.tensor for i in plan.instructions if isinstance(i, ZeroTensor))
            after = logits(graph, weights, images)
            np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9 * np.abs(before).max())
            weights[added] = np.full_like(weights[added], 0.5)
            before = logits(graph, weights, images)

        after = logits(graph, weights, images)
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9 * np.abs(before).max())


def assert_changes_are_true(graph: Graph) -> None:
    """Compare the changes that `legal` estimates with the cost of every candidate."""
    before = cost(graph)
    for morph, change in changes(graph):
        after = cost(apply(graph, morph)[0])
        for field in change._fields:
            assert getattr(after, field) - getattr(before, field) == getattr(change, field), (morph, field)


@given(graphs())
@settings(unhurried, max_examples=40)
def test_a_change_in_cost_is_that_of_the_graph_really_grown(graph: Graph) -> None:
    assert_changes_are_true(graph)


@given(st.data())
@settings(unhurried, max_examples=8)
def test_a_change_in_cost_is_true_on_grown_starts_too(data: st.DataObject) -> None:
    assert_changes_are_true(rebuild(data.draw(grown(data.draw(st.sampled_from(SMALL_STARTS)), most_morphs=8))))


def test_a_change_in_cost_is_true_on_resnet50() -> None:
    assert_changes_are_true(start("resnet50_v1"))


@given(graphs(), st.data())
@settings(unhurried, max_examples=40)
def test_legal_morphs_are_all_that_fit_the_budget(graph: Graph, data: st.DataObject) -> None:
    factor = data.draw(st.sampled_from((1.2, 2.0, 5.0)))
    memory = int(factor * cost(graph).training_memory(4, 2))
    budget = Budget.of(graph, factor=factor, memory_bytes=memory, batch=4, bytes_per_element=2)

    fits = {morph for morph, _ in changes(graph) if budget.allows(cost(apply(graph, morph)[0]))}

    assert set(legal(graph, budget)) == fits


def test_nothing_is_legal_beyond_the_budget() -> None:
    graph = start("digits_small")

    assert legal(graph, Budget.of(graph, factor=0.5)) == ()
    assert legal(graph, Budget(None, None, memory_bytes=1)) == ()
    assert legal(graph, Budget.of(graph, factor=1.0)) == ()


@pytest.mark.parametrize("name", IMAGE_STARTS)
def test_every_start_offers_all_four_morphs(name: str) -> None:
    graph = start(name)

    offered = legal(graph, Budget.of(graph))

    assert {type(morph) for morph in offered} == {Deepen, Widen, Skip, Kernel}
    assert len(set(offered)) == len(offered)


@given(graphs(), st.floats(1.0, 4.0), st.permutations((Deepen, Widen, Skip, Kernel)))
@settings(unhurried)
def test_choices_are_the_legal_morphs_in_any_order_of_kinds(
    graph: Graph, factor: float, order: list[type[Morph]]
) -> None:
    budget = Budget.of(graph, factor)
    fit = [morph for morph, _ in changes(graph) if budget.allows(cost(grow(graph, morph)))]

    found = choices(Graph(graph.nodes), budget)

    for kind in order:
        assert list(found.of(kind)) == [morph for morph in fit if isinstance(morph, kind)]
    assert found.kinds() == choices(graph, budget).kinds()
    assert found.kinds() == tuple(dict.fromkeys(type(morph) for morph in fit))
    assert list(legal(graph, budget)) == fit


@given(st.data())
@settings(unhurried, max_examples=20)
def test_a_lineage_rebuilds_the_graph_exactly(data: st.DataObject) -> None:
    lineage = data.draw(grown(data.draw(st.sampled_from(SMALL_STARTS)), most_morphs=12))
    graph = lineage.start
    for morph in lineage.morphs:
        graph, _ = apply(graph, decode_morph(json.loads(json.dumps(encode_morph(morph)))))

    assert rebuild(lineage) == graph


def test_a_lineage_grows_by_one_morph_at_a_time() -> None:
    first, second = Deepen("stem.relu"), Deepen("deepen1.relu")
    lineage = Lineage(start("digits_small")).then(first).then(second)

    assert lineage.morphs == (first, second)
    assert rebuild(lineage).index("deepen2.relu") == 9


def test_deepen_inserts_a_unit_before_all_readers_of_a_relu() -> None:
    graph, _ = apply(start("digits_small"), Deepen("stem.relu"))

    reads = {graph.nodes[reader].name for reader in graph.readers[graph.index("deepen1.relu")]}
    assert reads == {"stage1.block1.conv1", "stage1.block1.add"}
    assert graph.nodes[graph.index("deepen1.conv")].op == Convolution(32, 3, padding=1)


def test_a_skip_is_a_strided_1x1_convolution_that_adds_zero() -> None:
    graph, plan = apply(start("digits_small"), Skip("stage1.block2.relu", "stage2.block1.norm1"))

    assert graph.nodes[graph.index("skip1.conv")].op == Convolution(64, 1, stride=2)
    assert plan.instructions[0] == RandomTensor("skip1.conv.weight", (64, 32, 1, 1), fan_in=32, ordinal=0)
    assert set(plan.instructions[1:3]) == {ZeroTensor("skip1.norm.weight", (64,)), ZeroTensor("skip1.norm.bias", (64,))}


@given(graphs())
@settings(unhurried)
def test_a_skip_spans_a_bounded_number_of_blocks(graph: Graph) -> None:
    depth = depths(graph)

    for morph in legal(graph, NO_LIMIT):
        if isinstance(morph, Skip):
            assert 0 <= depth[graph.index(morph.target)] - depth[graph.index(morph.source)] < LONGEST_SKIP


def test_a_larger_kernel_keeps_stride_and_maps() -> None:
    graph, _ = apply(start("resnet18"), Kernel("stage2.block1.conv1", 7))

    assert graph.nodes[graph.index("stage2.block1.conv1")].op == Convolution(128, 7, stride=2, padding=3)
    assert graph.shapes == start("resnet18").shapes


def test_widen_grows_a_depthwise_convolution_and_its_input() -> None:
    graph = closed(conv("a", 0), Node("b", Convolution(4, 3, padding=1, groups=4), (1,)), conv("c", 2))

    child, _ = apply(graph, Widen("a", 6))

    assert child.nodes[2].op == Convolution(6, 3, padding=1, groups=6)


def test_widen_respects_the_largest_number_of_channels() -> None:
    graph = closed(conv("a", 0, 20_000), Node("b", Concat(), (1, 1, 1)), conv("c", 2))

    with pytest.raises(IllegalMorph, match="Legal are 20001 to 21845"):
        apply(graph, Widen("a", 21_846))
    assert not [morph for morph in legal(graph, NO_LIMIT) if isinstance(morph, Widen) and morph.convolution == "a"]


def test_a_widen_by_any_convolution_of_an_axis_is_the_same_widen() -> None:
    graph = start("resnet18")

    assert apply(graph, Widen("stage1.block1.conv2", 80)) == apply(graph, Widen("stem.conv", 80))


@given(st.integers(1, 60), st.data(), st.integers(0, 2**63 - 1))
def test_copies_are_even_and_drawn_from_the_seed(channels: int, data: st.DataObject, seed: int) -> None:
    more = data.draw(st.integers(channels, 4 * channels))

    copied = copied_channels(channels, more, seed)

    assert copied[:channels] == tuple(range(channels)) and len(copied) == more
    times = [copied.count(channel) for channel in range(channels)]
    assert max(times) - min(times) <= 1
    assert copied == copied_channels(channels, more, seed)


def test_channel_copies_equal_the_recorded_ones() -> None:
    # lineages in journals are replayed by them
    assert copied_channels(8, 14, seed=0)[8:] == (3, 7, 5, 2, 4, 1)


@pytest.mark.parametrize(("channels", "sizes"), [(1, [2]), (3, [4, 5, 6]), (16, [24, 32]), (64, [80, 96, 128])])
def test_widen_factors_are_quarter_half_double_in_eights(channels: int, sizes: list[int]) -> None:
    assert wider(channels) == sizes


def test_names_of_added_nodes_avoid_the_users_own() -> None:
    graph = closed(conv("deepen1", 0), Node("deepen2.relu", Relu(), (1,)))

    child, _ = apply(graph, Deepen("deepen2.relu"))

    assert child.nodes[3].name == "deepen3.conv"


def residual() -> Graph:
    return closed(
        conv("stem", 0, kernel=3, padding=1),
        Node("norm", BatchNormalisation(), (1,)),
        Node("relu", Relu(), (2,)),
        conv("grouped", 3, kernel=3, padding=1, groups=2),
        Node("add", Add(), (4, 3)),
        Node("last", Relu(), (5,)),
        conv("inner", 6, kernel=3, padding=1),
        conv("even", 7, kernel=2),
    )


REFUSED: list[tuple[Morph, str]] = [
    (Deepen("stem"), "cannot deepen after 'stem': it is no ReLU on maps. Legal nodes: 'relu', 'last'"),
    (Deepen("nowhere"), "no node has this name"),
    (Widen("stem", 8), "cannot widen 'stem': the convolution 'grouped' divides them into 2 groups"),
    (Widen("grouped", 8), "it has 2 groups. A depthwise convolution is widened with the convolution before it"),
    (Widen("relu", 8), "it is no convolution but Relu. Legal nodes: 'inner', 'even'"),
    (Widen("inner", 4), "cannot widen 'inner' from 4 channels to 4. Legal are 5 to 65536"),
    (Skip("last", "norm"), "a skip must lead forward"),
    (Skip("stem", "add"), "it is no activation"),
    (Skip("relu", "last"), "it is no pre-activation"),
    (Kernel("stem", 5), "not of a convolution that reads the image. Legal nodes: 'grouped', 'inner'"),
    (Kernel("even", 4), "only odd kernels from 3 on grow"),
    (Kernel("inner", 4), "cannot enlarge 'inner' from kernel 3 to 4. Legal sizes: 5, 7"),
    (Kernel("inner", 9), "Legal sizes: 5, 7"),
]


@pytest.mark.parametrize(("morph", "offence"), REFUSED)
def test_an_illegal_morph_is_refused_with_the_legal_ones(morph: Morph, offence: str) -> None:
    with pytest.raises(IllegalMorph) as raised:
        apply(residual(), morph)

    assert offence in str(raised.value)


def test_the_same_skip_is_not_added_twice() -> None:
    graph, _ = apply(residual(), Skip("relu", "add"))

    assert Skip("relu", "skip1.add") not in legal(graph, NO_LIMIT)
    with pytest.raises(IllegalMorph, match="this skip exists"):
        apply(graph, Skip("relu", "skip1.add"))


DAMAGED: list[JSON] = [
    {},
    {"kind": "explode"},
    {"kind": "deepen"},
    {"kind": "deepen", "after": 3},
    {"kind": "deepen", "after": "a", "before": "b"},
    {"kind": "widen", "convolution": "a", "channels": True, "seed": 0},
    {"kind": "widen", "convolution": "a", "channels": 8.0, "seed": 0},
    {"kind": "kernel", "convolution": "a", "kernel": float("nan")},
    {"kind": "kernel", "convolution": "a", "kernel": -3},
    {"kind": ["deepen"], "after": "a"},
    [],
]


@pytest.mark.parametrize("encoded", DAMAGED)
def test_a_damaged_morph_is_refused(encoded: dict[str, JSON]) -> None:
    with pytest.raises(DamagedMorph):
        decode_morph(encoded)


def reached(graph: Graph, index: int) -> bool:
    """Return True if every weight of a convolution meets a pixel at some position. Tries each position."""
    op, entering, leaving = graph.nodes[index].op, graph.shapes[graph.nodes[index].inputs[0]], graph.shapes[index]
    assert isinstance(op, Convolution) and isinstance(entering, Map) and isinstance(leaving, Map)
    return all(
        any(0 <= place * op.stride - op.padding + weight < edge for place in range(places))
        for edge, places in ((entering.height, leaving.height), (entering.width, leaving.width))
        for weight in range(op.kernel)
    )


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 5, 7]), st.sampled_from([1, 2]), st.integers(0, 3))
@settings(unhurried, max_examples=200)
def test_kernels_grow_while_every_weight_reaches_a_pixel(
    height: int, width: int, kernel: int, stride: int, padding: int
) -> None:
    assume(padding < kernel <= min(height, width) + 2 * padding)
    wide = Node("relu", Relu(), (1,))
    graph = Graph(
        (
            Node("image", Input(1, height, width)),
            conv("stem", 0, kernel=1),
            wide,
            conv("inner", 2, kernel=kernel, padding=padding, stride=stride),
            Node("pool", GlobalAveragePooling(), (3,)),
            Node("dense", Dense(2), (4,)),
            Node("softmax", Softmax(), (5,)),
        )
    )
    index = graph.index("inner")
    assert ("inner" in unreached(graph)) == (not reached(graph, index))

    useful = useful_kernels(graph, index)

    assert list(useful) == [size for size in range(kernel + 2, 8, 2) if reached(grow_kernel(graph, size), index)]
    if stride == 1 and padding == kernel // 2:
        assert all(size <= 2 * min(height, width) - 1 for size in useful)
    offered = {morph.kernel for morph in legal(graph, NO_LIMIT) if isinstance(morph, Kernel)}
    assert offered == (set(useful) if kernel >= 3 else set())


def grow_kernel(graph: Graph, size: int) -> Graph:
    """With a larger kernel of 'inner', as a journal from before the law may have it."""
    op = graph.nodes[3].op
    assert isinstance(op, Convolution)
    larger = Convolution(op.out_channels, size, op.stride, op.padding + (size - op.kernel) // 2, op.groups)
    return Graph((*graph.nodes[:3], Node("inner", larger, (2,)), *graph.nodes[4:]))


@given(st.data())
@settings(unhurried, max_examples=20)
def test_no_legal_morph_adds_a_weight_that_reaches_no_pixel(data: st.DataObject) -> None:
    graph = data.draw(st.sampled_from(SMALL_STARTS) | graphs())
    for _ in range(data.draw(st.integers(1, 6))):
        morph = data.draw(morphs(graph))
        if morph is None:
            break
        child = grow(graph, morph)

        assert unreached(child).items() <= unreached(graph).items()
        assert choices(child, NO_LIMIT).is_empty() == (legal(child, NO_LIMIT) == ())
        graph = child


def test_a_network_with_kernels_beyond_its_maps_is_still_rebuilt() -> None:
    graph = start("digits_small", image=8)  # its last maps have 2×2 pixels

    old = rebuild(Lineage(graph, (Kernel("stage3.block2.conv2", 7),)))

    assert unreached(old) == {"stage3.block2.conv2": 7}
    assert Kernel("stage3.block2.conv2", 5) not in legal(graph, NO_LIMIT)
