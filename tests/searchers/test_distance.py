"""Laws of the description of architectures, of distance and of the kernel on it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morphism import Budget, Convolution, Deepen, Graph, Kernel, Map, Morph, Skip, Widen, apply, legal, start
from searchers.distance import KINDS_OF_GROWTH, NodeFeatures, Outline, similarity, squared_distances
from tests.builders.history import SMALL

PLACES = NodeFeatures.of(SMALL)


@st.composite
def lineages(draw: st.DrawFn, at_most: int = 8) -> tuple[Graph, tuple[Morph, ...]]:
    graph, morphs = SMALL, []
    for _ in range(draw(st.integers(0, at_most))):
        possible = legal(graph, Budget.of(SMALL))
        if not possible:
            break
        morphs.append(draw(st.sampled_from(possible)))
        graph, _ = apply(graph, morphs[-1])
    return graph, tuple(morphs)


def convolutions(graph: Graph) -> list[int]:
    """Count convolutions of 3×3 or larger, and smaller ones, for each height of maps."""
    heights = list(dict.fromkeys(shape.height for shape in SMALL.shapes if isinstance(shape, Map)))
    counts = [0] * len(heights)
    for node, shape in zip(graph.nodes, graph.shapes, strict=True):
        if isinstance(node.op, Convolution) and isinstance(shape, Map):
            counts[heights.index(shape.height)] += 1
    return counts


@settings(max_examples=25, deadline=None)
@given(lineages())
def test_depth_and_skips_of_each_stage_equal_the_graphs(
    lineage: tuple[Graph, tuple[Morph, ...]],
) -> None:
    graph, morphs = lineage
    stages = len(PLACES.convolutions)

    outline = PLACES.grown(PLACES.untouched, morphs)

    added = [now - then for now, then in zip(convolutions(graph), convolutions(SMALL), strict=True)]
    depth, skip = outline.growth[:stages], outline.growth[3 * stages :]
    assert [d + s for d, s in zip(depth, skip, strict=True)] == added
    # what was added has the names that the outline knows
    heads = {node.name.partition(".")[0] for node in graph.nodes}
    assert set(outline.places) == heads - PLACES.taken


@settings(max_examples=25, deadline=None)
@given(lineages(), st.data())
def test_an_outline_grows_the_same_in_one_step_or_in_several(
    lineage: tuple[Graph, tuple[Morph, ...]], data: st.DataObject
) -> None:
    _, morphs = lineage
    cut = data.draw(st.integers(0, len(morphs)))

    assert PLACES.grown(PLACES.untouched, morphs) == PLACES.grown(
        PLACES.grown(PLACES.untouched, morphs[:cut]), morphs[cut:]
    )


def test_descriptors_are_log2_with_the_start_at_the_origin() -> None:
    widen = next(morph for morph in legal(SMALL, Budget.of(SMALL, 100)) if isinstance(morph, Widen))
    doubled = Widen(widen.convolution, 2 * PLACES.channels[widen.convolution])
    stage = PLACES.stages[widen.convolution]
    relu = next(morph.after for morph in legal(SMALL, Budget.of(SMALL, 100)) if isinstance(morph, Deepen))
    count = PLACES.convolutions[PLACES.stages[relu]]

    start_row, wide, deep = PLACES.descriptors(
        [PLACES.grown(PLACES.untouched, morphs) for morphs in ((), (doubled,), (Deepen(relu),))]
    )

    assert not start_row.any()
    assert wide.sum() == pytest.approx(1 / PLACES.convolutions[stage])
    assert deep.sum() == pytest.approx(np.log2(1 + 1 / count))


def test_growth_is_equal_within_a_stage_but_not_across_stages() -> None:
    relus = [morph.after for morph in legal(SMALL, Budget.of(SMALL, 100)) if isinstance(morph, Deepen)]
    by_stage: dict[int, list[str]] = {}
    for relu in relus:
        by_stage.setdefault(PLACES.stages[relu], []).append(relu)
    (one, other, *_), (elsewhere, *_) = [names for names in by_stage.values() if len(names) > 1][:2]
    rows = PLACES.descriptors([PLACES.grown(PLACES.untouched, (Deepen(name),)) for name in (one, other, elsewhere)])

    squares = squared_distances(rows, rows)

    assert squares[0, 1] == 0
    assert squares[0, 2] > 0


def test_two_steps_of_growth_equal_one_step_of_the_same_size() -> None:
    widen = next(morph for morph in legal(SMALL, Budget.of(SMALL, 100)) if isinstance(morph, Widen))
    kernel = next(morph for morph in legal(SMALL, Budget.of(SMALL, 100)) if isinstance(morph, Kernel))
    twice: tuple[Morph, ...] = (Widen(widen.convolution, 48), Kernel(kernel.convolution, 5))
    more: tuple[Morph, ...] = (Widen(widen.convolution, 64), Kernel(kernel.convolution, 7))

    steps, at_once = PLACES.descriptors(
        [PLACES.grown(PLACES.untouched, (*twice, *more)), PLACES.grown(PLACES.untouched, more)]
    )

    assert steps == pytest.approx(at_once)


def test_growth_of_added_layers_counts_for_the_same_stage() -> None:
    relu = next(morph.after for morph in legal(SMALL, Budget.of(SMALL, 100)) if isinstance(morph, Deepen))

    outline = PLACES.grown(PLACES.untouched, (Deepen(relu), Deepen("deepen1.relu"), Kernel("deepen2.conv", 5)))

    assert dict(outline.places) == {"deepen1": relu, "deepen2": relu}
    with pytest.raises(KeyError):
        PLACES.grown(PLACES.untouched, (Deepen("deepen1.relu"),))


def test_names_of_a_start_that_was_grown_before_are_kept() -> None:
    skip = next(morph for morph in legal(SMALL, Budget.of(SMALL, 100)) if isinstance(morph, Skip))
    graph, _ = apply(SMALL, skip)
    places = NodeFeatures.of(graph)
    second = next(morph for morph in legal(graph, Budget.of(graph, 100)) if isinstance(morph, Skip))

    grown, _ = apply(graph, second)

    (name,) = places.grown(places.untouched, (second,)).places
    assert f"{name}.conv" in grown.indices and f"{name}.conv" not in graph.indices


@settings(max_examples=20, deadline=None)
@given(st.lists(lineages(), min_size=1, max_size=12), st.floats(0.05, 5), st.floats(0, 2))
def test_the_kernel_is_positive_semidefinite_duplicates_included(
    found: list[tuple[Graph, tuple[Morph, ...]]], length: float, slope: float
) -> None:
    outlines: list[Outline] = [PLACES.grown(PLACES.untouched, morphs) for _, morphs in found]
    rows = PLACES.descriptors([*outlines, *outlines])

    covariance = similarity(squared_distances(rows, rows), length) + slope * (rows @ rows.T)

    assert rows.shape == (2 * len(found), KINDS_OF_GROWTH * len(PLACES.convolutions))
    assert np.linalg.eigvalsh((covariance + covariance.T) / 2).min() > -1e-9 * len(rows)


@given(st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=3, max_size=3))
def test_distance_is_a_metric(points: list[list[float]]) -> None:
    a, b, c = np.array(points)[:, None, :]

    def distance(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.sqrt(squared_distances(x, y)[0, 0]))

    assert distance(a, b) == pytest.approx(distance(b, a), abs=1e-6)
    assert distance(a, a) == pytest.approx(0, abs=1e-6)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-6


def test_stages_of_resnet50_are_its_five_resolutions() -> None:
    places = NodeFeatures.of(start("resnet50_v1"))

    # image, stem, and four stages. The strided 1×1 convolutions of v1 belong to the smaller maps
    assert len(places.convolutions) == 6
    assert sum(places.convolutions[1:]) == 53
