"""Columns and tables of a CSV export: name, unit, meaning and value of each column."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from aiperf.sanitize import cell

Row = TypeVar("Row")
Cell = str | int | float | bool | None
_LINES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class ExportColumn(Generic[Row]):
    """One column of a table. None is an empty cell: not measured or not defined."""

    name: str
    unit: str
    """'' for a column without a unit."""
    meaning: str
    of: Callable[[Row], Cell]

    @property
    def header(self) -> str:
        """Header of the column in the table's first line: `seconds [s]`."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class ExportTable(Generic[Row]):
    """A table of a run."""

    name: str
    """Name of the file without .csv."""
    row: str
    """The thing that each row describes."""
    columns: Sequence[ExportColumn[Row]]
    rows: Callable[[], Iterable[Row]]
    """Returns the rows once, in file order."""

    def csv(self) -> Iterator[bytes]:
        """Yield the file in pieces: UTF-8, lines ending in CR LF (RFC 4180), numbers that read back exactly."""
        yield _lines([[column.header for column in self.columns]])
        kept: list[list[Cell]] = []
        for row in self.rows():
            kept.append([_cell(column.of(row)) for column in self.columns])
            if len(kept) == _LINES_AT_ONCE:
                yield _lines(kept)
                kept = []
        yield _lines(kept)

    def described(self) -> str:
        """Return a Markdown description of the columns."""
        lines = [
            f"## {self.name}.csv",
            "",
            f"One row: {self.row}.",
            "",
            "| column | unit | what it is |",
            "| --- | --- | --- |",
        ]
        return "\n".join([*lines, *(f"| {each.name} | {each.unit} | {each.meaning} |" for each in self.columns), ""])


def _cell(value: Cell) -> Cell:
    if isinstance(value, bool):
        return "true" if value else "false"
    return cell(value) if isinstance(value, str) else value


def _lines(rows: Sequence[Sequence[Cell]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    return file.getvalue().encode()
