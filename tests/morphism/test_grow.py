"""Comparison of grown graphs, which are not checked rebuilt, with the full check and a full count."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from morphism import (
    IMAGE_STARTS,
    BatchNormalisation,
    Budget,
    Deepen,
    Graph,
    IllegalMorph,
    Lineage,
    Morph,
    Node,
    Relu,
    Skip,
    Widen,
    apply,
    cost,
    grow,
    layer_cost,
    legal,
    rebuild,
    sites,
    start,
)
from morphism.axes import axes
from morphism.cost import layer_costs
from morphism.grow import GRAPHS_REMEMBERED, OF_STRUCTURE
from morphism.legal import changes
from tests.builders.graph import NO_LIMIT, graphs, morphs
from tests.morphism.test_graph import closed, conv

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
SMALL = start("digits_small")


def assert_equals_full_check(grown: Graph) -> None:
    checked = Graph(grown.nodes)  # raises IllegalGraph where any law is broken

    assert [(node.name, node.op, node.inputs) for node in grown.nodes] == [
        (node.name, node.op, node.inputs) for node in checked.nodes
    ]
    assert grown == checked and hash(grown) == hash(checked)
    assert grown.shapes == checked.shapes
    assert grown.fingerprint == checked.fingerprint
    assert (grown.indices, grown.readers, grown.reads_image, grown.heads) == (
        checked.indices,
        checked.readers,
        checked.reads_image,
        checked.heads,
    )
    assert axes(grown) == axes(checked)
    assert layer_costs(grown) == tuple(
        layer_cost(node.op, tuple(checked.shapes[entering] for entering in node.inputs), shape, reads_image=reads_image)
        for node, shape, reads_image in zip(checked.nodes, checked.shapes, checked.reads_image, strict=True)
    )
    for derived in (*OF_STRUCTURE, sites.kernel_sites, sites.shape_numbers, sites.reaches, sites.unreached):
        assert derived(grown) == derived(checked), derived
    assert cost(grown) == cost(checked)
    assert list(changes(grown)) == list(changes(checked))
    assert legal(grown, NO_LIMIT) == legal(checked, NO_LIMIT)


@given(graphs() | st.sampled_from([start(name) for name in IMAGE_STARTS if name != "resnet50_v1_5"]), st.data())
@settings(unhurried, max_examples=150)
def test_a_grown_graph_equals_its_full_check(graph: Graph, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 8))):
        morph = data.draw(morphs(graph))
        if morph is None:
            break
        # some of what is derived from a graph is handed on to what grows from it: with and without it, all is the same
        if data.draw(st.booleans()):
            legal(graph, NO_LIMIT)
        graph = grow(graph, morph)

        assert_equals_full_check(graph)


IMAGE_IS_ACTIVATED = closed(
    Node("first", Relu(), (0,)),
    conv("a", 1, channels=3, kernel=3, padding=1),
    Node("norm", BatchNormalisation(), (2,)),
    Node("relu", Relu(), (3,)),
    conv("b", 4),
)


@pytest.mark.parametrize("morph", [Deepen("first"), Deepen("relu"), Skip("first", "norm")])
@pytest.mark.parametrize("is_counted", [True, False])
def test_a_layer_before_all_trained_layers_is_counted_correctly(morph: Morph, is_counted: bool) -> None:
    """A branch from the image needs no gradient of its input. Behind an inserted first convolution it does."""
    graph = Graph(IMAGE_IS_ACTIVATED.nodes)
    if is_counted:
        cost(graph)

    assert_equals_full_check(grow(graph, morph))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_resnet_50_grown_by_thirty_morphs_equals_a_full_check(seed: int) -> None:
    graph, random = start("resnet50_v1"), Random(seed)
    budget = Budget.of(graph, factor=32.0)
    for _ in range(30):
        by_kind: dict[type[Morph], list[Morph]] = {}
        for morph in legal(graph, budget):
            by_kind.setdefault(type(morph), []).append(morph)
        graph = grow(graph, random.choice(by_kind[random.choice(list(by_kind))]))

        assert_equals_full_check(graph)


@given(graphs(), st.data())
@settings(unhurried)
def test_grown_graphs_do_not_depend_on_weights(graph: Graph, data: st.DataObject) -> None:
    morph = data.draw(morphs(graph).filter(lambda found: found is not None))
    assert morph is not None
    seeded = replace(morph, seed=data.draw(st.integers(0, 2**63 - 1))) if isinstance(morph, Widen) else morph

    assert apply(graph, seeded)[0] == grow(graph, morph)
    assert rebuild(Lineage(graph, (seeded,))) == grow(graph, morph)


def test_a_lineage_is_rebuilt_the_same_when_it_was_forgotten() -> None:
    lineage = Lineage(SMALL, (Deepen("stem.relu"), Deepen("deepen1.relu"), Widen("deepen2.conv", 40, seed=3)))
    first = rebuild(lineage)
    assert rebuild(lineage) is first

    for channels in range(GRAPHS_REMEMBERED):
        rebuild(Lineage(SMALL, (Widen("stem.conv", 33 + channels),)))

    rebuilt = rebuild(lineage)
    assert rebuilt == first and rebuilt is not first


@given(graphs(), st.data())
@settings(unhurried, max_examples=40)
def test_a_rebuilt_lineage_does_not_depend_on_the_cache(graph: Graph, data: st.DataObject) -> None:
    grown, lineage, steps = graph, Lineage(graph), [graph]
    for _ in range(data.draw(st.integers(1, 5))):
        morph = data.draw(morphs(grown))
        if morph is None:
            break
        grown, lineage = grow(grown, morph), lineage.then(morph)
        steps.append(grown)
    # remembered beforehand: some of the way, and ways from further on
    for begin in range(len(steps)):
        end = data.draw(st.integers(begin, len(steps) - 1))
        assert rebuild(Lineage(steps[begin], lineage.morphs[begin:end])) == steps[end]

    assert rebuild(lineage) == grown


def test_cached_morphs_depend_on_the_morphs_before_them() -> None:
    first, second = Deepen("stem.relu"), Widen("stem.conv", 40)
    rebuild(Lineage(SMALL, (second,)))

    assert rebuild(Lineage(SMALL, (first, second))) == grow(grow(SMALL, first), second)


def test_the_cache_of_one_lineage_admits_no_illegal_one() -> None:
    rebuild(Lineage(SMALL, (Deepen("stem.relu"),)))

    for _ in range(2):
        with pytest.raises(IllegalMorph, match="no node has this name"):
            rebuild(Lineage(SMALL, (Deepen("stem.relu"), Deepen("deepen2.relu"))))
        with pytest.raises(IllegalMorph, match="no node has this name"):
            rebuild(Lineage(start("resnet18"), (Deepen("stem.relu"), Deepen("deepen2.relu"))))
