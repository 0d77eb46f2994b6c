"""Functions of rounds and trials. tests/rules/test_rules.py compares their figures with docs/benchmark.md."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf import rng
from aiperf.accounting import score
from aiperf.rules import procedure
from aiperf.rules.limits import ScheduleConf
from aiperf.rules.procedure import has_stopped_improving, predicted_accuracy, reported_accuracy
from aiperf.train import trainer_config as train_conf

PROCEDURE = ScheduleConf()


def test_an_improvement_too_small_is_none() -> None:
    assert has_stopped_improving([1.0, 0.9995, 0.9991], 2, 0.001)
    assert not has_stopped_improving([1.0, 0.9995, 0.9985], 2, 0.001)


@given(st.floats(0.3, 1.0), st.floats(0.05, 0.9), st.floats(0.1, 3.0), st.integers(5, 45))
def test_a_power_law_is_predicted_where_it_goes(ceiling: float, gain: float, exponent: float, epochs: int) -> None:
    curve = [ceiling - gain * x**-exponent for x in range(1, epochs + 1)]

    found = predicted_accuracy(curve, 60)

    assert found == pytest.approx(ceiling - gain * 60**-exponent, abs=2e-3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_reported_accuracy_is_bounded_by_epochs_and_fit(
    accuracies: list[float],
) -> None:
    told = reported_accuracy(PROCEDURE, accuracies)

    assert 0 <= told <= 1
    if len(accuracies) < 5:
        assert told == max(accuracies)
    elif len(accuracies) >= 15:
        assert min(accuracies[:15]) - 1e-9 <= told <= max(accuracies[:15]) + 1e-9


def test_an_endless_climb_is_never_reported_above_one() -> None:
    assert reported_accuracy(PROCEDURE, [0.1 * x for x in range(1, 10)]) <= 1


@pytest.mark.parametrize("module", [procedure, score, rng, train_conf])
def test_worked_numbers_in_docstrings_are_true(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]

    assert results.attempted and not results.failed
