"""Runs of one machine differ significantly in at most about 5 % of the cases, for any number of repeats."""

from __future__ import annotations

import math
import random

import pytest

from aiperf.statistics.difference import LONG, ScoredRun, change, over_runs, prior_of, ties
from aiperf.statistics.estimate import quantile

PAIRS = 1000
BATCHES = 20


def drawn(chance: random.Random, spread: float, evenness: float) -> ScoredRun:
    """A run of one machine: its seed's own score, seen through the noise of its batches."""
    true = 1e12 * math.exp(chance.gauss(0, spread))
    batches = [true * (1 + chance.gauss(0, evenness * math.sqrt(BATCHES))) for _ in range(BATCHES)]
    score = math.fsum(batches) / BATCHES
    error = math.sqrt(math.fsum((each - score) ** 2 for each in batches) / (BATCHES - 1) / BATCHES)
    half = quantile(BATCHES - 1) * error
    return ScoredRun(score, (score - half, score + half), BATCHES - 1, 39_600.0)


def called_different(runs: int, spread: float, evenness: float, *, of_median: bool) -> float:
    """Share of pairs of sides, both of one machine, that are called different."""
    chance = random.Random(f"{runs} {spread} {evenness} {of_median}")
    found = 0
    for _ in range(PAIRS):
        first, second = (
            over_runs([drawn(chance, spread, evenness) for _ in range(runs)], of_median=of_median) for _ in range(2)
        )
        assert first is not None and second is not None
        if of_median:
            found += ties([(first.value, first), (second.value, second)])[0].worst_place == 1
            found += ties([(first.value, first), (second.value, second)])[1].worst_place == 1
        else:
            apart = change(first.value, second.value, first, second)
            found += apart is not None and bool(apart.is_real)
    return found / PAIRS


@pytest.mark.parametrize("of_median", [False, True], ids=["compare", "rank"])
@pytest.mark.parametrize("runs", [1, 2, 3, 5])
@pytest.mark.parametrize("evenness", [0.0005, 0.01], ids=["even", "uneven"])
def test_one_machine_with_2_percent_between_seeds(runs: int, evenness: float, of_median: bool) -> None:
    rate = called_different(runs, 0.02, evenness, of_median=of_median)

    assert rate <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / PAIRS)


@pytest.mark.parametrize("runs", [3, 5])
def test_three_runs_or_more_need_no_assumption(runs: int) -> None:
    assert called_different(runs, 0.10, 0.001, of_median=False) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / PAIRS)


def test_single_runs_find_a_machine_a_tenth_slower() -> None:
    chance = random.Random(7)
    found = 0
    for _ in range(200):
        one, other = drawn(chance, 0.01, 0.001), drawn(chance, 0.01, 0.001)
        low, high = other.interval or (0.0, 0.0)
        slower = ScoredRun(0.9 * other.score, (0.9 * low, 0.9 * high), other.freedom, other.window_seconds)
        apart = change(one.score, slower.score, over_runs([one]), over_runs([slower]))
        found += apart is not None and bool(apart.is_real)
    assert found >= 180


def test_a_single_run_adds_the_prior_to_its_own_interval() -> None:
    found = over_runs([ScoredRun(100.0, (99.0, 101.0), 19, 39_600.0)])

    assert found is not None and found.basis == "prior"
    own = 1.0 / quantile(19) / 100
    assert found.standard_error == pytest.approx(100 * math.hypot(LONG.variation, own))


def test_a_single_run_without_an_interval_supports_no_claim() -> None:
    assert over_runs([ScoredRun(100.0, None, None, 39_600.0)]) is None
    assert over_runs([ScoredRun(100.0, None, None, 39_600.0)] * 2) is not None


def test_two_runs_far_apart_are_as_uncertain_as_they_show() -> None:
    near, far = (
        over_runs([ScoredRun(100.0, None, None, 39_600.0), ScoredRun(other, None, None, 39_600.0)])
        for other in (101.0, 150.0)
    )

    assert near is not None and far is not None
    assert far.standard_error / far.value > 5 * near.standard_error / near.value
    assert near.interval[0] > 90 and near.interval[1] < 110  # of their own spread alone: 94 to 107


def test_short_runs_are_assumed_to_spread_more() -> None:
    assert prior_of(160.0).variation > prior_of(3600.0).variation == prior_of(82_800.0).variation
