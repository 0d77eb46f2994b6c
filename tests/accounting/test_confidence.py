"""The interval holds what it says, is around the score, and is none where chance has too little of a sample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.confidence import Work, evenness_of, trials_in_a_row
from aiperf.accounting.presence import Presence
from aiperf.accounting.windows import Window, share_inside
from benchmarks.interval_coverage import KINDS, Kind, coverage, drawn

INSIDE = Window(20.0, 200.0)
SHORT, MANY = KINDS["many short trials, 1 worker"], KINDS["64 workers, few trials each"]


def a_run(kind: Kind, seed: int = 0) -> tuple[Work, list[Presence]]:
    return drawn(kind, np.random.default_rng(seed))


@pytest.mark.parametrize("name", ["networks that grow, 8 workers", "failures and downtime, 16 workers"])
def test_the_interval_holds_the_long_run_mean_about_as_often_as_it_says_where_forty_blocks_did_not(name: str) -> None:
    found = coverage(replace(KINDS[name], workers=4), runs=150, seed=1)

    assert found.shown == 1.0
    assert found.covered is not None and found.covered >= 0.91  # three deviations of 150 draws below .95 is .897
    assert found.former < 0.88


@pytest.mark.parametrize("kind", [SHORT, replace(MANY, workers=20)], ids=["batches", "workers"])
@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_the_interval_lies_around_the_score(kind: Kind, seed: int) -> None:
    work, there = a_run(kind, seed)

    found = evenness_of(work, there, INSIDE, 0.0)

    score = float(np.sum(work.flops * share_inside(work.start, work.end, INSIDE))) / INSIDE.seconds
    assert found.interval is not None
    low, high = found.interval
    assert low == 0.0 or (low + high) / 2 == pytest.approx(score, rel=1e-9)


@pytest.mark.parametrize("length", [2.0, 7.5])
def test_trials_of_one_length_without_a_gap_are_as_many_in_a_row_as_fit(length: float) -> None:
    count = int(400 / length)
    starts = np.arange(count, dtype=np.float64) * length
    alike = np.zeros(count, dtype=np.int64)
    work = Work(alike, np.arange(count), starts, starts + length, np.ones(count))

    assert trials_in_a_row(work, INSIDE) == pytest.approx(180 / length)


def test_a_trial_that_went_on_on_another_worker_is_two_stretches() -> None:
    one = Work(np.array([0, 1]), np.array([0, 0]), np.array([20.0, 110.0]), np.array([110.0, 200.0]), np.ones(2))

    assert trials_in_a_row(one, INSIDE) == pytest.approx(2.0)


def test_a_run_of_few_long_trials_has_no_interval_and_says_what_is_missing() -> None:
    work, there = a_run(KINDS["few long trials, 2 workers"])

    found = evenness_of(work, there, INSIDE, 0.0)

    assert found.interval is None
    assert "16 are needed, or 16 workers" in found.basis


def test_a_run_whose_driver_was_down_has_no_interval_and_says_why() -> None:
    work, there = a_run(SHORT)

    found = evenness_of(work, there, INSIDE, down_seconds=12.0)

    assert found.interval is None and "the driver was down" in found.basis


@pytest.mark.parametrize("change", [{"joined": 21.0}, {"left": 199.0}], ids=str)
def test_workers_are_no_sample_where_one_came_or_went_in_the_window(change: dict[str, Any]) -> None:
    work, there = a_run(replace(MANY, workers=20))
    assert evenness_of(work, there, INSIDE, 0.0).basis == "20 workers, each over the whole window"

    found = evenness_of(work, [*there[:-1], replace(there[-1], **change)], INSIDE, 0.0)

    assert found.interval is None


def test_a_run_without_work_has_no_interval() -> None:
    work, there = a_run(SHORT)

    assert evenness_of(replace(work, flops=work.flops * 0), there, INSIDE, 0.0).interval is None
    assert evenness_of(work, there, Window(20.0, 20.0), 0.0).interval is None
