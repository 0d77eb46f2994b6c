"""A column of an exported table: its name, its unit, what it means, and where its figure comes from."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from aiperf.plain import cell

Row = TypeVar("Row")
Cell = str | int | float | bool | None
_LINES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column; None is an empty cell: not measured, or not defined."""

    name: str
    unit: str
    """'' where it has none."""
    meaning: str
    of: Callable[[Row], Cell]

    @property
    def header(self) -> str:
        """As it stands in the table's first line: `seconds [s]`."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """A table of a run: one row for each thing that `row` says."""

    name: str
    """Of its file, without .csv."""
    row: str
    columns: Sequence[Column[Row]]
    rows: Callable[[], Iterable[Row]]
    """Gives them once, in the order in which they are written."""

    def csv(self) -> Iterator[bytes]:
        """The file, piece by piece: UTF-8, lines that end in CR LF (RFC 4180), numbers such that they read back equal."""
        yield _lines([[column.header for column in self.columns]])
        kept: list[list[Cell]] = []
        for row in self.rows():
            kept.append([_cell(column.of(row)) for column in self.columns])
            if len(kept) == _LINES_AT_ONCE:
                yield _lines(kept)
                kept = []
        yield _lines(kept)

    def described(self) -> str:
        """Its columns, in Markdown."""
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
