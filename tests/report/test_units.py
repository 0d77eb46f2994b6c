"""Quantities read the same everywhere, and never for more or less than they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf import units

PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}


@given(st.floats(min_value=1.0, max_value=9e26))
def test_a_rate_read_back_is_the_rate_within_its_three_digits(value: float) -> None:
    text = units.flops_per_second(value)

    match = re.fullmatch(r"([\d.]+) ([kMGTPEZY]?)FLOPS", text)
    assert match is not None, text
    assert float(match[1]) * PREFIXES[match[2]] == pytest.approx(value, rel=0.006)
    assert 1 <= float(match[1]) < 1000


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 FLOPS"), (999.9e9, "1.00 TFLOPS"), (4.12e13, "41.2 TFLOPS"), (194.53e15, "195 PFLOPS")]
)
def test_rates_are_written_with_three_digits_under_one_prefix(value: float, text: str) -> None:
    assert units.flops_per_second(value) == text


def test_both_ends_of_an_interval_stand_under_one_prefix() -> None:
    assert units.interval(9.98e11, 1.02e12, "FLOPS") == "0.998 to 1.02 TFLOPS"


@given(st.floats(min_value=-1.0, max_value=1.0).filter(bool))
def test_a_share_that_is_not_zero_never_reads_as_zero(value: float) -> None:
    assert units.share(value).lstrip("−-") != "0.0 %"


@pytest.mark.parametrize(
    ("value", "text"), [(0.951, "95.1 %"), (1e-6, "< 0.1 %"), (-0.003, "−0.3 %"), (-1e-6, "> −0.1 %"), (0.0, "0.0 %")]
)
def test_a_share_below_zero_is_the_same_share_with_a_sign(value: float, text: str) -> None:
    assert units.share(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0004, "0.40 ms"),
        (0.05, "50 ms"),
        (4.24, "4.2 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.7, "1 h 00 min"),
        (43200, "12 h 00 min"),
        (1_297_612_800, "360\u202f448 h"),
        (-5, "−5.0 s"),
    ],
)
def test_durations_are_written_with_two_units_at_most(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("own", "use"),
    [
        (r"\{[^{}]*:[^{}]*%\}", "units.share or units.change"),  # `6%`, where all else is `6 %`
        (r":[,_](d|\.\d+f)?\}", "units.count"),  # `1,234` or `1_234`, where all else is `1 234`
    ],
)
def test_no_text_of_the_product_writes_numbers_in_another_way(own: str, use: str) -> None:
    product = Path(units.__file__).parents[1]
    found = [
        f"{path.relative_to(product)}:{number}"
        for part in ("aiperf", "cluster", "morphism", "searchers")
        for path in sorted((product / part).rglob("*.py"))
        if path not in (Path(units.__file__), product / "morphism" / "draw.py")  # morphism cannot import units
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(own, line)
    ]

    assert found == [], f"write them by {use}"


@given(st.floats(1.0, 1e24), st.floats(1e-5, 0.5))
def test_the_ends_of_an_interval_read_apart_where_they_are_apart(low: float, part: float) -> None:
    text = units.interval(low, low * (1 + part), "FLOPS")

    match = re.fullmatch(r"([\d.]+) to ([\d.]+) [kMGTPEZY]?FLOPS", text)
    assert match is not None and float(match[1]) < float(match[2]), text


def test_an_interval_has_three_digits_if_its_ends_then_differ() -> None:
    assert units.interval(40.1e12, 42e12, "FLOPS") == "40.1 to 42.0 TFLOPS"
    assert units.interval(1.4486e18, 1.4493e18, "FLOPS") == "1.4486 to 1.4493 EFLOPS"
    assert units.interval(6.185052e12, 6.185052e12, "FLOP") == "6.19 to 6.19 TFLOP"
    assert units.interval(5e9, 5e9, "FLOPS").endswith(" GFLOPS")
