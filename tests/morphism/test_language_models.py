"""Morphs of language models: what they preserve, what they cost, where they are refused."""

import json
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morphism import (
    Attention,
    Budget,
    Deepen,
    Embedding,
    GatedMlp,
    Graph,
    Heads,
    IllegalMorph,
    Kernel,
    Lineage,
    Morph,
    RmsNorm,
    Skip,
    Widen,
    apply,
    cost,
    decode,
    decode_morph,
    encode,
    encode_morph,
    grow,
    legal,
    rebuild,
    start,
)
from morphism.legal import changes
from tests.builders.graph import NO_LIMIT, morphs, token_graphs
from tests.builders.reference_network import carried_out, logits, tensor_shapes, trained_weights


@given(token_graphs(), st.data(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_sequences_of_morphs_preserve_the_function(graph: Graph, data: st.DataObject, seed: int) -> None:
    weights = trained_weights(graph, seed)
    vocabulary = graph.shapes[0].vocabulary  # type: ignore[union-attr]
    numbers = np.random.default_rng(seed).integers(vocabulary, size=(2, graph.shapes[0].elements)).astype(np.float64)
    before = logits(graph, weights, numbers)

    for place in range(data.draw(st.integers(1, 5))):
        morph = data.draw(morphs(graph, Budget.of(graph, factor=6)))
        if morph is None:
            break
        graph, plan = apply(graph, morph)
        weights = carried_out(plan, weights, seed + place)
        assert {name: weight.shape for name, weight in weights.items()} == tensor_shapes(graph)

        after = logits(graph, weights, numbers)
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-12 * np.abs(before).max())


@given(token_graphs(least_blocks=0), st.data())
@settings(deadline=None, max_examples=40)
def test_a_change_in_cost_is_that_of_the_grown_language_model(graph: Graph, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 3))):
        morph = data.draw(morphs(graph, Budget.of(graph, factor=6)))
        graph = graph if morph is None else grow(graph, morph)
    before = cost(graph)
    for morph, change in changes(graph):
        grown = grow(graph, morph)
        # the derived graph keeps its laws and its layer costs, and so does the file
        assert Graph(grown.nodes) == grown == decode(encode(grown))
        assert cost(Graph(grown.nodes)) == cost(grown)
        for field in change._fields:
            assert getattr(cost(grown), field) - getattr(before, field) == getattr(change, field), (morph, field)


@given(token_graphs(), st.floats(1.0, 4.0))
@settings(deadline=None, max_examples=40)
def test_legal_morphs_of_a_language_model_fit_the_budget(graph: Graph, factor: float) -> None:
    memory = int(factor * cost(graph).training_memory(4, 2))
    budget = Budget.of(graph, factor=factor, memory_bytes=memory, batch=4, bytes_per_element=2)

    fits = [morph for morph, _ in changes(graph) if budget.allows(cost(grow(graph, morph)))]

    assert list(legal(graph, budget)) == fits


def test_a_language_model_offers_three_morphs_everywhere() -> None:
    offered = legal(start("llama_tiny"), NO_LIMIT)

    assert {type(morph) for morph in offered} == {Deepen, Widen, Heads}
    assert [morph.after for morph in offered if isinstance(morph, Deepen)] == [
        "embedding",
        *(f"block{number}.add2" for number in range(1, 5)),
    ]
    assert {morph.channels for morph in offered if isinstance(morph, Widen)} == {432, 520, 688}
    assert {morph.heads for morph in offered if isinstance(morph, Heads)} == {5, 6, 8}


def test_a_deepen_repeats_the_sizes_of_the_block_before_it() -> None:
    graph = grow(grow(start("llama_tiny"), Heads("block2.attention", 6)), Widen("block2.mlp", 432))

    deeper = rebuild(Lineage(graph, (Deepen("block2.add2"), Deepen("embedding"), Deepen("deepen1.add2"))))

    sizes = {node.name: node.op for node in deeper.nodes if isinstance(node.op, Attention | GatedMlp)}
    assert [sizes[f"{name}.attention"] for name in ("deepen1", "deepen2", "deepen3")] == [
        Attention(6, 32),
        Attention(4, 32),
        Attention(6, 32),
    ]
    assert sizes["deepen1.mlp"] == sizes["deepen3.mlp"] == GatedMlp(432)
    assert [type(node.op) for node in deeper.nodes[1:3]] == [Embedding, RmsNorm]
    assert deeper.nodes[2].name == "deepen2.norm1"


