"""First and last whole line of a journal, by which copies of one run are recognized."""

from __future__ import annotations

from pathlib import Path

from aiperf.journal.journal import NAME
from aiperf.journal.sealed_log import ends
from tests.builders.listed_runs import copied, golden


def test_a_journal_is_known_by_its_first_and_last_whole_line(tmp_path: Path) -> None:
    whole = golden(tmp_path / "whole", "resumed-v4")
    same, cut = copied(whole, tmp_path / "same"), copied(whole, tmp_path / "cut", lines=-1)
    torn = copied(whole, tmp_path / "torn")
    with (torn / NAME).open("ab") as file:
        file.write(b'{"type":"Progress","at":1')

    known = ends(whole / NAME)

    assert ends(same / NAME) == known
    assert ends(torn / NAME) == known
    assert ends(cut / NAME).first == known.first
    assert ends(cut / NAME).last != known.last


def test_one_line_is_the_first_and_the_last(tmp_path: Path) -> None:
    one = ends(copied(golden(tmp_path / "whole", "resumed-v4"), tmp_path / "one", lines=1) / NAME)

    assert one.first == one.last
