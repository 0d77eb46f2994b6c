"""Orders and their correlation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.leaderboard.leaderboard import places, rank_correlation

FIGURES = st.integers(0, 6).map(float)  # few values, so that there are ties


@given(st.lists(st.none() | FIGURES))
def test_a_place_is_one_more_than_there_are_better_ones(values: list[float | None]) -> None:
    known = [value for value in values if value is not None]

    for is_less_better in (False, True):
        expected = [
            None if value is None else 1 + sum(other < value if is_less_better else other > value for other in known)
            for value in values
        ]
        assert places(values, is_less_better=is_less_better) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((1.0, 2.0, 3.0), (1.0, 3.0, 2.0), 1 / 3),
        ((1.0, 2.0, 3.0), (3.0, 2.0, 1.0), -1.0),
        ((1.0, 1.0, 2.0), (1.0, 2.0, 3.0), 2 / math.sqrt(2 * 3)),  # two pairs agree, one is tied in the first order
        ((1.0, 1.0), (1.0, 2.0), None),
        ((1.0, 2.0), (5.0, 5.0), None),
    ],
)
def test_rank_correlation_is_kendalls_tau_b(
    first: tuple[float, ...], second: tuple[float, ...], expected: float | None
) -> None:
    assert rank_correlation(first, second) == pytest.approx(expected)
