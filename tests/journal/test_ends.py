"""First and last whole line of a journal, by which copies of one run are recognized."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiperf.journal import sealed_log
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


def test_the_last_line_is_found_whatever_its_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = golden(tmp_path / "whole", "resumed-v4")
    one = copied(folder, tmp_path / "one", lines=1)
    expected = {each: ends(each / NAME) for each in (folder, one)}

    for tail in (1, 7, 100):
        monkeypatch.setattr(sealed_log, "_TAIL", tail)
        assert {each: ends(each / NAME) for each in (folder, one)} == expected
    assert expected[one].first == expected[one].last
