"""Faults as they stand on a command line; what is not right is refused with what is."""

from __future__ import annotations

from dataclasses import fields

import pytest

from aiperf.errors import BadConfiguration
from aiperf.simulate.faults.fault_words import KINDS, parse, parse_all
from aiperf.simulate.faults.workers import WorkerLost


@pytest.mark.parametrize("name", KINDS)
def test_every_fault_is_made_by_its_name_and_says_what_it_is(name: str) -> None:
    fault = parse(name)

    assert type(fault) is KINDS[name]
    assert type(fault).__doc__


@pytest.mark.parametrize("name", KINDS)
def test_every_parameter_can_be_given(name: str) -> None:
    numbers = [field.name for field in fields(KINDS[name]) if field.init and field.type == "float"]

    fault = parse(f"{name}({', '.join(f'{parameter}=0.5' for parameter in numbers)})")

    assert all(getattr(fault, parameter) == 0.5 for parameter in numbers)


def test_a_word_is_chosen_by_name() -> None:
    fault = parse(" worker_lost( rate = 0.25 , when=before ) ")

    assert isinstance(fault, WorkerLost) and (fault.rate, fault.when) == (0.25, "before")


@pytest.mark.parametrize(
    ("word", "mended"),
    [
        ("worker_lots", "did you mean 'worker_lost'"),
        ("worker_lost(rat=1)", "did you mean 'rate'"),
        ("worker_lost(rate=often)", "rate is a number"),
        ("worker_lost(rate=1.5)", "rate lies between 0 and 1"),
        ("worker_lost(when=befor)", "did you mean 'before'"),
        ("late(seconds=0)", "seconds is above 0"),
        ("late(seconds=nan)", "seconds is above 0"),
        ("late(", "name(parameter=value"),
    ],
)
def test_what_is_not_right_is_refused_with_what_is(word: str, mended: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        parse(word)

    assert mended in str(refused.value)


def test_two_faults_of_one_kind_draw_apart_and_equal_seeds_draw_alike() -> None:
    first, second = parse_all(["late", "late"], seed=1)
    again, _ = parse_all(["late", "late"], seed=1)

    drawn = first.draw.random()
    assert drawn != second.draw.random()
    assert drawn == again.draw.random()
