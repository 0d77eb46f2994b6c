"""Parts of a page as values: sections, tables, figures and paragraphs. The renderers decide how they look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

from aiperf import units
from aiperf.run_warning import RunWarning

N = TypeVar("N", bound=float)
OnTerminal = Literal["", "both lines", "left out"]
"""Content of the cells of a column on a terminal. Default: the text without its second line."""


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
    name: str
    is_number: bool = False
    explained: str = ""
    is_less_first: bool = False
    """True if less is better: the first click sorts upwards."""
    sorted: Literal["", "ascending", "descending"] = ""
    """Order in which the rows are already sorted by this column."""
    on_terminal: OnTerminal = ""
    longest: int | None = None
    """Characters of a cell on a terminal. A longer text is cut."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_sortable: bool = False
    footnote: str = ""
    heads_rows: int = 0
    """Index of the column with the row headings."""


@dataclass(frozen=True, slots=True)
class DrawnFigure:
    name: str
    """Name of its files under plots/, and anchor on the page."""
    title: str
    caption: str = ""
    """Content of the figure, and the rule by which points were left out."""
    described: str = ""
    """Description for readers who cannot see the figure."""
    svg: str | None = None
    """Standalone SVG document in light colours. None if there is nothing to draw, with the reason in `empty`."""
    png: bytes | None = None
    """PNG image. None if the figure is not drawn by matplotlib."""
    pdf: bytes | None = None
    """PDF document. None as for `png`."""
    empty: str = ""
    fault: str = ""
    """Reason why there is a figure to draw, but no picture. Also in `empty`."""
    has_own_style: bool = False
    """The SVG has an own style sheet, so that the page shows it as an image."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Plain text. Words within backticks are set as code."""

    text: str
    kind: str = ""
    """Class of the style sheet: "empty" in place of a missing figure, "footnote" for a remark, "heading" within a note."""


@dataclass(frozen=True, slots=True)
class Steps:
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """List of texts, and of warnings with their remedies."""

    items: tuple[str | RunWarning, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that belong together."""

    parts: tuple[Part | None, ...]
    kind: str = ""
    """Class of the style sheet: "beside" for tables next to each other on a wide page."""
    name: str = ""
    """Anchor on the page."""


@dataclass(frozen=True, slots=True)
class Note:
    """Framed remark."""

    kind: Literal["simulated", "outside", "warned", "critical", "clear"]
    title: str
    parts: tuple[Part | None, ...]


@dataclass(frozen=True, slots=True)
class Collapsed:
    """Parts that appear when a reader clicks on the summary. A terminal does not show them."""

    summary: str
    parts: tuple[Part | None, ...]
    is_printed: bool = True


_NO_TEXT = frozenset({"name", "kind", "key", "bar", "png", "pdf", "fault", "facts", "sorted", "on_terminal"})


def reworded(part: Any, words: Callable[[str], str]) -> Any:
    """Return a part of a page with `words` applied to every text that a reader sees. Names of options stay."""
    if isinstance(part, str):
        return words(part)
    if isinstance(part, tuple):
        return tuple(reworded(each, words) for each in part)
    if not is_dataclass(part) or isinstance(part, type) or (isinstance(part, Cell) and part.kind == "option"):
        return part
    hidden = (
        _NO_TEXT - {"name"} if isinstance(part, Column) else _NO_TEXT | ({"link"} if isinstance(part, Cell) else set())
    )
    shown = (field.name for field in fields(part) if field.name not in hidden)
    return replace(part, **{name: reworded(getattr(part, name), words) for name in shown})


Part = Table | DrawnFigure | Paragraph | Steps | Items | Group | Note | Collapsed


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a report: its parts for the page, and its values for report.json."""

    name: str
    """Anchor on the page, and the key of `facts` in report.json."""
    title: str
    parts: tuple[Part | None, ...]
    """Parts in the order of the page. None is skipped."""
    link: str = ""
    """Text in the page's navigation (default: the title)."""
    facts: object = None
    """Dataclass that report.json stores under `name` (default: the section shows fields of Report alone)."""

    @property
    def pictures(self) -> tuple[DrawnFigure, ...]:
        return tuple(part for part in self.parts if isinstance(part, DrawnFigure))


def measured(value: N | None, shown: Callable[[N], str], second_line: str = "") -> Cell:
    """Return a table cell with the text of a number. None gives a dash, which stays last in sorting."""
    return Cell("—") if value is None else Cell(shown(value), value, second_line=second_line)


def share_bar(share: float) -> Cell:
    return Cell(units.share(share), share, bar=max(0.0, min(1.0, share)))


def warned(title: str, warnings: Sequence[RunWarning]) -> Note:
    criticals = any(each.severity == "critical" for each in warnings)
    return Note("critical" if criticals else "warned", title, (Items(tuple(warnings)),))


def row_of(*cells: Cell | str) -> tuple[Cell, ...]:
    """Return the cells as a table row. A string becomes a cell that is sorted by its text."""
    return tuple(Cell(cell) if isinstance(cell, str) else cell for cell in cells)


FIGURE = ("figure", ">value", "meaning")
"""Headings of a table with one figure in a row."""
Filled = tuple[Column, tuple[Cell, ...]]
"""Column and its cells, from the first row on."""


def texts(name: str, cells: Iterable[Cell | str], explained: str = "") -> Filled:
    return Column(name, explained=explained), row_of(*cells)


def numbers(
    name: str,
    values: Iterable[N | None],
    shown: Callable[[N], str],
    explained: str = "",
    second_lines: Sequence[str] | None = None,
    *,
    is_less_first: bool = False,
    on_terminal: OnTerminal = "",
) -> Filled:
    known = list(values)
    lines = [""] * len(known) if second_lines is None else second_lines
    head = Column(name, True, explained, is_less_first, on_terminal=on_terminal)
    return head, tuple(measured(value, shown, line) for value, line in zip(known, lines, strict=True))


def table(
    name: str, caption: str, columns: Iterable[Filled], footnote: str = "", *, is_sortable: bool = False
) -> Table:
    """Return a table that is given by its columns."""
    heads, cells = zip(*columns, strict=True)
    return Table(name, caption, heads, tuple(zip(*cells, strict=True)), is_sortable, footnote)


def rows(
    name: str, caption: str, heads: Iterable[Column | str], cells: Iterable[Iterable[Cell | str]], footnote: str = ""
) -> Table:
    """Return a table that is given by its rows. A heading is a column of texts, one with `>` before it a column of numbers."""
    columns = tuple(
        head if isinstance(head, Column) else Column(head.removeprefix(">"), head.startswith(">")) for head in heads
    )
    return Table(name, caption, columns, tuple(row_of(*row) for row in cells), footnote=footnote)
