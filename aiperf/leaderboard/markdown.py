"""Markdown file of a list, in GitHub's dialect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aiperf.leaderboard import tables
from aiperf.leaderboard.leaderboard import Leaderboard
from aiperf.leaderboard.phrases import about, differences, remarks
from aiperf.report.tables import Cell, Table
from aiperf.sanitize import sanitize

_MARKS = re.compile(r"([\\`*_{}\[\]()<>#|~@:!$^=]|(?<=www)\.)")
"""Characters that could form a table's edge, a link, mark-up or a tag."""


def markdown(found: Leaderboard) -> str:
    """Return the Markdown text."""
    return "\n".join(_lines(found))


def _lines(found: Leaderboard) -> Iterator[str]:
    yield f"# AIPerf: runs by {escaped(found.by.title)}\n"
    yield f"{escaped(about(found))}\n"
    for index, listing in enumerate(found.listings, 1):
        yield f"## {escaped(listing.title)}\n"
        if listing.differs:
            yield f"{escaped(differences(listing))}\n"
        yield from _table(tables.order(listing, found.by, index))
        if len(listing.rows) > 1:
            yield from _table(tables.changes(listing, found.by, index))
    if found.sites:
        yield "## Announced runs\n"
        yield from _table(tables.sites(found))
    if found.unread:
        yield "## Not in the list\n"
        yield from _table(tables.unread(found))
    for title, text in remarks(found):
        yield f"**{escaped(title)}.** {escaped(text)}\n"


def _table(shown: Table) -> Iterator[str]:
    yield f"{escaped(shown.caption)}\n"
    yield _line(column.name for column in shown.columns)
    yield "|" + "|".join(" ---: " if column.is_number else " --- " for column in shown.columns) + "|"
    yield from (_line(map(_text, row)) for row in shown.rows)
    yield f"\n{escaped(shown.footnote)}\n" if shown.footnote else ""


def _text(cell: Cell) -> str:
    return f"{cell.text} ({cell.beside})" if cell.beside else cell.text


def _line(cells: Iterator[str]) -> str:
    return "| " + " | ".join(map(escaped, cells)) + " |"


def escaped(text: str) -> str:
    """Return one line of literal text, sanitized and without active mark-up."""
    return _MARKS.sub(r"\\\1", sanitize(text))
