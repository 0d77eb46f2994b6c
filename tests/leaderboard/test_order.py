"""Places by a figure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiperf.leaderboard.leaderboard import places

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
