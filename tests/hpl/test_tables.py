"""Published tables, recomputed: the errata, and Table 5 from one set of figures."""

from __future__ import annotations

import pytest

from aiperf.hpl.model import Reading
from benchmarks.hpl_tables import NUMBERS, best_of_row, mean_difference, published, recomputed, row_name


def test_differences_that_follow_from_their_columns() -> None:
    diffs = [
        each for number in NUMBERS for each in recomputed(number) if "Diff" in each.figure and "average" not in each.row
    ]

    assert len(diffs) == 39
    assert sum(each.is_equal for each in diffs) == 33


def test_errata_of_the_tables() -> None:
    wrong = {
        (each.row, each.figure): round(each.recomputed, each.decimals)
        for number in NUMBERS
        for each in recomputed(number)
        if not each.is_equal
    }

    assert wrong == {
        ("DGX SuperPOD", "efficiency"): 84.2,
        ("DGX SuperPOD", "model efficiency"): 95.4,
        ("Fugaku", "layered model efficiency"): 94.8,
        ("DGX SuperPOD", "layered Diff"): 9.7,
        ("1N1G", "Diff"): -1.08,
        ("1N3G", "Diff"): 2.24,
        ("2N2G", "Diff"): 5.97,
        ("4N4G", "Diff"): 1.78,
        ("4N12G", "Diff"): 2.56,
        ("average of 2 to 4 nodes", "Diff"): 5.54,
    }


@pytest.mark.parametrize(
    ("reading", "all_rows", "without"),
    [("placed", 6.3, 2.8), ("panels", 11.7, 8.5), ("printed", 17.7, 14.5), (None, 5.7, 3.8)],
)
def test_table_5_from_one_set_of_figures(reading: Reading | None, all_rows: float, without: float) -> None:
    assert 100 * mean_difference(reading) == pytest.approx(all_rows, abs=0.05)
    assert 100 * mean_difference(reading, without=("2N2G", "3N3G")) == pytest.approx(without, abs=0.05)


@pytest.mark.parametrize(
    ("name", "gflops", "grid"), [("1N1G", 3880, (1, 1)), ("1N4G", 14_496, (1, 4)), ("3N12G", 40_307, (2, 6))]
)
def test_table_5_placed(name: str, gflops: float, grid: tuple[int, int]) -> None:
    row = next(row for row in published()["table_5"]["rows"] if row_name(row) == name)
    found = best_of_row(row, "placed")

    assert found.flops / 1e9 == pytest.approx(gflops, abs=0.6)
    assert (found.p, found.q) == grid
    assert (found.pmap == "column") == (name == "3N12G")
