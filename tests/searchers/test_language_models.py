"""Search and tuning of language models."""

from math import log2
from random import Random

import numpy as np
import pytest

from morphism import Budget, Deepen, Heads, Lineage, Morph, Widen, cost, grow, legal, rebuild, start
from searchers.distance import KINDS_OF_GROWTH, NodeFeatures
from searchers.history import Finished, Searcher
from searchers.propose import propose
from searchers.searcher_config import EvolutionConf, MorphismConf, RandomConf, TpeConf
from tests.builders.history import Run, space

SEARCHERS: list[Searcher] = [MorphismConf().build(), EvolutionConf().build(), RandomConf().build()]
TPE = TpeConf().build()
START = start("llama_tiny", image=16)
PLACES = NodeFeatures.of(START)


@pytest.mark.parametrize(
    ("blocks", "stages"), [(1, [0]), (2, [0, 1]), (4, [0, 0, 1, 2]), (12, [0] * 4 + [1] * 4 + [2] * 4)]
)
def test_block_i_of_n_is_of_stage_3i_over_n(blocks: int, stages: list[int]) -> None:
    graph = start("llama_162m", image=4, classes=5) if blocks == 12 else START
    if blocks < 4:
        kept = graph.nodes[: 2 + 6 * blocks]
        head = [node.moved(tuple(entry - 6 * (4 - blocks) for entry in node.inputs)) for node in graph.nodes[-3:]]
        graph = type(graph)((*kept, *head))

    places = NodeFeatures.of(graph)

    assert [places.stages[f"block{number + 1}.attention"] for number in range(blocks)] == stages
    assert [places.stages[f"block{number + 1}.add2"] for number in range(blocks)] == stages
    assert places.stages["embedding"] == 0
    assert list(places.convolutions) == [max(1, stages.count(stage)) for stage in range(3)]


def test_growth_of_language_models_is_recorded_by_kind_and_stage() -> None:
    morphs: tuple[Morph, ...] = (
        Deepen("block3.add2"),
        Widen("block3.mlp", 688),
        Heads("block4.attention", 8),
        Heads("deepen1.attention", 6),
        Widen("deepen1.mlp", 516),
        Deepen("deepen1.add2"),
    )
    rebuild(Lineage(START, morphs))

    outline = PLACES.grown(PLACES.untouched, morphs)
    depth, width, kernel, heads = np.reshape(outline.growth, (KINDS_OF_GROWTH, 3)).tolist()

    assert (depth, width) == ([0, 2, 0], [0, 1 + log2(516 / 344), 0])
    assert (kernel, heads) == ([0, 0, 0], [0, log2(6 / 4), 1])
    assert dict(outline.places) == {"deepen1": "block3.add2", "deepen2": "block3.add2"}


def test_growth_of_language_models_never_falls() -> None:
    for seed in range(20):
        random, graph, outline = Random(seed), START, PLACES.untouched
        for _ in range(8):
            morph = random.choice(legal(graph, Budget.of(START, factor=16)))
            graph, grown = grow(graph, morph), PLACES.grown(outline, (morph,))
            assert all(now >= then for now, then in zip(grown.growth, outline.growth, strict=True))
            assert sum(grown.growth) > sum(outline.growth)
            outline = grown
        assert set(outline.places) == {node.name.partition(".")[0] for node in graph.nodes} - PLACES.taken


@pytest.mark.parametrize("searcher", SEARCHERS, ids=lambda searcher: searcher.name)
def test_searchers_grow_language_models_and_tune_the_batch_alone(searcher: Searcher) -> None:
    at = space(START, tuning_from_round=2)
    run = Run(searcher, TPE, at, seed=3)
    for number in range(24):
        run.ask(1 + number // 4)
        if number >= 3:
            run.observe(Finished(number - 3, 0.3 + (number * 7 % 5) / 20))

    proposals = [proposal for _, _, proposal in run.requests]
    assert {type(morph) for proposal in proposals for morph in proposal.morphs} <= {Deepen, Widen, Heads}
    assert all(proposal.kernel_size is None for proposal in proposals)
    assert proposals[-1].tuned_by == "tpe" and len({proposal.batch_size for proposal in proposals}) > 2
    assert all(at.budget.allows(cost(run.history.graph(number))) for number in range(24))
    assert len({run.history.graph(number).fingerprint for number in range(24)}) == 24
    for seen, request, proposal in run.requests[::5]:
        assert propose(searcher, run.replayed(seen), request, TPE) == proposal
