"""Runs of one machine differ significantly in at most about 5 % of the cases, for any number of repeats."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.statistics.difference import (
    LONG,
    BetweenRuns,
    ListSpread,
    ScoredRun,
    change,
    over_runs,
    pooled,
    prior_of,
    ties,
)
from aiperf.statistics.estimate import quantile
from benchmarks.places import rates

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


def test_a_single_run_without_an_interval_has_the_assumed_spread_alone() -> None:
    found = over_runs([ScoredRun(100.0, None, None, 39_600.0)])

    assert found is not None and (found.basis, found.freedom) == ("prior", LONG.freedom)
    assert found.standard_error == pytest.approx(100 * LONG.variation)


@given(st.lists(st.lists(st.floats(0.5, 2.0), max_size=5), max_size=6), st.floats(1e3, 1e15))
def test_a_pooled_spread_ignores_scale_and_single_runs(systems: list[list[float]], unit: float) -> None:
    found = pooled(systems)

    scaled = pooled([*([unit * number * value for value in one] for number, one in enumerate(systems, 1)), [7.0]])
    spread = [one for one in systems if len(set(one)) > 1]
    assert (found is None) == (not spread)
    if found is not None and scaled is not None:
        assert found.freedom == sum(len(one) - 1 for one in systems if len(one) > 1)
        logs = [[math.log(value) for value in one] for one in systems if one]
        squares = sum((value - fmean(one)) ** 2 for one in logs for value in one)
        assert found.variation == pytest.approx(math.sqrt(squares / found.freedom))
        assert scaled.variation == pytest.approx(found.variation, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("freedom", [9, 10])
def test_a_pooled_spread_is_used_from_10_degrees_of_freedom_on(freedom: int) -> None:
    spread = ListSpread(LONG, BetweenRuns(0.08, freedom, is_pooled=True))
    run = ScoredRun(100.0, (99.0, 101.0), 19, 39_600.0)

    found = over_runs([run], spread=spread.used)

    assert found is not None and found.basis == ("prior" if freedom < 10 else "pooled")
    assert freedom < 10 or (round(found.standard_error, 9), found.freedom) == (8.0, 10)


@pytest.mark.parametrize("variation", [0.05, 0.1])
@pytest.mark.parametrize("runs", [1, 2, 3])
def test_equal_machines_are_apart_in_5_of_100_lists_at_most(variation: float, runs: int) -> None:
    """Without repeats the assumed spread would be wrong, so nothing is tested. With them, all is."""
    lists = 300
    alone, beside = (rates(variation, runs, repeats, lists, seed=1) for repeats in (0, 5))

    assert max(alone.apart, beside.apart) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / lists)
    assert (alone.not_tested, beside.not_tested) == (1.0 if runs < 3 else 0.0, 0.0)


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
