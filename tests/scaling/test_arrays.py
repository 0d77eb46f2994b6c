"""Share of a matrix unit: laws over arrays and networks, and the figures of ResNet-50."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.scaling.arrays import array_layers, array_share, most_wasteful
from morphism import IMAGE_STARTS, Convolution, Dense, GlobalAveragePooling, Graph, Input, Node, Softmax, cost, start

GRAPHS = {name: start(name) for name in IMAGE_STARTS}


@given(st.sampled_from(list(IMAGE_STARTS)), st.integers(1, 600))
def test_all_tensor_operations_are_counted_once(name: str, array: int) -> None:
    layers = array_layers(GRAPHS[name], array)

    assert sum(each.flops for each in layers) == cost(GRAPHS[name]).tensor_forward_flops
    assert all(each.occupied_flops >= each.flops for each in layers)
    assert 0 < array_share(layers) <= 1


@given(st.sampled_from(list(IMAGE_STARTS)), st.integers(1, 128), st.integers(1, 8))
def test_a_multiple_of_an_array_is_never_fuller(name: str, array: int, multiple: int) -> None:
    graph = GRAPHS[name]

    assert array_share(array_layers(graph, array * multiple)) <= array_share(array_layers(graph, array))
    assert array_share(array_layers(graph, 1)) == 1.0 and most_wasteful(array_layers(graph, 1)) == []


@pytest.mark.parametrize(
    ("name", "shares"), [("resnet50_v1_5", (99.12, 79.36, 48.44)), ("resnet50_v1", (99.07, 78.39, 47.44))]
)
def test_resnet50_has_its_shares(name: str, shares: tuple[float, ...]) -> None:
    found = [100 * array_share(array_layers(GRAPHS[name], array)) for array in (64, 128, 256)]

    assert tuple(round(each, 2) for each in found) == shares
    if name == "resnet50_v1_5":
        assert round(found[1] / found[2], 2) == 1.64


def test_groups_are_products_of_their_own() -> None:
    graph = Graph(
        (
            Node("image", Input(4, 2, 2)),
            Node("grouped", Convolution(8, 3, 1, 1, groups=4), (0,)),
            Node("pool", GlobalAveragePooling(), (1,)),
            Node("dense", Dense(10), (2,)),
            Node("softmax", Softmax(), (3,)),
        )
    )

    grouped, dense = array_layers(graph, 16)

    assert (grouped.rows, grouped.columns, grouped.flops) == (9, 2, 2 * 4 * 9 * 2 * 4)
    assert grouped.occupied_flops == 2 * 4 * 16 * 16 * 4
    assert (dense.rows, dense.columns, dense.occupied_flops) == (8, 10, 2 * 16 * 16)
    assert most_wasteful((dense, grouped)) == [grouped, dense]
