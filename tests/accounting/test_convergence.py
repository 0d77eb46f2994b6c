"""A score has come to rest when it is known to the precision and drifts no more, and not before the least window is over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.accounting.confidence import Work
from aiperf.accounting.convergence import LOOKS, StopRule, rest_of
from aiperf.errors import BadConfiguration
from aiperf.rules.limits import ScheduleConf

RULE = StopRule(warmup_seconds=20.0, least_seconds=100.0, precision=0.01)
END = 220.0
LENGTH = 2.0
"""Of a trial, in seconds: a hundred of them in the window."""
SHARES = st.floats(-1.0, 1.0)


def worked(rates: npt.NDArray[np.float64]) -> Work:
    """One worker, trial after trial without a gap, each at its rate."""
    count = len(rates)
    starts = np.arange(count, dtype=np.float64) * LENGTH
    return Work(np.zeros(count, np.int64), np.arange(count), starts, starts + LENGTH, rates * LENGTH)


def trials() -> npt.NDArray[np.float64]:
    """The moments of the trials, as shares of the window."""
    return (np.arange(int(END / LENGTH), dtype=np.float64) * LENGTH - RULE.warmup_seconds) / (END - RULE.warmup_seconds)


@given(st.floats(1.0, 1e18), st.lists(SHARES, min_size=110, max_size=110))
def test_a_score_that_hardly_varies_comes_to_rest(rate: float, noise: list[float]) -> None:
    found = rest_of(worked(rate * (1 + 0.005 * np.array(noise))), (), RULE, END, 0.0)

    assert found.is_reached
    assert found.score == pytest.approx(rate, rel=0.006)


@given(st.one_of(st.floats(0.03, 3.0), st.floats(-0.9, -0.03)), st.lists(SHARES, min_size=110, max_size=110))
def test_a_score_that_drifts_does_not_however_evenly(growth: float, noise: list[float]) -> None:
    """By three times the precision over the window, or more."""
    rates = 1e12 * (1 + growth * trials()) * (1 + 0.002 * np.array(noise))

    assert not rest_of(worked(rates), (), RULE, END, 0.0).is_reached


def test_an_even_rise_is_no_rest_though_its_interval_is_narrow() -> None:
    """The interval looks at what lies beside the straight line: without the halves the rule would take a rise for rest."""
    found = rest_of(worked(1e12 * (1 + 0.5 * trials())), (), RULE, END, 0.0)

    assert found.half_width is not None and found.half_width < 0.01
    assert found.drift == pytest.approx(0.25 / 1.25, rel=0.05) and not found.is_reached


def test_a_score_that_swings_is_not_known_well_enough() -> None:
    rates = 1e12 * (1 + 0.8 * np.random.default_rng(1).uniform(-1, 1, 110))

    found = rest_of(worked(rates), (), RULE, END, 0.0)

    assert found.half_width is not None and found.half_width > 0.01 and not found.is_reached


def test_of_few_long_trials_nothing_can_be_told_and_after_a_driver_was_down_neither() -> None:
    even = worked(np.full(110, 1e12))
    long = replace(even, trial=even.trial // 40)

    assert rest_of(even, (), RULE, END, 0.0).is_reached
    assert rest_of(long, (), RULE, END, 0.0).half_width is None and not rest_of(long, (), RULE, END, 0.0).is_reached
    assert not rest_of(even, (), RULE, END, 5.0).is_reached


def test_a_window_without_work_is_no_rest() -> None:
    assert not rest_of(worked(np.zeros(110)), (), RULE, END, 0.0).is_reached


@given(st.floats(0.0, 1e6), st.floats(0.1, 1e5), st.floats(0.0, 1e6))
def test_looks_stand_in_the_configuration_and_none_comes_before_warm_up_and_the_least_window(
    warmup: float, least: float, moment: float
) -> None:
    rule = StopRule(warmup, least, 0.01)

    look = rule.last_look(moment)

    if look is None:
        assert moment < warmup + least
        return
    every = least / LOOKS
    assert warmup + least <= look <= moment + 1e-9 * moment and moment - look < every * (1 + 1e-6)
    assert rule.last_look(look + every / 2) == look


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"stop": "sometime"}, "one of duration, converged"),
        ({"stop_precision": 0.0}, "above 0 and below 1"),
        ({"stop_after_seconds": 0.0}, "above 0"),
        ({"stop": "converged", "stop_after_seconds": 40_000.0}, "lower schedule.stop_after_seconds"),
    ],
)
def test_a_rule_that_can_never_stop_a_run_is_refused(changed: dict[str, object], told: str) -> None:
    with pytest.raises(BadConfiguration, match=told):
        ScheduleConf(**changed).check()  # type: ignore[arg-type]
