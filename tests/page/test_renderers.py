"""Parts of a section on a page and on a terminal: every text is shown, none becomes a tag or a control character."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from aiperf.page.html import parts_as_html
from aiperf.page.section import (
    Cell,
    Collapsed,
    Column,
    Group,
    Items,
    Note,
    Paragraph,
    Part,
    Steps,
    measured,
    numbers,
    rows,
    table,
    texts,
)
from aiperf.page.terminal import parts_lines, table_lines
from aiperf.run_warning import RunWarning
from aiperf.sanitize import sanitize

WORD = "<script>alert(1)</script>\x1b[2J"
SHOWN = "<script>alert(1)</script>"
TEXTS = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=30)
LEAVES: tuple[Part, ...] = (
    Paragraph(WORD),
    Paragraph(WORD, "heading"),
    Steps((WORD,)),
    Items((WORD, RunWarning(WORD, "critical", WORD))),
    rows("table", WORD, (WORD, f">{WORD}"), [(WORD, Cell(WORD, 1.0, second_line=WORD, unfolds=(WORD,)))], WORD),
)
PARTS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Group(tuple(parts), "beside")),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Note("clear", WORD, tuple(parts))),
    ),
    max_leaves=6,
)


class Content(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.shown = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.shown += data


@given(PARTS)
def test_a_text_of_any_part_is_shown_and_never_a_tag(part: Part) -> None:
    page = Content(parts_as_html([part, None, Collapsed(WORD, (part,))]))
    printed = "\n".join(parts_lines([part, None]))

    assert "script" not in page.tags and SHOWN in page.shown
    assert "\x1b" not in page.shown + printed and SHOWN in printed


def test_a_terminal_leaves_out_what_a_reader_unfolds() -> None:
    assert list(parts_lines([Collapsed("more", (Paragraph("hidden"),))])) == []


@given(st.lists(st.tuples(TEXTS, st.none() | st.floats(0, 1e9)), min_size=1, max_size=5))
def test_a_table_by_columns_equals_the_table_by_rows(lines: list[tuple[str, float | None]]) -> None:
    names, values = zip(*lines, strict=True)

    by_columns = table("one", "caption", (texts("name", names), numbers("value", values, str)))

    assert by_columns == rows(
        "one", "caption", ("name", ">value"), [(name, measured(value, str)) for name, value in lines]
    )
    assert [row[1].key for row in by_columns.rows] == list(values)


@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(2, 12))
def test_columns_of_a_terminal_are_aligned_and_cut(names: list[str], longest: int) -> None:
    columns = (Column("n", longest=longest), ">number", Column("x", on_terminal="left out"))

    head, *lines = table_lines(rows("one", "", columns, [(name, "1", "2") for name in names]))

    assert {len(line) for line in lines} == {len(head)}
    for name, line in zip(names, lines, strict=True):
        kept = name if len(name) <= longest else f"{name[: longest - 1]}…"
        assert line.split("  ")[0] == sanitize(kept) and line.endswith("1")
