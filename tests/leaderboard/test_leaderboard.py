"""Lists of entries: places, and entries without a place."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiperf.journal.sealed_log import JournalHashes
from aiperf.leaderboard.entry import Entry, Power, ranking_figure
from aiperf.leaderboard.leaderboard import Leaderboard, leaderboard, pinned
from aiperf.leaderboard.list_files import page
from tests.builders.leaderboard_entry import QUICK, entry


def names(found: Leaderboard) -> list[list[tuple[int | None, str]]]:
    return [[(row.place, row.entry.run) for row in listing.rows] for listing in found.listings]


def test_runs_stand_by_their_score_equal_ones_on_one_place() -> None:
    found = leaderboard(
        [entry("b", 2e12), entry("a", 3e12), entry("d", 1e12), entry("c", 2e12)], [], ranking_figure("score")
    )

    assert names(found) == [[(1, "a"), (2, "b"), (2, "c"), (4, "d")]]


def test_the_least_error_is_first() -> None:
    found = leaderboard([entry("worse", error=0.3), entry("better", error=0.2)], [], ranking_figure("error"))

    assert names(found) == [[(1, "better"), (2, "worse")]]


def test_benchmarks_never_share_an_order_and_simulated_is_last() -> None:
    simulated = replace(QUICK, standing="simulated")
    others = [
        entry("quick", 9e12, benchmark=QUICK),
        entry("longer", 8e12, benchmark=replace(QUICK, duration_seconds=360.0)),
    ]

    found = leaderboard(
        [entry("invented", 99e12, benchmark=simulated), *others, entry("ranked", 1e12)], [], ranking_figure("score")
    )

    assert names(found) == [[(1, "ranked")], [(1, "quick")], [(1, "longer")], [(1, "invented")]]


def test_benchmarks_of_one_title_list_their_differing_options() -> None:
    one = replace(QUICK, options=(("schedule.patience", "6"), ("limits.spares", "1")))
    two = replace(QUICK, options=(("schedule.patience", "3"), ("limits.spares", "1")))
    old = replace(QUICK, options=(("limits.spares", "1"),))

    found = leaderboard(
        [entry(f"r{at}", benchmark=each) for at, each in enumerate((one, two, old))], [], ranking_figure("score")
    )

    differences = {listing.rows[0].entry.run: listing.differs for listing in found.listings}
    assert differences == {
        "r0": (("schedule.patience", "6"),),
        "r1": (("schedule.patience", "3"),),
        "r2": (("schedule.patience", "not reported"),),
    }


def test_runs_without_figure_or_end_are_listed_below() -> None:
    runs = [
        entry("whole", mfu=0.4),
        entry("unknown", mfu=None),
        entry("going on", mfu=0.9, lacks="the run has not ended"),
    ]

    found = leaderboard(runs, [], ranking_figure("mfu"))

    assert names(found) == [[(1, "whole"), (None, "going on"), (None, "unknown")]]
    reasons = {row.entry.run: row.why_not for row in found.listings[0].rows}
    assert reasons == {"whole": "", "going on": "the run has not ended", "unknown": "MFU: not measured"}


def test_a_tie_is_shown_as_a_range_of_places() -> None:
    def run(name: str, score: float, spread: float | None) -> Entry:
        interval = None if spread is None else (score * (1 - spread), score * (1 + spread))
        return entry(name, score, flops_per_second_interval=interval, interval_freedom=None if spread is None else 38)

    runs = [run("a", 9e12, 0.001), run("b", 5.02e12, 0.02), run("c", 5e12, 0.02), run("d", 1e12, 0.001)]

    tied = {row.entry.run: row.tied for row in leaderboard(runs, [], ranking_figure("score")).listings[0].rows}
    assert tied == {"a": (1, 1), "b": (2, 3), "c": (2, 3), "d": (4, 4)}
    assert not any(row.is_tested for row in leaderboard(runs, [], ranking_figure("score")).listings[0].rows)


def test_power_order_requires_the_green500_measurement_level() -> None:
    little, whole = Power(1e4, 9e10, "accelerators", 0), Power(3e4, 3e10, "meters", 1)

    found = leaderboard(
        [entry("part", power=little), entry("whole", power=whole)], [], ranking_figure("flops-per-watt")
    )

    assert names(found) == [[(1, "whole"), (None, "part")]]
    assert found.listings[0].rows[1].why_not == "FLOPS/W: measured below EEHPC Level 1"


def test_a_declared_peak_has_no_place_by_mfu() -> None:
    runs = [entry("declared", mfu=0.9, is_peak_declared=True), entry("published", mfu=0.3)]

    found = leaderboard(runs, [], ranking_figure("mfu"))

    assert names(found) == [[(1, "published"), (None, "declared")]]
    assert found.listings[0].rows[1].why_not == "MFU: the peak is declared"
    assert all(row.place is not None for row in leaderboard(runs, [], ranking_figure("score")).listings[0].rows)


def test_a_journal_in_two_folders_is_one_run_and_names_both() -> None:
    found = leaderboard([entry("a"), entry("a", folder="mirror/a")], [], ranking_figure("score"))

    (row,) = found.listings[0].rows
    assert (row.entry.folder, row.copies) == ("mirror/a", ("runs/a",))


def test_a_copy_cut_at_its_best_score_gets_no_place() -> None:
    whole = entry("a", 1e12, events=1000)
    cut = entry("a", 5e12, folder="cut/a", events=400, journal=JournalHashes("first of a", "another"))

    found = leaderboard([cut, whole, entry("b", 2e12)], [], ranking_figure("score"))

    assert names(found) == [[(1, "b"), (2, "a"), (None, "a")]]
    assert "in runs/a: 1\u202f000 lines, this one has 400" in found.listings[0].rows[2].why_not


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=12), st.randoms())
def test_the_list_does_not_depend_on_the_order_of_runs(figures: list[tuple[int, int]], chance: random.Random) -> None:
    runs = [entry(f"r{at}", score * 1e12, mfu=mfu / 10) for at, (score, mfu) in enumerate(figures)]
    shuffled = chance.sample(runs, len(runs))

    assert leaderboard(shuffled, [], ranking_figure("score")) == leaderboard(runs, [], ranking_figure("score"))


def test_sites_confirm_the_contents_and_a_pinned_hash_takes_places() -> None:
    one, other = "1" * 64, "2" * 64
    runs = [
        entry("a", 3e12, contents=one, site="Site A", archives={"train.tar": {"sha256": "0"}}),
        entry("b", 2e12, contents=one, site="site b"),
        entry("again", 1e12, contents=one, site="SITE B"),
        entry("forged", 9e12, contents=other, site="C"),
        entry("old", 8e12),
    ]

    found = leaderboard(pinned(runs, one), [], ranking_figure("score"))

    rows = {row.entry.run: row for listing in found.listings for row in listing.rows}
    assert {name: row.place for name, row in rows.items()} == {"a": 1, "b": 2, "again": 3, "forged": None, "old": None}
    assert page(found).count(f"contents {one}, reported by 2 sites") == 3
    assert rows["forged"].why_not == "its images have other contents than --images"
    assert pinned(runs, None) == runs


def test_an_entry_says_where_its_images_are_from() -> None:
    texts: dict[str, dict[str, Any]] = {
        "not shown": {},
        "from archives with the published sums: val.tar": {
            "contents": "1" * 64,
            "archives": {"val.tar": {"sha256": "0"}},
        },
        "reported by 1 site; origin not shown": {"contents": "1" * 64},
    }
    for expected, facts in texts.items():
        found = leaderboard([entry("a", site="S", **facts)], [], ranking_figure("score"))
        assert expected in page(found)
