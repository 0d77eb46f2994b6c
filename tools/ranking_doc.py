"""Generator of the rules of each division in docs/benchmark.md: `python -m tools.ranking_doc`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from aiperf.ranking.division import BUILT_IN, Division, Rule, division

PAGE = Path(__file__).parent.parent / "docs/benchmark.md"
BEGIN, END = "<!-- ranked options: begin -->", "<!-- ranked options: end -->"


LETTERS = {"paper": "P", "predecessor": "C", "decided": "D"}
"""Source marks of docs/benchmark.md."""


def lines() -> Iterator[str]:
    """Yield the tables of each division as Markdown."""
    for name in BUILT_IN:
        yield from _of_division(division(name))


def _of_division(one: Division) -> Iterator[str]:
    yield f"**`{one.name}`**: {one.title} (`aiperf/ranking/divisions/{one.name}.yaml`)"
    yield ""
    yield "| rule | what it says | law |"
    yield "| --- | --- | --- |"
    for rule in one.rules:
        if rule.fact is not None:
            yield f"| {rule.id} | {rule.text} {_source(rule)} | {rule.fact}: {rule.law} |"
    yield ""
    yield "| part | options, and what each must be |"
    yield "| --- | --- |"
    on_options = [rule for rule in one.rules if rule.option is not None]
    for part, rows in groupby(on_options, key=lambda rule: rule.about.partition(".")[0]):
        of_part = ", ".join(f"{rule.about.partition('.')[2] or rule.about} {rule.law} {_source(rule)}" for rule in rows)
        yield f"| {part} | {of_part} |"
    yield ""
    yield "| option | judged by the rule |"
    yield "| --- | --- |"
    for id, options in groupby(sorted(one.judged, key=one.judged.__getitem__), key=one.judged.__getitem__):
        yield f"| {', '.join(options)} | {id} |"
    yield ""
    yield "| free | why |"
    yield "| --- | --- |"
    for why, options in groupby(sorted(one.free, key=one.free.__getitem__), key=one.free.__getitem__):
        yield f"| {', '.join(options)} | {why} |"
    yield ""


def _source(rule: Rule) -> str:
    return f"[{', '.join(LETTERS[source] for source in rule.source)}]"


def inserted(page: str) -> str:
    """Return the page with the tables between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *lines(), END + after])


if __name__ == "__main__":
    PAGE.write_text(inserted(PAGE.read_text()))
