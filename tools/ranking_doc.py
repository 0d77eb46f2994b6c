"""Generator of docs/divisions.md, the rules of each division: `python -m tools.ranking_doc`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from aiperf.ranking.division import BUILT_IN, Division, Rule, division

PAGE = Path(__file__).parent.parent / "docs/divisions.md"
HEAD = """# Rules of the divisions

    python -m aiperf check RUN [--division quick]      # the rules that a run breaks, with the fix for each

This page is written by `python -m tools.ranking_doc` from `aiperf/ranking/divisions/*.yaml`. The rules are explained in
[benchmark.md](benchmark.md), "A run that may be ranked". Sources: [P] the paper, [C] the predecessor's code, [D] decided here.
`null` means not declared.
"""

LETTERS = {"paper": "P", "predecessor": "C", "decided": "D"}
"""Source marks of docs/benchmark.md."""


def lines() -> Iterator[str]:
    """Yield the tables of each division as Markdown. Those after the first show only rows that the first does not have."""
    first = division(BUILT_IN[0])
    yield from _of_division(first, ())
    for name in BUILT_IN[1:]:
        yield from _of_division(division(name), frozenset(_rows(first)))


def _of_division(one: Division, known: Collection[str]) -> Iterator[str]:
    """Yield the tables of a division without known rows."""
    yield f"**`{one.name}`**: {one.title} (`aiperf/ranking/divisions/{one.name}.yaml`)"
    if known:
        ids = {rule.id for rule in one.rules}
        left_out = [rule.id for rule in division(BUILT_IN[0]).rules if rule.fact is not None and rule.id not in ids]
        yield ""
        yield f"Rows as in `{BUILT_IN[0]}` are left out. Without the rules {', '.join(left_out)}."
    yield ""
    for head, rows in _tables(one):
        yield f"| {head} |"
        yield f"| {' | '.join('---' for _ in head.split(' | '))} |"
        yield from (row for row in rows if row not in known)
        yield ""


def _rows(one: Division) -> Iterator[str]:
    for _, rows in _tables(one):
        yield from rows


def _tables(one: Division) -> Iterator[tuple[str, list[str]]]:
    """Yield the head and the rows of each table."""
    yield (
        "rule | what it says | law",
        [
            f"| {rule.id} | {rule.text} {_source(rule)} | {rule.fact}: {rule.law} |"
            for rule in one.rules
            if rule.fact is not None
        ],
    )
    parts: dict[str, list[str]] = {}
    for rule in one.rules:
        if rule.option is not None:
            part, _, name = rule.option.partition(".")
            parts.setdefault(part, []).append(f"{name or part} {rule.law} {_source(rule)}")
    yield "part | options, and what each must be", [f"| {part} | {', '.join(laws)} |" for part, laws in parts.items()]
    yield "option | judged by the rule", _grouped(one.judged)
    yield "free | why", _grouped(one.free)


def _grouped(by_option: Mapping[str, str]) -> list[str]:
    """Return one row for the options with the same text."""
    texts: dict[str, list[str]] = {}
    for option, text in sorted(by_option.items(), key=lambda item: item[1]):
        texts.setdefault(text, []).append(option)
    return [f"| {', '.join(options)} | {text} |" for text, options in texts.items()]


def _source(rule: Rule) -> str:
    return f"[{', '.join(LETTERS[source] for source in rule.source)}]"


def page() -> str:
    """Return the text of docs/divisions.md."""
    return "\n".join([HEAD, *lines()])


if __name__ == "__main__":
    PAGE.write_text(page())
