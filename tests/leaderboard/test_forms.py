"""A list as page, CSV and JSON, with hostile names."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiperf.journal.sealed_log import JournalHashes
from aiperf.leaderboard.entry import ModelCount, Power, ranking_figure
from aiperf.leaderboard.leaderboard import Leaderboard, UnreadableJournal, leaderboard
from aiperf.leaderboard.list_files import csv_text, json_text, lines, page
from aiperf.report.figures import RANKED
from aiperf.run_warning import RunWarning
from tests.builders.leaderboard_entry import QUICK, entry
from tests.builders.listed_runs import FORMULA, HOSTILE, LONG, SCRIPT

TEXTS = st.text(max_size=40) | st.sampled_from(HOSTILE)


def of(*names: str, **others: Any) -> Leaderboard:
    runs = [
        entry(name, 1e12 * (at + 1), folder=f"runs/{at}", journal=JournalHashes(f"first {at}", f"last {at}"), **others)
        for at, name in enumerate(names)
    ]
    return leaderboard(runs, [UnreadableJournal(name, name) for name in names[:1]], ranking_figure("score"))


class Texts(HTMLParser):
    """Collect the visible text and the tags of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.shown: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.shown.append(data)


def test_no_name_becomes_a_tag_of_the_page() -> None:
    parsed = Texts(page(of(*HOSTILE)))

    assert parsed.tags.count("script") == 1
    assert "img" not in parsed.tags and parsed.handlers == []
    assert SCRIPT in parsed.shown and LONG in parsed.shown


def test_no_text_of_a_journal_becomes_a_tag_wherever_it_stands() -> None:
    texts: dict[str, Any] = dict.fromkeys(
        ("system", "site", "release", "peak_source", "config_hash", "rules_heading"), SCRIPT
    )
    texts |= {"rules_not_met": (SCRIPT,), "warnings": (RunWarning(SCRIPT, "warning", SCRIPT),)}
    texts |= {"accelerators": (ModelCount(SCRIPT, 8),), "power": Power(1.0, 1.0, SCRIPT, 1)}
    other = replace(QUICK, options=((SCRIPT, SCRIPT),), dataset=SCRIPT, start=SCRIPT)
    runs = [
        entry("a", folder=SCRIPT, benchmark=other, **texts),
        entry("b", lacks=SCRIPT, benchmark=replace(other, options=()), **texts),
    ]

    parsed = Texts(page(leaderboard(runs, [UnreadableJournal(SCRIPT, SCRIPT)], ranking_figure("score"))))

    assert parsed.tags.count("script") == 1
    assert "img" not in parsed.tags and parsed.handlers == []


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_names_stay_in_their_csv_cell_and_are_no_formulas(names: list[str]) -> None:
    found = of(*names)

    rows = list(csv.reader(io.StringIO(csv_text(found), newline="")))

    assert len(rows) == 1 + len(names) + 1
    assert len({len(row) for row in rows}) == 1
    for row in rows[1:]:
        assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for cell in row)


def test_the_csv_has_bare_numbers_with_their_units_in_the_header() -> None:
    run = entry("a", 1.25e15, flops_per_second_interval=(1.2e15, 1.3e15), power=Power(2.5e4, 5e10, "meters", 2))

    (row,) = csv.DictReader(io.StringIO(csv_text(leaderboard([run], [], ranking_figure("score"))), newline=""))

    assert float(row["score [FLOPS]"]) == 1.25e15
    assert (float(row["score 95 % low [FLOPS]"]), float(row["power [W]"])) == (1.2e15, 2.5e4)
    assert float(row["flops-per-watt [FLOPS/W]"]) == 5e10
    assert (row["place"], row["EEHPC level"], row["announced runs"]) == ("1", "2", "")
    assert "'" + FORMULA in csv_text(of(FORMULA)).replace('""', '"')


def test_json_has_its_version_and_unrounded_figures() -> None:
    document = json.loads(json_text(of("a", "b", benchmark=QUICK, mfu=1 / 3)))

    assert (document["schema"], document["version"], document["by"]) == ("aiperf-list", 4, "score")
    assert [each["name"] for each in document["metrics"]] == list(RANKED)
    (listing,) = document["lists"]
    assert [row["entry"]["mfu"] for row in listing["rows"]] == [1 / 3, 1 / 3]
    assert [row["place"] for row in listing["rows"]] == [1, 2]
    assert listing["rows"][0]["entry"]["power"] is None
    assert listing["rows"][0]["places"]["mfu"] == 1


def test_terminal_lines_are_sanitized_and_bounded() -> None:
    printed = "\n".join(lines(of(*HOSTILE, "\x1b[2Jcleared")))

    assert "\x1b" not in printed and "\u202e" not in printed
    assert "…" in printed  # a long name is cut, and marked as cut
    rows = [line for line in printed.splitlines() if "TFLOPS" in line]
    assert len(rows) == len(HOSTILE) + 1
    assert max(map(len, rows)) < 160


def test_empty_columns_are_left_out_and_listed() -> None:
    without, with_power = page(of("a", "b", mfu=None)), page(of("a", power=Power(100.0, 1e10, "accelerators", 1)))

    assert "Columns left out because all runs have a dash: MFU, power, FLOPS/W, witnessed, announced." in without
    assert "100\u00a0W" in with_power and "10.0\u00a0GFLOPS/W" in with_power and "Level 1" in with_power


def test_the_same_list_gives_the_same_bytes_in_every_form() -> None:
    for form in (page, csv_text, json_text):
        assert form(of(*HOSTILE)) == form(of(*HOSTILE))
