"""Rendering of tables, warnings and paragraphs as lines of text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from aiperf.page.section import Table
from aiperf.run_warning import RunWarning
from aiperf.sanitize import sanitize

WIDTH = 80
NARROWEST = 40


def table_lines(shown: Table, width: int = 0) -> Iterator[str]:
    """Yield a table as text: caption, aligned columns with their names, unfolded lines below their row, and footnote.

    `width`: columns of the terminal, to which unfolded lines and footnote are folded. 0 leaves them whole.
    """
    yield sanitize(shown.caption)
    names, *rows = aligned(
        [[column.name for column in shown.columns], *([cell.text for cell in row] for row in shown.rows)],
        [column.is_number for column in shown.columns],
    )
    yield names
    for line, row in zip(rows, shown.rows, strict=True):
        yield line
        for unfolded in (unfolded for cell in row for unfolded in cell.unfolds):
            yield from folded(f"    {sanitize(unfolded)}", width)
    if shown.footnote:
        yield from folded(f"  {sanitize(shown.footnote)}", width)


def aligned(rows: Sequence[Sequence[str]], is_number: Sequence[bool]) -> Iterator[str]:
    """Yield rows as lines with columns of the width of their longest text, numbers aligned to the right."""
    texts = [[sanitize(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, is_number, strict=True)
        )
        yield f"  {'  '.join(cells)}".rstrip()


def columns(*cells: tuple[str, int]) -> str:
    """Return texts in columns of given widths. A negative width aligns to the right."""
    return "".join(f"{text:{width}}" if width > 0 else f"{text:>{-width}}" for text, width in cells).rstrip()


def cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else f"{text[: width - 1]}…"


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


def wrapped(head: str, text: str) -> Iterator[str]:
    """Yield lines of at most 80 columns, the text indented below the head."""
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    ) or [head.rstrip()]


def warning_lines(warnings: Iterable[RunWarning]) -> Iterator[str]:
    for warning in warnings:
        yield from wrapped(f"{warning.severity}: ", warning.text)
        yield from wrapped("  to do: ", warning.remedy)
