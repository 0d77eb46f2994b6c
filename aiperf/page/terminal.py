"""Rendering of sections, their tables and warnings as lines of text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import assert_never

from aiperf.page import section
from aiperf.run_warning import RunWarning
from aiperf.sanitize import sanitize

NARROWEST = 40
INDENT = "  "


def section_lines(shown: section.Section, width: int = 0) -> Iterator[str]:
    """Title and parts of a section, without drawings and collapsed parts. `width`: columns to fold texts to, 0: none."""
    if shown.title:
        yield sanitize(shown.title)
    yield from parts_lines(shown.parts, width)


def parts_lines(parts: Iterable[section.Part | None], width: int = 0) -> Iterator[str]:
    blocks = (list(_lines(part, width)) for part in parts if part is not None)
    for number, lines in enumerate(lines for lines in blocks if lines):
        yield from ([""] if number else [])
        yield from lines


def _lines(part: section.Part, width: int) -> Iterator[str]:
    match part:
        case section.Table():
            yield from table_lines(part, width)
        case section.Paragraph():
            yield from folded(sanitize(part.text), width)
        case section.Steps():
            for number, step in enumerate(part.items, 1):
                yield from folded(f"  {number}. {sanitize(step)}", width)
        case section.Items():
            for item in part.items:
                yield from warning_lines(item, width) if isinstance(item, RunWarning) else folded(sanitize(item), width)
        case section.Group():
            yield from parts_lines(part.parts, width)
        case section.Note():
            yield sanitize(part.title)
            yield from parts_lines(part.parts, width)
        case section.DrawnFigure() | section.Collapsed():
            pass
        case _:
            assert_never(part)


def table_lines(shown: section.Table, width: int = 0) -> Iterator[str]:
    """Yield a table as text: caption, aligned columns with their names, unfolded lines below their row, and footnote."""
    if shown.caption:
        yield sanitize(shown.caption)
    kept = [(at, column) for at, column in enumerate(shown.columns) if column.on_terminal != "left out"]
    texts = [
        [sanitize(column.name) for _, column in kept],
        *([_text(row[at], column) for at, column in kept] for row in shown.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line, row in zip(texts, ((), *shown.rows), strict=True):
        cells = [
            text.rjust(wide) if column.is_number else text.ljust(wide)
            for text, wide, (_, column) in zip(line, widths, kept, strict=True)
        ]
        *first, last = cells
        start = "".join([INDENT if shown.caption else "", *(f"{text}{INDENT}" for text in first)])
        for number, piece in enumerate(folded(last, width - len(start), 0) if any(line) else ()):
            yield f"{' ' * len(start) if number else start}{piece}".rstrip()
        for unfolded in (unfolded for cell in row for unfolded in cell.unfolds):
            yield from folded(f"    {sanitize(unfolded)}", width)
    if shown.footnote:
        yield from folded(f"  {sanitize(shown.footnote)}", width)


def _text(cell: section.Cell, column: section.Column) -> str:
    has_both = cell.second_line and column.on_terminal == "both lines"
    text = sanitize(f"{cell.text} ({cell.second_line})" if has_both else cell.text)
    return text if column.longest is None or len(text) <= column.longest else f"{text[: column.longest - 1]}…"


def folded(line: str, width: int, indent: int = 2) -> list[str]:
    """Return a line broken at spaces into lines of at most `width` characters. A width below 40 leaves it whole."""
    if width < NARROWEST:
        return [line]
    own = len(line) - len(line.lstrip())
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * (own + indent),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    ) or [""]


def warning_lines(warning: RunWarning, width: int = 0) -> Iterator[str]:
    for line in warning.lines:
        yield from folded(sanitize(line), width, len(line.partition(": ")[0].strip()) + 2)
