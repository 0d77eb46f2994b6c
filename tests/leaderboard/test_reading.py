"""Search and reading of journals, including damaged ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiperf.journal.journal import NAME
from aiperf.leaderboard import leaderboard
from aiperf.leaderboard.entry import Entry
from aiperf.leaderboard.leaderboard import UnreadableJournal, read_entries, read_entry, runs_under
from aiperf.report.write import report_of
from tests.builders.listed_runs import damaged, golden

RELEASES = ("resumed-v4", "resumed-v5")


def test_journals_are_found_once_whatever_links_lead_to_them(tmp_path: Path) -> None:
    first = golden(tmp_path / "site" / "first", "resumed-v4")
    second = golden(tmp_path / "second", "resumed-v5")
    golden(second / "checkpoints", "resumed-v5")  # below a run there is no other
    (tmp_path / "site" / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(first)
    (tmp_path / "linked").mkdir()
    os.link(first / NAME, tmp_path / "linked" / NAME)

    found, fruitless = runs_under([str(tmp_path), str(first), str(tmp_path / "site")])

    assert {folder.resolve() for folder in found} == {first, second, tmp_path / "linked"} and len(found) == 3
    assert fruitless == []


def test_a_word_without_a_run_does_not_affect_the_others(tmp_path: Path) -> None:
    run = golden(tmp_path / "run", "resumed-v4")
    (tmp_path / "empty").mkdir()

    found, fruitless = runs_under([str(tmp_path / "empty"), str(run), str(tmp_path / "nowhere")])

    assert found == [run]
    assert [each.folder for each in fruitless] == [str(tmp_path / "empty"), str(tmp_path / "nowhere")]
    assert "no such folder" in fruitless[1].reason


@pytest.mark.parametrize("release", RELEASES)
def test_journals_of_every_release_give_entries(tmp_path: Path, release: str) -> None:
    folder = golden(tmp_path / release, release)
    report = report_of(folder)

    entry = read_entry(folder)

    assert isinstance(entry, Entry)
    assert entry.score == report.score.flops_per_second and entry.score
    assert entry.figures["mfu"] == report.utilisation.mfu
    assert (entry.lacks, entry.benchmark.standing, entry.figures["availability"]) == (
        "",
        "outside",
        report.availability.share,
    )
    assert entry.accelerator_count == 2
    assert entry.breaches == report.breaches and entry.warnings == report.warnings
    assert entry.figures["valid-flops"] is None


def test_unreadable_journals_are_listed_by_folder(tmp_path: Path) -> None:
    good = golden(tmp_path / "good", "resumed-v4")
    bad = damaged(good, tmp_path / "bad")
    (tmp_path / "rubbish").mkdir()
    (tmp_path / "rubbish" / NAME).write_bytes(b"\x00\xff no journal\n")
    (tmp_path / "gone").mkdir()

    entries, unread = read_entries([bad, tmp_path / "rubbish", good, tmp_path / "gone"])

    assert [entry.folder for entry in entries] == [str(good)]
    reasons = {Path(each.folder).name: each.reason for each in unread}
    assert reasons.keys() == {"bad", "rubbish", "gone"}
    assert "journal damaged at line" in reasons["bad"] and "not a journal (first bytes" in reasons["rubbish"]
    assert "There is none" in reasons["gone"]


def kills_itself(folder: Path) -> Entry | UnreadableJournal:
    os._exit(9)


@pytest.mark.slow
def test_a_killed_reader_is_named_as_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaderboard, "read_entry", kills_itself)

    entries, unread = read_entries([golden(tmp_path / "deadly", "resumed-v4")], processes=2)

    assert entries == [] and "was killed" in unread[0].reason
