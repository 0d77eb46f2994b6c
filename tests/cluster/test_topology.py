"""Time of an exchange of gradients over layers of links."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.simulated import SimulatedConf
from cluster.topology import LinkConf, exchange_seconds


def test_one_rank_exchanges_nothing() -> None:
    assert exchange_seconds(1e9, 1, SimulatedConf().links) == 0.0


@given(st.integers(2, 64), st.floats(1e3, 1e10))
def test_a_single_ring_takes_what_the_formula_says(ranks: int, size: float) -> None:
    link = LinkConf(ranks, 1e-5, 1e10)

    assert exchange_seconds(size, ranks, [link]) == pytest.approx(2 * (ranks - 1) * (1e-5 + size / ranks / 1e10))


def test_layers_exchange_only_what_the_layer_below_left_them() -> None:
    fast, slow = LinkConf(4, 0.0, 100e9), LinkConf(2, 0.0, 10e9)

    assert exchange_seconds(8e9, 8, [fast, slow]) == pytest.approx(2 * 3 / 4 * 8e9 / 100e9 + 2 * 1 / 2 * 2e9 / 10e9)
