"""What a report shows beside its own run: sections that whoever knows other runs hands in, for the page and for report.json."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Beside:
    """One section of its own."""

    name: str
    """Of the section, and of the field in report.json."""
    title: str
    parts: tuple[str, ...]
    """Of the page, as HTML."""
    facts: object
    """What report.json holds: dataclasses."""
