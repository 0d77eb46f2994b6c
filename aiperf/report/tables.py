"""Tables as values. The HTML page and the list of runs decide how they look."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Cell:
    """Table cell: its text, and the number by which it is sorted. None to sort by text."""

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
    """Return a table cell with the text of a number. None gives a dash, which is sorted as −1."""
    return Cell("—", -1.0) if value is None else Cell(shown(value), value)


def row_of(*cells: Cell | str) -> tuple[Cell, ...]:
    """Return the cells as a table row. A string becomes a cell that is sorted by its text."""
    return tuple(Cell(cell) if isinstance(cell, str) else cell for cell in cells)


def pairs(name: str, caption: str, rows: Iterable[tuple[str, str]], heads: tuple[str, str]) -> Table:
    """Return a table with two columns. `name`: id of the table. `rows`: (name, value). `heads`: headings of the columns."""
    return Table(name, caption, (Column(heads[0]), Column(heads[1])), tuple(row_of(*row) for row in rows))
