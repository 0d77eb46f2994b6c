"""List in a terminal: the order of each benchmark in a few columns. The files contain all columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiperf.leaderboard import tables
from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard
from aiperf.leaderboard.phrases import about, differences, torn
from aiperf.report.tables import Cell
from aiperf.sanitize import sanitize

MOST_ROWS = 100
"""Rows of one benchmark. The files contain all rows."""
_SHOWN = ("place", "run", "runs", "score", "regulated score", "error", "lost", "accelerators", "validity")
_WITH_SMALLER_LINE = ("place", "lost")
_WIDEST = {"run": 36, "validity": 44}


def lines(found: Leaderboard) -> Iterator[str]:
    """Yield the printed lines."""
    yield f"by {found.by.title}: {about(found)}"
    for index, listing in enumerate(found.listings, 1):
        yield ""
        yield from _listing(found, listing, index)
    yield from (sanitize(f"warning: {each}") for each in torn(found))
    if found.sites:
        yield ""
    for site in tables.sites(found).rows:
        log, published, missing, broken, twice = (sanitize(cell.text) for cell in site)
        yield f"{log}: {published}; missing: {missing}; not as announced: {broken}; run more often: {twice}"
    if found.unread:
        yield "\nnot in the list:"
        yield from (sanitize(f"  {each.folder}: {each.reason}") for each in found.unread)


def _listing(found: Leaderboard, listing: BenchmarkRuns, index: int) -> Iterator[str]:
    shown = tables.order(listing, found.by, index)
    yield sanitize(f"{listing.title}: {shown.caption}")
    if listing.differs:
        yield sanitize(f"  {differences(listing)}")
    names = [column.name for column in shown.columns]
    wanted = [
        *_SHOWN,
        *(column.name for column in tables.EXPONENT_COLUMNS),
        *([found.by.title] if found.by.title not in _SHOWN else []),
    ]
    columns = sorted(names.index(name) for name in wanted if name in names)
    table = [[names[column] for column in columns]]
    table += [
        [_cut(sanitize(_text(row[column], names[column])), _WIDEST.get(names[column])) for column in columns]
        for row in shown.rows[:MOST_ROWS]
    ]
    widths = [max(len(row[column]) for row in table) for column in range(len(columns))]
    is_number = [shown.columns[column].is_number for column in columns]
    yield from (_aligned(row, widths, is_number) for row in table)
    if len(shown.rows) > MOST_ROWS:
        yield f"  and {len(shown.rows) - MOST_ROWS} more, in the files of --out"
    if basis := tables.basis(listing, found.by):
        yield sanitize(f"  {basis}")
    for change in tables.changes(listing, found.by, index).rows:
        by, runs, correlation, moved, *_ = (cell.text for cell in change)
        if correlation not in ("", tables.NONE):
            yield f"  by {by}: {moved} of {runs} would move, Kendall’s τ {correlation}"


def _text(cell: Cell, column: str) -> str:
    return f"{cell.text} ({cell.second_line})" if cell.second_line and column in _WITH_SMALLER_LINE else cell.text


def _cut(text: str, widest: int | None) -> str:
    return text if widest is None or len(text) <= widest else f"{text[: widest - 1]}…"


def _aligned(row: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> str:
    cells = (
        text.rjust(width) if number else text.ljust(width)
        for text, width, number in zip(row, widths, is_number, strict=True)
    )
    return "  " + "  ".join(cells).rstrip()
