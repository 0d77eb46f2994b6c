"""Repeated starts at each place, and the end of a run without workers: a fold, without Ray."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.drive.ray import slots
from aiperf.drive.ray.slots import Slot, StartLaw, Starts
from aiperf.errors import BadConfiguration, NoWorkers

A, B = Slot("a", "a", 0, 0, 2), Slot("b", "b", 0, 0, 2)
LAW = StartLaw()
MISSING = BadConfiguration("no data set at '/data'")


def test_pauses_follow_the_formula() -> None:
    assert doctest.testmod(slots).failed == 0


def test_a_fixable_error_ends_the_run_once_every_place_failed() -> None:
    tried = Starts(LAW, 0.0)
    tried.failed(A, 1.0, "on a: no data set", MISSING)

    assert tried.hopeless([A, B], now=1.0) is None, "the other is still starting"
    assert not tried.may(A, 1.0 + LAW.first_pause_seconds), "nothing will have been fixed yet"
    tried.failed(B, 2.0, "on a: no data set", MISSING)
    error = tried.hopeless([A, B], now=2.0)
    assert isinstance(error, NoWorkers) and str(error) == str(MISSING)


@pytest.mark.parametrize("error", [None, MISSING], ids=["it broke", "no data set"])
def test_a_failed_place_is_retried_while_others_are_starting(
    error: BadConfiguration | None,
) -> None:
    tried = Starts(LAW, 0.0)
    for _ in range(LAW.tries):
        tried.failed(A, 1.0, "on a: why", error)

    assert not tried.may(A, 2.0)
    assert tried.may(A, 1.0 + LAW.pause(LAW.tries))
    assert tried.hopeless([A, B], now=100.0) is None, "b may come up yet"


def test_places_that_fail_of_different_things_are_all_named() -> None:
    tried = Starts(LAW, 0.0)
    tried.failed(A, 1.0, "on a: no data set", MISSING)
    for _ in range(LAW.tries):
        tried.failed(B, 2.0, "on b: it broke")

    error = tried.hopeless([A, B], now=2.0)

    assert isinstance(error, NoWorkers) and "on a: no data set" in str(error) and "on b: it broke" in str(error)


def test_after_a_first_worker_no_failed_place_ends_the_run() -> None:
    tried = Starts(LAW, 0.0)
    tried.up(5.0)
    for number in range(50):
        tried.failed(B, 10.0 + number, "on b: no data set", MISSING)
        tried.up(10.0 + number)

    assert tried.hopeless([A, B], now=60.0) is None
    assert tried.may(B, 59.0 + LAW.longest_pause_seconds)


def test_a_run_without_workers_waits_and_ends_with_the_reason() -> None:
    tried = Starts(LAW, 0.0)
    tried.up(5.0)
    tried.lost(A, 100.0, 95.0, "on a: its devices are gone", None)

    assert tried.hopeless([A], now=5.0 + LAW.alone_seconds - 1) is None
    error = tried.hopeless([], now=5.0 + LAW.alone_seconds)
    assert isinstance(error, NoWorkers) and "its devices are gone" in str(error)


def test_a_worker_that_lived_long_is_replaced_at_once() -> None:
    tried = Starts(LAW, 0.0)
    tried.up(0.0)
    for number in range(9):
        tried.failed(A, float(number), "on a: it broke")
    assert not tried.may(A, 9.0)

    tried.lost(A, 1000.0, LAW.long_life_seconds, "killed", None)

    assert tried.may(A, 1000.0)


def test_a_worker_that_dies_at_once_is_replaced_after_pauses() -> None:
    tried = Starts(LAW, 0.0)
    now, begun = 0.0, 0
    while now < 3600.0:
        if tried.may(A, now):
            begun += 1
            tried.up(now)
            tried.lost(A, now, 1.0, "killed", None)
        now += 1.0

    assert begun < 15


def test_a_place_that_is_refused_is_never_tried_again() -> None:
    tried = Starts(LAW, 0.0)
    tried.up(0.0)
    tried.failed(A, 1.0, "on a: too little memory", is_final=True)

    assert not tried.may(A, 1e9)


@given(st.integers(1, 5000))
def test_pauses_never_shrink_and_never_pass_the_longest(failures: int) -> None:
    assert LAW.pause(failures) <= LAW.pause(failures + 1) <= LAW.longest_pause_seconds
