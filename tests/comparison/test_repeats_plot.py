"""`python -m aiperf compare --repeats` draws each run as one dot."""

from __future__ import annotations

from pathlib import Path

from tests.comparison.test_compare import _words
from tests.rigs.user import User


def test_repeats_are_drawn_as_dots_in_three_formats(aiperf: User, runs: Path) -> None:
    answer = aiperf("compare", "--repeats", *_words(runs, "fast", "a0 a1 a2"))

    assert answer.status == 0, answer.err
    files = [Path(line) for line in answer.out.splitlines()[-3:]]
    assert [file.name for file in files] == ["repeats.svg", "repeats.png", "repeats.pdf"]
    svg = files[0].read_text()
    assert "3 runs: run " in svg and ">score<" in svg
    assert files[1].read_bytes().startswith(b"\x89PNG") and files[2].read_bytes().startswith(b"%PDF")
