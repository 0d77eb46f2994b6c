"""Sections of a report: tables, drawings and paragraphs, with the values that report.json holds for them."""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.report.tables import Table


@dataclass(frozen=True, slots=True)
class DrawnFigure:
    """One figure of a report, drawn as SVG, PNG and PDF, or a text in its place."""

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
    has_own_style: bool = False
    """The SVG has an own style sheet, so that the page shows it as an image."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Plain text. Words within backticks are set as code."""

    text: str
    kind: str = ""
    """Class of the style sheet: "empty" in place of a missing figure, "footnote" for a remark."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Numbered list."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Tables next to each other on a wide page."""

    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class CollapsedTables:
    """Tables that appear when a reader clicks on the summary."""

    summary: str
    tables: tuple[Table, ...]


Part = Table | DrawnFigure | Paragraph | Steps | SideBySide | CollapsedTables


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
