"""Orders by valid FLOPS: both exponents, and the exponent at which neighbours change places."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiperf.accounting.valid_flops import EXPONENTS, exchange_exponent, valid_flops
from aiperf.leaderboard import tables
from aiperf.leaderboard.entry import Entry, ranking_figure
from aiperf.leaderboard.leaderboard import leaderboard
from aiperf.leaderboard.list_files import lines
from tests.builders.leaderboard_entry import entry

TARGET = 0.763
QUALITIES = st.integers(1, 1000).map(lambda thousandths: thousandths / 1000)
FLOPS = st.floats(1e9, 1e18)


def both(flops: float, quality: float) -> tuple[float, float]:
    low, high = (valid_flops(flops, quality, TARGET, exponent) for exponent in EXPONENTS)
    return low, high


def run(name: str, flops: float, quality: float) -> Entry:
    low, high = both(flops, quality)
    return entry(name, flops, valid_flops=low, valid_flops_5=low, valid_flops_10=high)


@given(FLOPS, QUALITIES, FLOPS, QUALITIES)
def test_exchange_exponent_is_the_ratio_of_logarithms(f1: float, q1: float, f2: float, q2: float) -> None:
    assume(q1 != q2)

    at = exchange_exponent(both(f1, q1), both(f2, q2))

    expected = math.log(f1 / f2) / math.log(q2 / q1)
    assert at == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("first", "second"), [((1.0, 0.5), (2.0, 0.5)), ((1.0, 0.0), (2.0, 0.5))])
def test_no_exponent_for_equal_or_zero_qualities(first: tuple[float, float], second: tuple[float, float]) -> None:
    assert exchange_exponent(both(*first), both(*second)) is None


def test_order_by_valid_flops_shows_exponents() -> None:
    entries = [run("fast", 2e12, 0.70), run("good", 1.5e12, 0.74), run("slow", 1e12, 0.74)]
    found = leaderboard(entries, [], ranking_figure("valid-flops"))

    table = tables.order(found.listings[0], found.by, 1)

    names = [column.name for column in table.columns]
    at = [[row[names.index(column.name)].text for row in table.rows] for column in tables.EXPONENT_COLUMNS]
    expected = f"{math.log(2 / 1.5) / math.log(0.74 / 0.70):.2f}"
    assert at[2] == [tables.NONE, expected, tables.NONE]  # equal qualities never change places
    assert tables.NONE not in at[0] + at[1]
    assert expected in "\n".join(lines(found))


def test_other_orders_have_no_exponents() -> None:
    found = leaderboard([run("fast", 2e12, 0.70)], [], ranking_figure("score"))

    names = {column.name for column in tables.order(found.listings[0], found.by, 1).columns}

    assert names.isdisjoint(column.name for column in tables.EXPONENT_COLUMNS)
