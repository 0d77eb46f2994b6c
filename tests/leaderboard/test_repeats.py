"""Runs of one system are one entry, and one machine is not separated from itself."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.config import as_plain, configure
from aiperf.leaderboard.benchmark import Benchmark, procedure_of, purpose_of
from aiperf.leaderboard.entry import Entry, ModelCount, Power, middle, ranking_figure
from aiperf.leaderboard.leaderboard import Leaderboard, SiteAnnouncements, leaderboard
from aiperf.leaderboard.list_files import csv_text, json_text, lines, page
from aiperf.leaderboard.tables import _run, name
from aiperf.submission.announced_run import Announced
from tests.builders.leaderboard_entry import FIXED, QUICK, RANKED, entry
from tests.ranking.test_ranking import having


def of(system: str, number: int, score: float, **others: Any) -> Entry:
    """Run `number` of a system, announced."""
    name = f"{system}-{number}"
    fields = {
        "system": system,
        "site": "a site",
        "announcement": name,
        "purpose": ("a site", system, "imagenet", "43200", "ranking"),
    }
    return entry(name, score, **{**fields, **others})


def places(found: Leaderboard) -> dict[str, tuple[int | None, int]]:
    return {row.entry.system or row.entry.run: (row.place, len(row.runs)) for row in found.listings[0].rows}


def ranked(*entries: Entry, by: str = "score", sites: tuple[SiteAnnouncements, ...] = ()) -> Leaderboard:
    return leaderboard(entries, [], ranking_figure(by), sites)


def log_of(*announcements: tuple[str, tuple[str, ...]], accelerators: int | None = None) -> SiteAnnouncements:
    nothing = Announced(len(announcements), 0, (), (), (), (), ())
    return SiteAnnouncements("log", nothing, tuple((*each, accelerators) for each in announcements))


@pytest.mark.parametrize("benchmark", [RANKED, FIXED], ids=["ranking", "fixed network"])
def test_the_best_of_several_runs_does_not_win(benchmark: Benchmark) -> None:
    tries = [
        of("many tries", number, score, benchmark=benchmark, procedure=f"{number}")
        for number, score in enumerate((1.0e12, 1.1e12, 1.5e12))
    ]

    found = ranked(*tries, of("one try", 0, 1.2e12, benchmark=benchmark))

    assert places(found) == {"one try": (1, 1), "many tries": (2, 3)}
    assert found.listings[0].rows[1].entry.score == 1.1e12


@pytest.mark.parametrize("spelt", ["ALPHA", " alpha ", "ａｌｐｈａ", "al\u200bpha", "alp\u00adha"])
def test_another_spelling_of_a_system_does_not_leave_the_median(spelt: str) -> None:
    purpose = purpose_of({"system": {"site": "A  Site", "name": spelt}, "dataset": {"name": "imagenet"}})
    runs = [of("alpha", number, score) for number, score in enumerate((1.0e12, 1.1e12))]
    best = replace(of("alpha", 2, 1.5e12), system=spelt, site="A SITE ")

    (row,) = ranked(*runs, best).listings[0].rows

    assert (len(row.runs), row.entry.figures["score"]) == (3, 1.1e12)
    assert purpose[:2] == ("a site", "alpha")


@given(st.lists(st.integers(1, 300), min_size=1, max_size=12))
def test_runs_of_similar_size_are_one_entry(sizes: list[int]) -> None:
    """A run is in the entry of the largest run, or much smaller: it gains nothing by leaving it."""
    runs = [of("a", at, 1e12 * size, accelerators=(ModelCount("A", size),)) for at, size in enumerate(sizes)]

    rows = ranked(*runs).listings[0].rows

    in_rows = [[run.accelerator_count for run in row.runs] for row in rows]
    assert sorted(chain.from_iterable(in_rows)) == sorted(sizes)
    assert all(max(one) <= 1.5 * min(one) for one in in_rows)
    assert all(1.5 * max(low) < max(high) for high, low in pairwise(sorted(in_rows, key=max, reverse=True)))
    names = {max(one): row.entry.system for row, one in zip(rows, in_rows, strict=True)}
    assert names == {size: f"a, {size} accelerators" for size in names} | {max(sizes): "a"}


@pytest.mark.parametrize(
    ("accelerators", "large", "small"), [(None, 1, 0), (64, 1, 0), (48, 1, 0), (16, 0, 1), (400, 1, 0)]
)
def test_a_missing_run_counts_in_the_entry_of_its_size(accelerators: int | None, large: int, small: int) -> None:
    """An announced number is the most of an elastic run, so that a larger one than any run had counts, too."""
    runs = [of("a", 0, 4e12), *(of("a", size, 1e12, accelerators=(ModelCount("A", size),)) for size in (12, 16))]
    hidden = log_of(("hidden", runs[0].purpose), accelerators=accelerators)

    rows = ranked(*runs, sites=(hidden,)).listings[0].rows

    assert sorted((len(row.runs), row.missing) for row in rows) == [(1, large), (2, small)]


def test_an_announced_run_without_a_result_counts_as_the_lowest() -> None:
    runs = [of("a", number, score) for number, score in enumerate((1.0e12, 1.1e12, 1.5e12))]
    ids = tuple((each, runs[0].purpose) for each in ("a-0", "a-1", "a-2", "hidden"))

    (row,) = ranked(*runs, sites=(log_of(*ids),)).listings[0].rows

    assert (row.missing, row.place) == (1, 1)
    assert row.entry.score == pytest.approx(1.05e12)


def test_a_run_that_ended_early_or_broke_a_rule_is_the_lowest() -> None:
    good = [of("a", number, 1e12 + number) for number in (1, 2)]
    ended = of("a", 3, 9e12, lacks="the run has not ended")
    outside = of("a", 4, 9e12, benchmark=replace(QUICK, dataset="imagenet"))

    found = ranked(*good, ended, outside)

    row = next(row for row in found.listings[0].rows if len(row.runs) == 2)
    assert row.missing == 2 and row.place is None and row.entry.score is None
    assert "2 of 4 announced runs of this system have no valid result" in row.why_not


def test_announcements_of_other_systems_and_lengths_do_not_count() -> None:
    run = of("a", 0, 1e12)
    others = (
        ("b-0", ("a site", "b", "imagenet", "43200", "ranking")),
        ("a-9", ("a site", "a", "imagenet", "7200", "ranking")),
    )

    (row,) = ranked(run, sites=(log_of(*others),)).listings[0].rows

    assert row.missing == 0 and row.place == 1


def test_repeats_are_one_system_with_and_without_a_prediction() -> None:
    conf = as_plain(configure([]))
    repeat = conf | {"seed": 2, "predict": "prediction.json", "announcement": "a" * 64, "announcement_log": "log.jsonl"}

    assert procedure_of(repeat, {"source": "a"}) == procedure_of(conf, {"source": "a"})
    assert procedure_of(having(conf, "batch.default", 7), {}) != procedure_of(conf, {})


def test_the_purpose_of_an_announcement_is_in_its_configuration() -> None:
    conf = as_plain(configure(["schedule=ranking", "dataset=imagenet", "system.site=Lab", "system.name=Alpha"]))

    assert purpose_of(conf) == ("lab", "alpha", "imagenet", "43200", "ranking")
    assert purpose_of(having(conf, "trainer.learning_rate", 0.2))[-1] == "other"
    fixed = conf | {"benchmark": {"name": "hpc_ai500_ic", "target_quality": 0.763, "exponent": 5}}
    assert purpose_of(fixed) == purpose_of(having(fixed, "schedule.duration_seconds", 7200.0))
    assert purpose_of(fixed) == ("lab", "alpha", "imagenet", "", "fixed network")
    assert purpose_of({}) == ("", "", "", "", "ranking")


def test_a_run_that_is_not_as_announced_has_no_place() -> None:
    found = ranked(of("a", 0, 9e12, announcement_fault="not as announced: seed"), of("b", 0, 1e12))

    (_, last) = found.listings[0].rows
    assert (last.place, last.why_not) == (None, "not as announced: seed")


def test_runs_that_share_an_announcement_have_no_place() -> None:
    found = ranked(of("a", 0, 9e12, announcement="one"), of("a", 1, 8e12, announcement="one"), of("b", 0, 1e12))

    assert [(row.place, row.entry.system) for row in found.listings[0].rows] == [(1, "b"), (None, "a"), (None, "a")]
    assert found.listings[0].rows[1].why_not == "2 runs name its announcement, which serves one"


def test_outside_the_ranking_another_procedure_is_another_entry() -> None:
    entries = [entry(f"r{number}", benchmark=QUICK, hosts=("n0",), procedure=each) for number, each in enumerate("aab")]

    assert sorted(len(row.runs) for row in ranked(*entries).listings[0].rows) == [1, 2]


def test_systems_without_a_name_are_known_by_their_hosts() -> None:
    runs = [entry(f"r{number}", hosts=hosts) for number, hosts in enumerate([("n0", "n1"), ("n0", "n1"), ("n2",), ()])]

    assert sorted(len(row.runs) for row in ranked(*runs).listings[0].rows) == [1, 1, 2]


@pytest.mark.parametrize(
    ("system", "runs", "missing", "shown"),
    [
        (None, 1, 0, "b-0"),
        (None, 2, 0, "median of 2 runs: b-0, b-1"),
        ("alpha", 2, 0, "median of 2 runs"),
        ("alpha", 2, 1, "median of 3 runs"),
    ],
)
def test_a_pooled_entry_is_called_the_median_of_its_runs(
    system: str | None, runs: int, missing: int, shown: str
) -> None:
    pooled = [entry(f"b-{number}", system=system, hosts=("n0",), benchmark=RANKED) for number in range(runs)]
    ((row,),) = (listing.rows for listing in ranked(*pooled).listings)
    listed = replace(row, missing=missing)

    assert shown in (name(listed), *_run(listed).second_line.split(", "))
    assert name(listed) == (system or shown)


def test_every_figure_is_the_median_over_the_runs() -> None:
    runs = [of("a", number, 1e12, mfu=0.1 * number, error=0.3 - 0.01 * number) for number in (1, 2, 4)]
    runs += [of("b", number, 1e12, power=Power(100.0, 1e10, "meters", 1) if number else None) for number in (0, 1)]

    rows = {row.entry.system: row.entry for row in ranked(*runs).listings[0].rows}

    figures = rows["a"].figures
    assert figures["mfu"] == pytest.approx(0.2) and figures["error"] == pytest.approx(0.28)
    assert rows["b"].power is None, "one of its runs has no power"


@given(st.lists(st.floats(1, 1e18), min_size=1, max_size=9), st.integers(0, 5))
def test_a_missing_run_never_raises_a_median(values: list[float], missing: int) -> None:
    before, after = middle(values, missing), middle(values, missing + 1)

    assert after is None or (before is not None and after <= before)
    assert middle([-value for value in values], missing, is_less_better=True) == (None if before is None else -before)


def test_one_machine_is_not_separated_from_itself() -> None:
    """Lists of two entries of one machine with a spread of 2 % between seeds and 0.2 % within each run."""
    chance, separated = random.Random(5), 0
    for _ in range(400):
        scores = [1e15 * math.exp(chance.gauss(0, 0.02)) for _ in range(2)]
        entries = [
            of(name, 0, score, flops_per_second_interval=(0.998 * score, 1.002 * score), interval_freedom=38)
            for name, score in zip("ab", scores, strict=True)
        ]
        separated += any(row.tied != (1, 2) for row in ranked(*entries).listings[0].rows)
    assert separated <= 0.05 * 400


def test_an_assumed_spread_never_separates_a_tested_entry() -> None:
    known = of("a", 0, 2e12, flops_per_second_interval=(1.99e12, 2.01e12), interval_freedom=38)
    repeats = [
        of(name, number, 1e12 * (scale + 0.001 * number))
        for name, scale in (("c", 1), ("d", 0.5))
        for number in range(3)
    ]

    rows = {row.entry.system: row for row in ranked(known, of("b", 0, 1.5e12), *repeats).listings[0].rows}

    assert [rows[name].place for name in "abcd"] == [1, 2, 3, 4]
    assert [rows[name].is_tested for name in "abcd"] == [False, False, True, True]
    assert [rows[name].tied for name in "abcd"] == [(1, 1), (2, 2), (1, 3), (2, 4)]


def test_two_single_runs_of_one_machine_share_a_range() -> None:
    found = ranked(of("A1", 0, 1.02e12), of("B1", 0, 1.0e12))

    assert [(row.place, row.tied, row.is_tested) for row in found.listings[0].rows] == [
        (1, (1, 2), False),
        (2, (1, 2), False),
    ]
    assert "(1 to 2, not tested)" in "\n".join(lines(found))


@pytest.mark.parametrize("by", ["score", "regulated", "error", "mfu"])
def test_every_figure_has_ranges_from_repeats_alone(by: str) -> None:
    def run(system: str, number: int, scale: float) -> Entry:
        value = scale * (1 + 0.001 * number)
        return of(system, number, 1e12 * value, error=0.3 / value, mfu=0.3 * value)

    single = [run("single", 0, 1.5)]
    repeats = [run(name, number, scale) for name, scale in (("a", 2.0), ("b", 1.0)) for number in range(3)]
    many = [run(f"m{system}", number, 0.1 + 0.01 * system) for system in range(5) for number in range(3)]

    few, enough = (
        {row.entry.system: row for row in ranked(*single, *others, by=by).listings[0].rows}
        for others in (repeats, (*repeats, *many))
    )

    assert [few[name].tied for name in ("a", "b")] == [(1, 2), (2, 3)]
    assert few["single"].tied == ((2, 2) if by == "score" else None) and not few["single"].is_tested
    assert [enough[name].tied for name in ("a", "single", "b")] == [(1, 1), (2, 2), (3, 3)]
    assert all(row.is_tested for row in enough.values())
    printed = "\n".join(lines(ranked(*single, *repeats, *many, by=by)))
    assert "(14 degrees of freedom), used" in printed and "2 to 2" in printed


def test_every_form_shows_runs_losses_and_the_assumption() -> None:
    score = {"flops_per_second_interval": (0.9e12, 1.1e12), "interval_freedom": 9}
    found = ranked(
        *(of("a", number, 1e12, attempts_lost_share=0.031, **score) for number in range(2)), of("b", 0, 1e12, **score)
    )

    sentence = "assumed spread between runs of one machine: 2 % (4 degrees of freedom)"
    printed = "\n".join(lines(found))
    assert sentence in printed and "(1 to 2, not tested)" in printed and "3.1 % (0.0 %)" in printed
    assert sentence in page(found)
    (first, *_) = csv.DictReader(io.StringIO(csv_text(found), newline=""))
    assert (first["runs"], first["attempts lost [share]"]) == ("2", "0.031")
    (row, *_) = json.loads(json_text(found))["lists"][0]["rows"]
    assert [each["run"] for each in row["runs"]] == ["a-0", "a-1"]


def test_an_order_without_uncertainty_says_not_tested() -> None:
    found = ranked(of("a", 0, 1e12), of("b", 0, 2e12), by="mfu")

    printed = "\n".join(lines(found))
    assert "(not tested)" in printed and "Spread of the repeats in this list: none" in printed
    assert [row["tied"] for row in json.loads(json_text(found))["lists"][0]["rows"]] == [None, None]
