"""Writes the tables of a ranked run's options into docs/benchmark.md: `python -m tools.ranking_doc`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from aiperf.ranking.required import FREE, JUDGED, REQUIRED

PAGE = Path(__file__).parent.parent / "docs/benchmark.md"
BEGIN, END = "<!-- ranked options: begin -->", "<!-- ranked options: end -->"


def lines() -> Iterator[str]:
    """The tables, as Markdown."""
    yield "| part | options, and what each must be |"
    yield "| --- | --- |"
    for part, rows in groupby(REQUIRED, key=lambda each: each.group):
        told = ", ".join(f"{each.option.partition('.')[2] or each.option} {each.law} [{each.source}]" for each in rows)
        yield f"| {part} | {told} |"
    yield ""
    yield "| option | a rule on what came of it |"
    yield "| --- | --- |"
    yield from (f"| {option} | {rule} |" for option, rule in JUDGED.items())
    yield ""
    yield "| free | why |"
    yield "| --- | --- |"
    yield from (f"| {option} | {why} |" for option, why in FREE.items())


def inserted(page: str) -> str:
    """The page with the tables between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *lines(), "", END + after])


if __name__ == "__main__":
    PAGE.write_text(inserted(PAGE.read_text()))
