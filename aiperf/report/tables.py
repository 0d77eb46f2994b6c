"""Tables as values. The page and the leaderboard decide how they look."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Cell:
    """Table cell: text, and the number that it is sorted by. None to sort by text."""

    text: str
    key: float | None = None
    bar: float | None = None
    """Share, 0..1, drawn as a bar behind the text."""
    second_line: str = ""
    """Smaller line below the text. It is ignored in sorting."""
    unfolds: tuple[str, ...] = ()
    """Lines that a reader can unfold on the screen."""
    link: str = ""
    """Anchor on the same page that the text links to."""
    kind: str = ""
    """Class of the style sheet."""


@dataclass(frozen=True, slots=True)
class Column:
    """Table column. Numbers are aligned to the right."""

    name: str
    is_number: bool = False
    explained: str = ""
    is_less_first: bool = False
    """True if less is better: the first click sorts upwards."""
    sorted: Literal["", "ascending", "descending"] = ""
    """Order in which the rows are already sorted by this column."""


@dataclass(frozen=True, slots=True)
class Table:
    """A captioned table."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_sortable: bool = False
    footnote: str = ""
    heads_rows: int = 0
    """Index of the column with the row headings."""


def measured(value: float | None, shown: Callable[[float], str]) -> Cell:
    """Return the table cell of a figure as text by `shown`. A missing figure is a dash, and is sorted below all others."""
    return Cell("—", -1.0) if value is None else Cell(shown(value), value)


def row_of(*cells: Cell | str) -> tuple[Cell, ...]:
    """Return a row of cells. A string becomes a cell."""
    return tuple(Cell(cell) if isinstance(cell, str) else cell for cell in cells)


def pairs(name: str, caption: str, rows: Iterable[tuple[str, str]], heads: tuple[str, str]) -> Table:
    """Return a table of names and values. `heads`: names of the two columns."""
    return Table(name, caption, (Column(heads[0]), Column(heads[1])), tuple(row_of(*row) for row in rows))
