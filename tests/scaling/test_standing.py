"""Places in published lists: laws of places, forms of lists, and figures of June 2019."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import BadConfiguration
from aiperf.scaling.standing import named_entry, place_of, read_list

JUNE_2019 = Path(__file__).parent / "top500_2019_06.csv"
"""First seven entries, each with the sources of its figures."""


def a_list(folder: Path, text: str) -> Path:
    path = folder / "list.csv"
    path.write_text(text, encoding="utf-8-sig")
    return path


@given(st.lists(st.integers(1, 9), min_size=1), st.integers(0, 10), st.integers(0, 10))
def test_a_larger_figure_never_has_a_later_place(listed: list[int], one: int, other: int) -> None:
    entries = [(str(index), float(each)) for index, each in enumerate(listed)]
    places = [place_of(float(each), entries) for each in (max(one, other), min(one, other))]
    first, last = (len(listed) + 1 if each.place is None else each.place for each in places)

    assert 1 <= first <= last
    assert first == 1 + sum(each > max(one, other) for each in listed)
    assert (places[0].above is None) == (first == 1)
    assert (places[0].place is None) == (places[0].below is None)


def test_figures_of_june_2019() -> None:
    entries = read_list(JUNE_2019, {})
    v3_supercomputer = 0.70 * 1024 * 4 * 128**2 * 2 * 940e6
    tianhe = named_entry(entries, "tianhe")

    place = place_of(v3_supercomputer, [(each.name, each.flops_per_second) for each in entries])

    assert round(v3_supercomputer / 1e15, 1) == 88.3
    assert (place.place, place.above, place.below) == (4, "Sunway TaihuLight", "Tianhe-2A")
    assert tianhe.flops_per_watt is not None and round(44 * tianhe.flops_per_watt / 1e9) == 146
    assert [each.watts for each in entries][3:] == [18_482e3, None, None, None]


def test_peaks_of_the_paper_by_units_and_clock() -> None:
    v2, v3 = 2 * 128**2 * 2 * 700e6, 4 * 128**2 * 2 * 940e6

    assert (round(v2 / 1e12, 1), round(v3 / 1e12, 1), round(v3 / v2, 2)) == (45.9, 123.2, 2.69)


@pytest.mark.parametrize(
    "text",
    [
        'Rank,Name,Rmax [TFlop/s],Power (kW)\n1,a,"93,014.6","15,371"\n2,b,93014.6,\n',
        "RANK;System;RMAX (GFLOPS);Total Power [MW]\n1;a;93014600;15.371\n\n2;b;93 014 600;-\n",
        "Rank\tComputer\tRmax (PFlop/s)\tPower Source\tPower (W)\n1\ta\t93.0146\tx\t15371000\n2\tb\t93.0146\t\t\n",
    ],
)
def test_a_list_is_read_in_the_forms_of_exports(tmp_path: Path, text: str) -> None:
    first, second = read_list(a_list(tmp_path, text), {})

    assert (first.rank, first.name, second.name) == (1, "a", "b")
    assert first.flops_per_second == pytest.approx(93.0146e15) and second.flops_per_second == first.flops_per_second
    assert first.watts == pytest.approx(15.371e6) and second.watts is None


def test_columns_can_be_named_and_power_can_be_missing(tmp_path: Path) -> None:
    path = a_list(tmp_path, "Place,Machine,HPL (TFlop/s)\n1,a,2\n")

    (entry,) = read_list(path, {"rank": "Place", "name": "Machine", "rmax": "HPL (TFlop/s)"})

    assert entry.flops_per_second == 2e12 and entry.flops_per_watt is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Name,Rmax (TFlop/s)\na,1\n", r"found no rank in 'Name', 'Rmax \(TFlop/s\)'"),
        ("Rank,Name,Rmax\n1,a,1\n", r"has a unit, but found 'Rmax'"),
        ("Rank,Name,Rmax (TFlop/s),Power\n1,a,1,3\n", r"has a unit, but found 'Power'"),
        ("Rank,Name,Rmax (TFlop/s)\n1,a,fast\n", r"Rmax is a number .* found 'fast' in line 2"),
        ("Rank,Name,Rmax (TFlop/s)\n1,a,0\n", r"Rmax is above 0 .* found '0' in line 2"),
        ("Rank,Name,Rmax (TFlop/s)\n1,a\n", r"found '' in line 2"),
        ('Rank,Name,Rmax (TFlop/s)\n1,a,"93,01"\n', r"found '93,01'"),
        ("Rank,Name,Rmax (TFlop/s)\n", r"at least one entry"),
        ("", r"found no rank"),
    ],
)
def test_a_list_without_a_needed_value_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadConfiguration, match=message):
        read_list(a_list(tmp_path, text), {})


def test_a_name_of_no_entry_or_of_two_is_refused() -> None:
    entries = read_list(JUNE_2019, {})

    with pytest.raises(BadConfiguration, match=r"found 'Fugaku' in 0"):
        named_entry(entries, "Fugaku")
    with pytest.raises(BadConfiguration, match=r"in 2: Summit, Sunway TaihuLight"):
        named_entry(entries, "su")
