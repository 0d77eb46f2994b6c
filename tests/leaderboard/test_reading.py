"""Journals found under folders and read, whatever is wrong with some of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiperf.errors import NoSuchRun
from aiperf.journal.journal import NAME
from aiperf.leaderboard import reading
from aiperf.leaderboard.entry import Entry
from aiperf.leaderboard.finding import runs_under
from aiperf.leaderboard.leaderboard import Unread
from aiperf.leaderboard.reading import ends, read_entries, read_entry
from aiperf.report.write import report_of
from tests.leaderboard.runs import copied, damaged, golden

RELEASES = ("resumed-v1", "resumed-v2", "resumed-v3", "resumed-v4")


def test_journals_are_found_once_whatever_links_lead_to_them(tmp_path: Path) -> None:
    first = golden(tmp_path / "site" / "first", "resumed-v3")
    second = golden(tmp_path / "second", "resumed-v4")
    golden(second / "checkpoints", "resumed-v4")  # below a run there is no other
    (tmp_path / "site" / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(first)
    (tmp_path / "linked").mkdir()
    os.link(first / NAME, tmp_path / "linked" / NAME)

    found, fruitless = runs_under([str(tmp_path), str(first), str(tmp_path / "site")])

    assert len(found) == 2
    assert {folder.resolve() for folder in found} <= {first, second, tmp_path / "linked"}
    assert fruitless == []


def test_a_word_that_leads_to_nothing_is_told_of_and_costs_the_others_nothing(tmp_path: Path) -> None:
    run = golden(tmp_path / "run", "resumed-v3")
    (tmp_path / "empty").mkdir()

    found, fruitless = runs_under([str(tmp_path / "empty"), str(run), str(tmp_path / "nowhere")])

    assert found == [run]
    assert [each.folder for each in fruitless] == [str(tmp_path / "empty"), str(tmp_path / "nowhere")]
    with pytest.raises(NoSuchRun, match=r"found none: .*nowhere.*no such folder"):
        runs_under([str(tmp_path / "nowhere")])


@pytest.mark.parametrize("release", RELEASES)
def test_a_journal_of_every_release_gives_an_entry_with_the_figures_of_its_report(tmp_path: Path, release: str) -> None:
    folder = golden(tmp_path / release, release)
    report = report_of(folder)

    entry = read_entry(folder)

    assert isinstance(entry, Entry)
    assert entry.flops_per_second == report.score.flops_per_second and entry.flops_per_second
    assert entry.regulated_flops_per_second == report.score.regulated_flops_per_second
    assert (entry.error, entry.mfu) == (report.score.error, report.utilisation.mfu)
    assert (entry.lacks, entry.benchmark.standing, entry.availability) == ("", "outside", report.availability.share)
    assert entry.accelerator_count == 2
    assert entry.breaches == report.breaches and entry.warnings == report.warnings
    assert entry.valid_flops is None


def test_what_cannot_be_read_is_told_of_by_its_folder_and_costs_the_others_nothing(tmp_path: Path) -> None:
    good = golden(tmp_path / "good", "resumed-v3")
    bad = damaged(good, tmp_path / "bad")
    (tmp_path / "rubbish").mkdir()
    (tmp_path / "rubbish" / NAME).write_bytes(b"\x00\xff no journal\n")
    (tmp_path / "gone").mkdir()

    entries, unread = read_entries([bad, tmp_path / "rubbish", good, tmp_path / "gone"])

    assert [entry.folder for entry in entries] == [str(good)]
    reasons = {Path(each.folder).name: each.reason for each in unread}
    assert reasons.keys() == {"bad", "rubbish", "gone"}
    assert "journal damaged at line" in reasons["bad"] and "binary data" in reasons["rubbish"]
    assert "there is none" in reasons["gone"]


def kills_itself(folder: Path) -> Entry | Unread:
    """Reads a folder, unless its name says that it costs the process its life, or that our code fails at it."""
    if folder.name.startswith("deadly"):
        os._exit(9)
    if folder.name.startswith("odd"):
        raise ValueError("of no kind that was thought of")
    return read_entry(folder)


@pytest.mark.slow
def test_a_journal_that_kills_who_reads_it_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = [golden(tmp_path / f"good-{number}", "resumed-v3") for number in range(2)]
    deadly, odd = golden(tmp_path / "deadly", "resumed-v3"), golden(tmp_path / "odd", "resumed-v3")
    monkeypatch.setattr(reading, "read_entry", kills_itself)

    entries, unread = read_entries([good[0], deadly, odd, good[1]], processes=2)

    assert [entry.folder for entry in entries] == [str(folder) for folder in good]
    assert [each.folder for each in unread] == [str(deadly), str(odd)]
    assert "was killed" in unread[0].reason
    assert "a fault of ours (ValueError: of no kind that was thought of)" in unread[1].reason


def test_a_journal_is_known_by_its_first_line_and_its_last_whole_one(tmp_path: Path) -> None:
    whole = golden(tmp_path / "whole", "resumed-v3")
    same, cut = copied(whole, tmp_path / "same"), copied(whole, tmp_path / "cut", lines=-1)
    torn = copied(whole, tmp_path / "torn")
    with (torn / NAME).open("ab") as file:
        file.write(b'{"type":"Progress","at":1')

    known = ends(whole / NAME)

    assert ends(same / NAME) == known
    assert ends(torn / NAME) == known
    assert ends(cut / NAME).first == known.first
    assert ends(cut / NAME).last != known.last


def test_the_last_line_is_found_however_long_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = golden(tmp_path / "whole", "resumed-v3")
    one = copied(folder, tmp_path / "one", lines=1)
    expected = {each: ends(each / NAME) for each in (folder, one)}

    for tail in (1, 7, 100):
        monkeypatch.setattr(reading, "_TAIL", tail)
        assert {each: ends(each / NAME) for each in (folder, one)} == expected
    assert expected[one].first == expected[one].last
