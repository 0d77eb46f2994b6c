"""Pairing of nodes for exchanges, and blame for failed exchanges."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from aiperf.measure.all_reduce import MOST_FOR_ALL_PAIRS, SAMPLED_ROUNDS, SIZES, rounds, stop_if_slow
from aiperf.preflight.node_faults import blamed


@given(st.integers(0, 200), st.integers(0, 10))
def test_rounds_have_disjoint_pairs_and_a_partner_for_each(nodes: int, seed: int) -> None:
    found = rounds(nodes, seed)

    for each in found:
        busy = [node for pair in each for node in pair]
        assert len(busy) == len(set(busy))
        assert all(0 <= node < nodes for node in busy)
    pairs = [frozenset(pair) for each in found for pair in each]
    assert len(pairs) == len(set(pairs))
    assert all(len(pair) == 2 for pair in pairs)
    if nodes > 1:
        assert {node for pair in pairs for node in pair} == set(range(nodes))
    if nodes <= MOST_FOR_ALL_PAIRS:
        assert set(pairs) == {frozenset(pair) for pair in combinations(range(nodes), 2)}
    else:
        assert len(found) == SAMPLED_ROUNDS
        assert all(len(each) == nodes // 2 for each in found)


@given(st.integers(3, 12), st.data())
def test_only_the_broken_node_is_blamed(nodes: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, nodes - 1))
    pairs = list(combinations(range(nodes), 2))

    causes = blamed(nodes, [pair for pair in pairs if bad not in pair], [pair for pair in pairs if bad in pair])

    assert set(causes) == {bad}
    assert causes[bad] == [node for node in range(nodes) if node != bad]


def test_where_nobody_can_tell_both_are_named() -> None:
    assert blamed(2, [], [(0, 1)]) == {0: [1], 1: [0]}
    assert blamed(3, [(0, 1), (0, 2)], [(1, 2)]) == {1: [2], 2: [1]}


def test_a_slow_link_stops_after_the_first_exchange(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 1)  # type: ignore[attr-defined]  # not in torch's stub
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        for bits_per_second, limit, is_slow in ((4e6, 90.0, True), (4e6, 900.0, False), (1e8, 90.0, False)):
            seconds = SIZES[0] * 8 / bits_per_second
            if is_slow:
                with pytest.raises(
                    RuntimeError, match=r"took 2\.1 s, so all exchanges would take 415 s, but may take 90 s"
                ):
                    stop_if_slow(SIZES[0], seconds, limit, torch.device("cpu"))
            else:
                stop_if_slow(SIZES[0], seconds, limit, torch.device("cpu"))
    finally:
        dist.destroy_process_group()
