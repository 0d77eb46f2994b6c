"""Ties of a list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aiperf.statistics.difference import holm, ties
from aiperf.statistics.estimate import Estimate, of_repeats

entries = st.lists(
    st.tuples(st.floats(1.0, 1e6), st.one_of(st.none(), st.floats(0.0, 0.3)), st.integers(1, 20)), max_size=12
).map(
    lambda rows: [
        (value, None if share is None else Estimate(value, share * value, freedom, "evenness"))
        for value, share, freedom in rows
    ]
)


def _known(value: float, error: float, freedom: int = 30) -> tuple[float, Estimate]:
    return value, Estimate(value, error, freedom, "repeats")


def test_ties_are_not_transitive() -> None:
    first, middle, last = ties([_known(103.0, 1.0), _known(100.0, 1.0), _known(97.0, 1.0)])

    assert (first.best_place, first.worst_place) == (1, 2)
    assert (middle.best_place, middle.worst_place) == (1, 3)
    assert (last.best_place, last.worst_place) == (2, 3)


@given(entries)
def test_places_and_ranges_are_consistent(
    rows: list[tuple[float, Estimate | None]],
) -> None:
    standings = ties(rows)

    for (_, estimate), standing in zip(rows, standings, strict=True):
        assert (estimate is None) == (standing.best_place is None)
        if standing.best_place is not None and standing.worst_place is not None:
            assert standing.best_place <= standing.place <= standing.worst_place or any(e is None for _, e in rows)
            assert standing.best_place >= 1 and standing.worst_place <= len(rows)


@given(entries, st.randoms())
def test_the_order_in_which_entries_come_does_not_matter(
    rows: list[tuple[float, Estimate | None]], chance: np.random.RandomState
) -> None:
    order = list(range(len(rows)))
    chance.shuffle(order)

    shuffled = ties([rows[index] for index in order])

    straight = ties(rows)
    assert [straight[index].best_place for index in order] == [each.best_place for each in shuffled]
    assert [straight[index].place for index in order] == [each.place for each in shuffled]


def test_equal_systems_are_separated_in_5_of_100_lists_at_most() -> None:
    chance = np.random.default_rng(5)
    wrong = 0
    for _ in range(400):
        rows = [(each.value, each) for each in map(of_repeats, chance.normal(100, 2, (10, 5)).tolist()) if each]
        wrong += any((standing.best_place, standing.worst_place) != (1, 10) for standing in ties(rows))

    assert wrong / 400 <= 0.08


def test_an_entry_without_uncertainty_is_never_compared() -> None:
    sure, unknown = ties([_known(100.0, 0.1), (50.0, None)])

    assert (unknown.place, unknown.best_place) == (2, None)
    assert (sure.best_place, sure.worst_place) == (1, 2)


def test_lower_is_better_by_option() -> None:
    low, high = ties([_known(1.0, 0.01), _known(2.0, 0.01)], more_is_better=False)

    assert (low.place, high.place) == (1, 2) and high.best_place == 2


def test_five_hundred_entries_take_no_more_than_a_glance() -> None:
    chance = np.random.default_rng(6)
    rows = [_known(value, 0.5) for value in chance.uniform(1, 1000, 500).tolist()]

    standings = ties(rows)

    assert len({standing.best_place for standing in standings}) > 50


def test_holm_stops_at_the_first_hypothesis_that_stands() -> None:
    found = holm(np.array([0.04, 0.001, 0.03, 0.2]), 0.05)

    assert found.tolist() == [False, True, False, False]
