"""A score has converged when its precision and drift are within bounds and the minimum window is over, and not before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.accounting.confidence import Work
from aiperf.accounting.convergence import LOOKS, StopRule, rest_of
from aiperf.accounting.presence import WorkerPresence
from aiperf.errors import BadConfiguration
from aiperf.rules.limits import ScheduleConf

RULE = StopRule(warmup_seconds=20.0, least_seconds=100.0, precision=0.01)
END = 220.0
LENGTH = 2.0
"""Seconds of a trial: a hundred of them fill the window."""
SHARES = st.floats(-1.0, 1.0)


def worked(rates: npt.NDArray[np.float64]) -> Work:
    """Return the work of one worker, trial after trial without a gap, each at its rate."""
    count = len(rates)
    starts = np.arange(count, dtype=np.float64) * LENGTH
    return Work(np.zeros(count, np.int64), np.arange(count), starts, starts + LENGTH, rates * LENGTH)


def trials() -> npt.NDArray[np.float64]:
    """Return the times of the trials as shares of the window."""
    return (np.arange(int(END / LENGTH), dtype=np.float64) * LENGTH - RULE.warmup_seconds) / (END - RULE.warmup_seconds)


@given(st.floats(1.0, 1e18), st.lists(SHARES, min_size=110, max_size=110))
def test_a_score_that_hardly_varies_comes_to_rest(rate: float, noise: list[float]) -> None:
    found = rest_of(worked(rate * (1 + 0.005 * np.array(noise))), (), RULE, END, 0.0)

    assert found.is_reached
    assert found.score == pytest.approx(rate, rel=0.006)


@given(st.one_of(st.floats(0.03, 3.0), st.floats(-0.9, -0.03)), st.lists(SHARES, min_size=110, max_size=110))
def test_a_score_that_drifts_does_not_however_evenly(growth: float, noise: list[float]) -> None:
    """The drift is at least three times the precision over the window."""
    rates = 1e12 * (1 + growth * trials()) * (1 + 0.002 * np.array(noise))

    assert not rest_of(worked(rates), (), RULE, END, 0.0).is_reached


def test_an_even_rise_is_no_rest_though_its_interval_is_narrow() -> None:
    """The interval uses deviations from a straight line. Without the two halves the rule would accept a rise."""
    found = rest_of(worked(1e12 * (1 + 0.5 * trials())), (), RULE, END, 0.0)

    assert found.half_width is not None and found.half_width < 0.01
    assert found.drift == pytest.approx(0.25 / 1.25, rel=0.05) and not found.is_reached


def test_a_score_that_swings_is_not_known_well_enough() -> None:
    rates = 1e12 * (1 + 0.8 * np.random.default_rng(1).uniform(-1, 1, 110))

    found = rest_of(worked(rates), (), RULE, END, 0.0)

    assert found.half_width is not None and found.half_width > 0.01 and not found.is_reached


@pytest.mark.parametrize(
    ("rounds", "is_reached"),
    [((100.0, 200.0), True), ((100.0, None), False), ((100.0, 221.0), False), ((None, None), False)],
    ids=str,
)
def test_no_run_stops_before_all_workers_leave_round_3(rounds: tuple[float | None, ...], is_reached: bool) -> None:
    """Issue: 50 workers with trials of 3 h stopped at the first look, 7.4 % below their later score."""
    there = [WorkerPresence(number, "n", "", 1, 0.0, past_short_rounds=since) for number, since in enumerate(rounds)]
    gone = WorkerPresence(9, "n", "", 1, 0.0, left=150.0)

    found = rest_of(worked(np.full(110, 1e12)), [*there, gone], RULE, END, 0.0)

    assert found.is_reached == is_reached


def test_workers_are_no_sample_of_the_stop_rule() -> None:
    """Trials as long as the window: 50 equal workers do not show how the rate moves in time."""
    count = 50
    one = np.zeros(count)
    work = Work(np.arange(count), np.arange(count), one, one + END, one + 1e15)
    there = [WorkerPresence(number, "n", "", 1, 0.0, past_short_rounds=1.0) for number in range(count)]

    found = rest_of(work, there, RULE, END, 0.0)

    assert found.half_width is None and not found.is_reached


def test_few_long_trials_or_a_driver_restart_never_converge() -> None:
    even = worked(np.full(110, 1e12))
    long = replace(even, trial=even.trial // 40)

    assert rest_of(even, (), RULE, END, 0.0).is_reached
    assert rest_of(long, (), RULE, END, 0.0).half_width is None and not rest_of(long, (), RULE, END, 0.0).is_reached
    assert not rest_of(even, (), RULE, END, 5.0).is_reached


def test_a_window_without_work_is_no_rest() -> None:
    assert not rest_of(worked(np.zeros(110)), (), RULE, END, 0.0).is_reached


@given(st.floats(0.0, 1e6), st.floats(0.1, 1e5), st.floats(0.0, 1e6))
def test_looks_follow_the_configuration_and_its_minimum_window(warmup: float, least: float, moment: float) -> None:
    rule = StopRule(warmup, least, 0.01)

    look = rule.last_look(moment)

    if look is None:
        assert moment < warmup + least
        return
    every = least / LOOKS
    assert warmup + least <= look <= moment + 1e-9 * moment and moment - look < every * (1 + 1e-6)
    assert rule.last_look(look + every / 2) == look


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"stop": "sometime"}, "one of duration, converged"),
        ({"stop_precision": 0.0}, "above 0 and below 1"),
        ({"stop_after_seconds": 0.0}, "above 0"),
        ({"stop": "converged", "stop_after_seconds": 40_000.0}, "lower schedule.stop_after_seconds"),
    ],
)
def test_a_rule_that_can_never_stop_a_run_is_refused(changed: dict[str, object], expected: str) -> None:
    with pytest.raises(BadConfiguration, match=expected):
        ScheduleConf(**changed).check()  # type: ignore[arg-type]
