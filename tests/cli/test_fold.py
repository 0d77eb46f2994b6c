"""Lines on a narrow terminal: no word is broken, nothing is lost, and what is longer than the terminal stays whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiperf.page.terminal import folded

WORDS = st.lists(
    st.text(st.characters(categories=("L", "N", "P"), include_characters="\u202f"), min_size=1), min_size=1
)


@given(words=WORDS, own=st.integers(0, 6), width=st.integers(40, 200), indent=st.integers(0, 13))
def test_folding_keeps_words_complete_and_lines_in_the_width(
    words: list[str], own: int, width: int, indent: int
) -> None:
    lines = folded(" " * own + " ".join(words), width, indent)

    assert [word for line in lines for word in line.split(" ") if word] == words
    assert lines[0].startswith(" " * own)
    assert all(line.startswith(" " * (own + indent)) for line in lines[1:])
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)
