"""Time of an exchange of gradients over layers of links."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.simulated import SimulatedConf
from cluster.topology import LinkConf, exchange_seconds, torus_seconds


def test_one_rank_exchanges_nothing() -> None:
    assert exchange_seconds(1e9, 1, SimulatedConf().links) == 0.0


@given(st.integers(2, 64), st.floats(1e3, 1e10))
def test_a_single_ring_follows_the_formula(ranks: int, size: float) -> None:
    link = LinkConf(ranks, 1e-5, 1e10)

    assert exchange_seconds(size, ranks, [link]) == pytest.approx(2 * (ranks - 1) * (1e-5 + size / ranks / 1e10))


def test_layers_exchange_only_what_the_layer_below_left_them() -> None:
    fast, slow = LinkConf(4, 0.0, 100e9), LinkConf(2, 0.0, 10e9)

    assert exchange_seconds(8e9, 8, [fast, slow]) == pytest.approx(2 * 3 / 4 * 8e9 / 100e9 + 2 * 1 / 2 * 2e9 / 10e9)


@given(st.integers(1, 64), st.floats(1e3, 1e10))
def test_a_torus_of_one_row_is_a_ring_both_ways(nodes: int, size: float) -> None:
    both_ways = LinkConf(0, 1e-6, 2 * 62e9)

    assert torus_seconds(size, [nodes, 1], LinkConf(0, 1e-6, 62e9)) == pytest.approx(
        exchange_seconds(size, nodes, [both_ways])
    )


@given(st.integers(2, 8), st.integers(2, 8), st.floats(1e6, 1e9))
def test_simulated_accelerators_exchange_on_their_network(x: int, y: int, size: float) -> None:
    link = LinkConf(0, 1e-6, 62e9)
    torus = SimulatedConf(accelerators=x * y, topology="torus", shape=[x, y], links=[link])
    switch = SimulatedConf(accelerators=x * y, topology="switch", links=[link])
    for conf in (torus, switch):
        conf.check()

    assert torus.all_reduce_seconds(size) == torus_seconds(size, [x, y], link)
    assert switch.all_reduce_seconds(size) == exchange_seconds(size, x * y, [link]) > torus.all_reduce_seconds(size)
    assert torus.accelerators_per_host == switch.accelerators_per_host == 1
    assert SimulatedConf().accelerators_per_host == 8


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"topology": "torus"}, "two or three edges with the product 8.*found \\[\\]"),
        ({"topology": "torus", "shape": [3, 3]}, "product 8.*found \\[3, 3\\]"),
        ({"topology": "torus", "shape": [8]}, "two or three edges"),
        ({"shape": [4, 2]}, "of a torus, but found \\[4, 2\\]"),
        ({"topology": "switch"}, "one kind of link, but found 3 layers"),
        ({"topology": "torus", "shape": [4, 2]}, "one kind of link, but found 3 layers"),
    ],
)
def test_networks_that_contradict_their_options_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimulatedConf(**fields).check()
