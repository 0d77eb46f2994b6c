"""Test of a difference: its error rate, and no equality from a wide interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.statistics.difference import change, verdict
from aiperf.statistics.estimate import Estimate, of_repeats

positive = st.floats(1.0, 1e15)
estimates = st.builds(
    lambda value, share, freedom: Estimate(value, share * value, freedom, "repeats"),
    positive,
    st.floats(1e-6, 0.2),
    st.integers(1, 30),
)


def test_equal_runs_differ_significantly_in_5_percent_of_cases() -> None:
    chance = np.random.default_rng(3)
    real = 0
    for _ in range(2000):
        one, other = of_repeats(chance.normal(100, 2, 5).tolist()), of_repeats(chance.normal(100, 6, 4).tolist())
        assert one is not None and other is not None
        found = change(one.value, other.value, one, other)
        assert found is not None
        real += bool(found.is_real)

    assert 0.03 <= real / 2000 <= 0.065


def test_a_true_regression_on_the_margin_is_passed_in_few_cases() -> None:
    chance = np.random.default_rng(4)
    passed = 0
    for _ in range(1000):
        one, other = of_repeats(chance.normal(100, 1, 5).tolist()), of_repeats(chance.normal(98, 1, 5).tolist())
        assert one is not None and other is not None
        found = change(one.value, other.value, one, other)
        assert found is not None
        passed += verdict(found, 0.02) == "no regression"

    assert passed / 1000 <= 0.04  # 2.5 % and the tolerance of 1000 draws


@given(estimates, estimates)
def test_interval_covers_the_change_and_agrees_with_the_verdict(one: Estimate, other: Estimate) -> None:
    found = change(one.value, other.value, one, other)

    assert found is not None and found.interval is not None and found.p_value is not None
    low, high = found.interval
    assert low <= found.relative + 1e-9 and found.relative <= high + 1e-9
    if abs(found.p_value - 0.05) > 1e-6:
        assert found.is_real == (not low <= 0.0 <= high)


@given(estimates, estimates, st.floats(0.0, 0.5))
def test_a_growing_error_is_judged_by_its_reciprocal(one: Estimate, other: Estimate, margin: float) -> None:
    grown, sunk = change(one.value, other.value, one, other), change(other.value, one.value, other, one)
    assert grown is not None and grown.interval is not None and sunk is not None and sunk.interval is not None

    if all(abs(end + margin) > 1e-9 for end in sunk.interval):
        assert verdict(grown, margin, more_is_better=False) == verdict(sunk, margin)


@pytest.mark.parametrize(
    ("second", "error", "expected"),
    [
        (99.5, 0.2, "no regression"),
        (95.0, 0.2, "regression"),
        (98.0, 0.2, "cannot be determined"),
        (100.0, 5.0, "cannot be determined"),  # no difference to be seen, and none that can be left out
        (120.0, 0.2, "no regression"),
    ],
)
def test_a_margin_is_kept_only_where_the_whole_interval_keeps_it(second: float, error: float, expected: str) -> None:
    sides = Estimate(100.0, error, 8, "repeats"), Estimate(second, error, 8, "repeats")

    found = change(100.0, second, *sides)

    assert found is not None and verdict(found, 0.02) == expected


def test_without_both_uncertainties_there_is_no_verdict() -> None:
    found = change(100.0, 50.0, None, Estimate(50.0, 0.1, 9, "repeats"))

    assert found is not None and found.is_real is None and verdict(found, 0.02) == "cannot be determined"


def test_runs_that_are_equal_to_the_last_digit_differ_by_nothing() -> None:
    same = of_repeats([5.0, 5.0])

    found = change(5.0, 5.0, same, same)

    assert found is not None and found.is_real is False and verdict(found, 0.0) == "no regression"
