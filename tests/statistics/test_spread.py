"""Intervals of the spread of repeated runs have their stated coverage."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest

from aiperf.statistics import estimate
from aiperf.statistics.estimate import more_runs, of_one_run, of_repeats, quantile, spread


def test_worked_numbers_of_the_docstrings_are_right() -> None:
    found = doctest.testmod(estimate)

    assert found.attempted and not found.failed


@pytest.mark.parametrize(("runs", "variation"), [(3, 0.01), (5, 0.05), (10, 0.2)])
def test_interval_of_the_variation_has_95_percent_coverage(runs: int, variation: float) -> None:
    chance = np.random.default_rng(1)
    drawn = chance.normal(100.0, 100.0 * variation, size=(1500, runs)).tolist()

    found = [spread(values) for values in drawn]

    between = [each.variation_interval for each in found if each is not None and each.variation_interval is not None]
    assert len(between) > 1400
    covered = sum(low <= variation <= high for low, high in between) / len(between)
    assert 0.93 <= covered <= 0.97


def test_suggested_runs_reach_the_precision_in_95_of_100_cases() -> None:
    chance = np.random.default_rng(2)
    precision, holds = 0.01, 0
    for _ in range(1500):
        first = chance.normal(100.0, 1.5, size=4)
        found = spread(first.tolist())
        assert found is not None
        more = chance.normal(100.0, 1.5, size=more_runs(found, precision))
        holds += abs(float(np.concatenate([first, more]).mean()) - 100.0) <= precision * found.mean

    assert holds / 1500 >= 0.94


def test_two_runs_suggest_more_than_five_of_the_same_spread() -> None:
    two, five = spread([99.0, 101.0]), spread([98.6, 99.3, 100.0, 100.7, 101.4])
    assert two is not None and five is not None

    assert more_runs(two, 0.01) > 10 * more_runs(five, 0.01) > 0


def test_one_run_reveals_nothing_of_another() -> None:
    assert of_repeats([5.0]) is None and spread([5.0]) is None


def test_interval_of_one_run_survives_the_estimate() -> None:
    found = of_one_run(100.0, (97.0, 103.0), 8)

    assert found is not None and found.basis == "evenness"
    assert found.interval == pytest.approx((97.0, 103.0))
    assert found.standard_error == pytest.approx(3.0 / quantile(8))


def test_runs_without_spread_need_no_further_runs() -> None:
    found = spread([7.0, 7.0, 7.0])

    assert found is not None and found.variation == 0.0 and found.variation_interval is None
    assert more_runs(found, 0.001) == 0


def test_a_precision_that_is_just_met_asks_for_no_run_beyond() -> None:
    found = spread([99.0, 100.0, 101.0])
    assert found is not None
    just = quantile(2) * found.variation / math.sqrt(3)

    assert more_runs(found, just) == 0 and more_runs(found, just * 0.999) == 1