@given(token_graphs(), st.data())
@settings(deadline=None, max_examples=30)
def test_lineages_of_language_models_are_read_back(graph: Graph, data: st.DataObject) -> None:
    lineage, last = Lineage(graph), graph
    for _ in range(data.draw(st.integers(1, 6))):
        morph = data.draw(morphs(last))
        assert morph is not None
        last = grow(last, decode_morph(json.loads(json.dumps(encode_morph(morph)))))
        lineage = lineage.then(morph)

    assert rebuild(lineage) == last


REFUSED: list[tuple[Morph, str]] = [
    (
        Deepen("block1.add1"),
        "it is neither the embedding nor the last sum of a block. Legal nodes: 'embedding', 'block1.add2'",
    ),
    (Deepen("nowhere"), "no node has this name"),
    (Widen("block1.attention", 8), "cannot enlarge 'block1.attention': it is no GatedMlp. Legal nodes: 'block1.mlp'"),
    (Widen("block1.mlp", 344), "cannot enlarge 'block1.mlp' from size 344 to 344. Legal are 345 to 65536"),
    (Heads("block1.mlp", 8), "it is no Attention"),
    (Heads("block1.attention", 4), "from size 4 to 4. Legal are 5 to 2048"),
    (Skip("block1.add2", "block2.add2"), "it is no activation"),
    (Kernel("block1.mlp", 5), "only odd kernels from 3 on grow"),
]


@pytest.mark.parametrize(("morph", "offence"), REFUSED)
def test_an_illegal_morph_of_a_language_model_is_refused(morph: Morph, offence: str) -> None:
    with pytest.raises(IllegalMorph) as raised:
        apply(start("llama_tiny"), morph)

    assert offence in str(raised.value)


_INNER = (".query", ".key", ".value", ".output", ".gate", ".up", ".down")


def counted_token_by_token(graph: Graph) -> tuple[int, int, int]:
    """Forward and backward operations of one sequence, and parameters, by the elementary operations of each token."""
    shapes, length = tensor_shapes(graph), graph.shapes[0].elements
    forward = products = 0
    weights: dict[str, int] = {}
    for name, of_tensor in shapes.items():
        owner = name.removesuffix(".weight")
        owner = owner.rpartition(".")[0] if owner.endswith(_INNER) else owner
        weights[owner] = weights.get(owner, 0) + int(np.prod(of_tensor))
    for token in range(length):
        for node, shape in zip(graph.nodes[1:], graph.shapes[1:], strict=True):
            features = shape.features  # type: ignore[union-attr]
            match node.op:
                case Embedding():
                    continue
                case RmsNorm():
                    forward += features * (1 + 1 + 1 + 1) + 1 + 4 + 4
                    continue
                case Attention(heads, head_features):
                    for _ in range(heads):
                        seen = token + 1
                        products += seen * (2 * head_features + 2 * head_features)
                        forward += seen * (1 + 8 + 1 + 4) + 2 * (head_features // 2) * (4 + 2)
                case GatedMlp(hidden):
                    forward += hidden * ((8 + 1 + 4 + 1) + 1)
                case _:
                    forward += features * {"Add": 1, "Dense": 0, "Softmax": 8 + 1 + 4}[type(node.op).__name__]
            products += 2 * weights.get(node.name, 0)
    parameters = sum(weights.values())
    multiplied = sum(count for name, count in weights.items() if name != "embedding" and "norm" not in name)
    return forward + products, 2 * products + 2 * multiplied + length * shapes["embedding.weight"][1], parameters


def test_300_random_growths_count_as_token_by_token() -> None:
    grown = 0
    for seed in range(40):
        random, graph = Random(seed), start("llama_tiny", image=5, classes=11)
        for _ in range(8):
            offered = legal(graph, Budget.of(start("llama_tiny", image=5, classes=11), factor=8))
            kind = random.choice(sorted({type(morph).__name__ for morph in offered}))
            graph = grow(graph, random.choice([morph for morph in offered if type(morph).__name__ == kind]))
            grown += 1
            counted = cost(graph)
            assert (counted.forward_flops, counted.backward_flops, counted.parameters) == counted_token_by_token(graph)
    assert grown >= 300
