"""Orders, their correlation, and valid FLOPS."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from aiperf.leaderboard.order import places, rank_correlation
from aiperf.leaderboard.valid_flops import valid_flops

FIGURES = st.integers(0, 6).map(float)  # few values, so that there are ties
IMAGENET = {"name": "imagenet", "classes": 1000}


@given(st.lists(st.none() | FIGURES))
def test_a_place_is_one_more_than_there_are_better_ones(values: list[float | None]) -> None:
    known = [value for value in values if value is not None]

    for is_less_better in (False, True):
        expected = [
            None if value is None else 1 + sum(other < value if is_less_better else other > value for other in known)
            for value in values
        ]
        assert places(values, is_less_better=is_less_better) == expected


@given(st.lists(st.tuples(FIGURES, FIGURES), min_size=2, max_size=30))
def test_the_agreement_of_two_orders_is_that_of_scipy(pairs: list[tuple[float, float]]) -> None:
    first, second = zip(*pairs, strict=True)

    found = rank_correlation(first, second)

    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(kendalltau(first, second).statistic, abs=1e-12)


def test_valid_flops_equal_the_score_at_the_target() -> None:
    assert valid_flops(100e12, 1 - 0.763, IMAGENET) == pytest.approx(100e12)
    # (0.70 ÷ 0.763)⁵, by hand: 0.917431⁵ = 0.649931
    assert valid_flops(100e12, 0.30, IMAGENET) == pytest.approx(0.649931 * 100e12, rel=1e-5)
    assert valid_flops(100e12, 0.20, IMAGENET) == pytest.approx((0.80 / 0.763) ** 5 * 100e12)


def test_valid_flops_exist_for_imagenet_only() -> None:
    assert valid_flops(1e12, 0.1, {"name": "digits", "classes": 10}) is None
    assert valid_flops(1e12, 0.1, {"name": "imagenet", "classes": 100}) is None
    assert valid_flops(None, 0.1, IMAGENET) is None
    assert valid_flops(1e12, None, IMAGENET) is None
