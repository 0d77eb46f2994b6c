"""Interleaved pairs of measurements and the interval of their median ratio."""

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.statistics.interleaved import interleaved, interval_of_median

SPEEDS = st.lists(st.floats(0.1, 10), min_size=6, max_size=60)


def test_pairs_alternate_after_one_unmeasured_call_of_each() -> None:
    calls: list[str] = []

    def a() -> float:
        calls.append("a")
        return 1.0

    def b() -> float:
        calls.append("b")
        return 2.0

    ratio = interleaved(a, b, pairs=6)

    assert "".join(calls) == "ab" + "abba" * 3
    assert (ratio.median, ratio.low, ratio.high) == (0.5, 0.5, 0.5)
    assert len(ratio.a) == len(ratio.b) == 6


def test_a_callable_that_returns_nothing_is_timed_by_the_clock() -> None:
    ticks = itertools.count()  # each reading is one second after the last

    ratio = interleaved(lambda: None, lambda: 4.0, pairs=6, clock=lambda: float(next(ticks)))

    assert ratio.a == (1.0,) * 6
    assert ratio.median == 0.25


@given(SPEEDS)
def test_the_interval_contains_the_median_within_the_sample(values: list[float]) -> None:
    low, high = interval_of_median(values)

    assert min(values) <= low <= statistics.median(values) <= high <= max(values)


@pytest.mark.parametrize(
    ("n", "k"),
    # from a table of the binomial distribution at ½: the greatest k with P(X < k) ≤ 2.5 %
    [(6, 1), (8, 1), (9, 2), (10, 2), (11, 2), (12, 3), (15, 4), (20, 6), (25, 8), (50, 18)],
)
def test_the_interval_is_the_narrowest_with_95_percent(n: int, k: int) -> None:
    low, high = interval_of_median(range(1, n + 1))

    assert (low, high) == (k, n + 1 - k)


def test_too_few_pairs_for_an_interval_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 6 pairs, but found 5"):
        interleaved(lambda: 1.0, lambda: 1.0, pairs=5)


def test_a_measurement_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above zero"):
        interleaved(lambda: 0.0, lambda: 1.0, pairs=6)
