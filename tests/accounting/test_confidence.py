"""The interval covers as often as it states, is around the score, and is absent with its reason if a record cannot give one."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.confidence import LEAST_SECONDS, evenness_of, rates, single_step, units_in_a_row
from aiperf.accounting.expected_rate import Work
from aiperf.accounting.intervals import Window, share_inside
from benchmarks.interval_coverage import GROWTH, KINDS, Drift, Kind, Once, coverage, drawn

INSIDE = Window(3600.0, 43_200.0)
SHORT, DRIFT = KINDS["many short trials, 1 worker"], KINDS["common drift of 5 %, 1 h, 50 workers"]


def a_run(kind: Kind, seed: int = 0) -> Work:
    return drawn(kind, np.random.default_rng(seed))[0]


def half_width(work: Work) -> float:
    """Half the interval's width as a share of the score."""
    found = evenness_of(work, INSIDE, 0.0).interval
    assert found is not None
    return 2 * found[1] / (found[0] + found[1]) - 1


@pytest.mark.parametrize("kind", [SHORT, DRIFT, KINDS["common drift of 5 %, 2 h, 4 workers"]], ids=str)
def test_the_interval_covers_as_often_as_it_states(kind: Kind) -> None:
    """Three standard deviations of 120 draws are 6 %."""
    for found in coverage(kind, runs=120, seed=1):
        assert found.shown > 0.9
        assert found.covered is not None and found.covered >= 0.89


def test_growth_of_the_networks_leaves_the_interval() -> None:
    before, after = coverage(GROWTH, runs=60, seed=1)

    assert before.half is not None and before.half > 0.08
    assert after.half is not None and after.half < 0.015
    assert after.covered is not None and after.covered >= 0.87


def grown(exponents: tuple[float, float, float], at_cosine: float = 0.0) -> Work:
    """Networks that explain the rate but for a movement as slow as the window, at equal intervals of 20 min."""
    work = a_run(replace(SHORT, workers=3, trial=20.0, growth=0.5, trial_spread=0.02))
    assert work.networks is not None
    phase = np.pi * ((work.start + work.end) / 2 - INSIDE.start) / INSIDE.seconds
    rate = np.exp(work.networks @ exponents)[work.unit] * (1 + at_cosine * np.cos(phase))
    return replace(work, flops=rate * (work.end - work.start))


def gaps_alone(at_cosine: float) -> float:
    even = grown((0.0, 0.0, 0.0), at_cosine)
    return half_width(replace(even, networks=None)) * 1.2 / 1.1


exponent = st.floats(-0.5, 0.5)


@given(st.tuples(exponent, exponent, exponent), st.sampled_from([0.0, 0.1]))
@settings(max_examples=15, deadline=None)
def test_what_networks_explain_is_not_in_the_interval(exponents: tuple[float, float, float], at_cosine: float) -> None:
    """A movement as slow as the window stays in it."""
    assert half_width(grown(exponents, at_cosine)) == pytest.approx(gaps_alone(at_cosine), rel=0.05, abs=1e-3)


def test_columns_without_a_variation_of_their_own_explain_nothing() -> None:
    work = grown((0.3, 0.0, 0.0))
    assert work.networks is not None
    same = replace(work, networks=np.tile(work.networks[:, :1], 3))
    even = replace(work, networks=np.ones_like(work.networks) + 1e-5 * work.networks)

    assert half_width(same) == pytest.approx(gaps_alone(0.0), rel=0.05, abs=1e-3)
    assert half_width(even) == pytest.approx(half_width(replace(work, networks=None)) * 1.2 / 1.1)


def test_seven_networks_are_too_few_for_an_expected_rate() -> None:
    work = a_run(SHORT)
    assert work.networks is not None

    seven, eight = (replace(work, networks=work.networks[np.arange(len(work.networks)) % n]) for n in (7, 8))

    assert half_width(seven) == half_width(replace(work, networks=None)) != half_width(eight)
    assert evenness_of(seven, INSIDE, 0.0).basis == "the 2 slowest cosine components of the rate"
    assert evenness_of(eight, INSIDE, 0.0).basis == "the 2 slowest cosine components of rate ÷ expected rate"


def test_a_window_of_few_hours_has_no_interval() -> None:
    kind = KINDS["common drift of 5 %, 1 h, in 3 h, 50 workers"]

    found = evenness_of(a_run(kind), Window(3600.0, 14_400.0), 0.0)

    assert found.interval is None
    assert found.basis.startswith("the valid window lasts 3 h 00 min. It must last 10 h 00 min")


def test_one_power_cap_step_leaves_no_interval() -> None:
    """A cap in the first or last twentieth of the window is not seen."""
    for found in coverage(replace(DRIFT, common=Once(0.8, 60.0)), runs=60, seed=3):
        assert found.shown <= 0.15


def test_a_step_is_named_with_its_time_and_size() -> None:
    still = a_run(replace(DRIFT, common=None))
    late = still.start > 20_000.0
    capped = replace(still, flops=np.where(late, still.flops * 0.8, still.flops))

    assert evenness_of(still, INSIDE, 0.0).interval is not None
    found = evenness_of(capped, INSIDE, 0.0)

    assert found.interval is None
    assert re.search(r"changed once and for good, by −2\d\.\d\d % at about 5 h [34]0 min", found.basis), found.basis


@given(st.integers(3, 63), st.floats(0.02, 0.9), st.floats(1.0, 1e18))
def test_single_step_finds_the_block_of_a_step(block: int, drop: float, level: float) -> None:
    rate = np.full(66, level)
    rate[block:] *= 1 - drop

    found = single_step(rate)

    assert found is not None and found[0] == block and found[1] == pytest.approx(-drop * level)


def test_a_stall_and_an_even_rise_are_no_single_step() -> None:
    stalls, rise = np.ones(66), np.linspace(1.0, 1.5, 66)
    stalls[[10, 11, 40, 41]] = 0.5

    assert single_step(stalls) is None and single_step(rise) is None and single_step(np.ones(66)) is None


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_the_interval_lies_around_the_score(seed: int) -> None:
    work = a_run(replace(SHORT, workers=3), seed)

    found = evenness_of(work, INSIDE, 0.0)

    score = float(np.sum(work.flops * share_inside(work.start, work.end, INSIDE))) / INSIDE.seconds
    assert (found.interval is None) == (found.freedom is None)
    if found.interval is not None:
        low, high = found.interval
        assert low == 0.0 or (low + high) / 2 == pytest.approx(score, rel=1e-9)


@given(st.integers(0, 1000), st.floats(1e-6, 1e18), st.integers(1, 70))
@settings(max_examples=20, deadline=None)
def test_rates_of_blocks_sum_to_the_work(seed: int, unit: float, blocks: int) -> None:
    chance = np.random.default_rng(seed)
    start = chance.uniform(0, 100, 300)
    length = np.where(chance.random(300) < 0.1, 0.0, chance.exponential(5.0, 300))
    work = Work(np.zeros(300, np.int64), np.arange(300), start, start + length, unit * chance.random(300))
    inside = Window(20.0, 90.0)

    found = rates(work, inside, blocks)

    whole = float(np.sum(work.flops * share_inside(work.start, work.end, inside)))
    assert float(found.sum()) * inside.seconds / blocks == pytest.approx(whole, rel=1e-9)
    edges = np.linspace(20.0, 90.0, blocks + 1)
    for block in (0, blocks - 1):
        part = share_inside(work.start, work.end, Window(edges[block], edges[block + 1]))
        assert found[block] * inside.seconds / blocks == pytest.approx(float(np.sum(work.flops * part)), rel=1e-6)


@pytest.mark.parametrize("length", [2.0, 7.5])
def test_trials_without_a_gap_are_as_many_in_a_row_as_fit(length: float) -> None:
    count = int(400 / length)
    starts = np.arange(count, dtype=np.float64) * length
    alike = np.zeros(count, dtype=np.int64)
    work = Work(alike, np.arange(count), starts, starts + length, np.ones(count))

    assert units_in_a_row(work, Window(20.0, 200.0)) == pytest.approx(180 / length)


def test_a_trial_that_moved_to_another_worker_is_two_stretches() -> None:
    one = Work(np.array([0, 1]), np.array([0, 0]), np.array([20.0, 110.0]), np.array([110.0, 200.0]), np.ones(2))

    assert units_in_a_row(one, Window(20.0, 200.0)) == pytest.approx(2.0)


def test_few_long_trials_have_no_interval() -> None:
    found = evenness_of(a_run(KINDS["few long trials, 2 workers"]), INSIDE, 0.0)

    assert found.interval is None and found.basis.endswith("trials in a row, and 8 are needed")


def test_a_run_whose_driver_was_down_has_no_interval() -> None:
    found = evenness_of(a_run(SHORT), INSIDE, down_seconds=12.0)

    assert found.interval is None and "the driver was down" in found.basis


def test_a_run_without_work_has_no_interval() -> None:
    work = a_run(SHORT)

    assert evenness_of(replace(work, flops=work.flops * 0), INSIDE, 0.0).interval is None
    assert evenness_of(work, Window(20.0, 20.0), 0.0).interval is None
    assert INSIDE.seconds >= LEAST_SECONDS


def test_a_drift_is_as_wide_and_as_slow_as_configured() -> None:
    moments = np.arange(0.0, 60_000.0, 0.5)
    speed = Drift(0.05, 60.0).speed(moments, np.random.default_rng(0)) - 1

    assert float(speed.std()) == pytest.approx(0.05, rel=0.1)
    assert float(np.corrcoef(speed[:-120], speed[120:])[0, 1]) == pytest.approx(np.exp(-1), abs=0.1)
