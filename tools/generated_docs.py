"""Tables of docs/ that are generated from the code: `python -m tools.generated_docs` writes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from aiperf.cli.help import field_docstrings
from aiperf.journal import events
from aiperf.ranking.division import BUILT_IN, Division, Rule, division
from cluster.ports import LISTENING_PORTS

DOCS = Path(__file__).parent.parent / "docs"

COMMON = {
    "schema": "Version of the journal's lines.",
    "seed": "Origin of all randomness of this event.",
    "versions": "Version of each library that affects the result.",
    "machine": "System description of the host: processor, memory, accelerators, limits.",
    "worker": "The worker's number. A worker that returns after a loss has a new number.",
    "host": "Name of the host it is on.",
    "reason": "Explanation for a reader.",
    "number": "The proposal's number, and its trial's.",
    "trial": "The trial's number: that of its proposal.",
    "attempt": "Number of the attempt at the trial, from 1.",
    "epoch": "From 1.",
    "start": "Start of the interval, equal to the end of the previous one, on the driver's clock.",
    "end": "End of the interval.",
    "searcher": "Name of the searcher that made it.",
    "fingerprint": "Fingerprint of the architecture. It does not depend on names of nodes.",
    "backward_flops": "Operations of one image in training, backward: gradients and update.",
    "tensor_backward_flops": "Operations of convolutions and matrix products alone, backward.",
    "parameters": "Trainable values of the network.",
    "batch_size": "Images per accelerator and step.",
    "precision": "Data type of convolutions and matrix products: fp32, tf32, bf16 or fp16.",
    "ranks": "Data-parallel processes that take part.",
    "compiled": "True if the network was compiled by torch.compile.",
    "build_seconds": "Time to build the module.",
    "weights_seconds": "Time to load its weights.",
    "compile_seconds": "Time to compile, and to measure whether compilation is faster.",
    "validation_images": "Validation images evaluated, over all ranks.",
    "training_loss": "Mean training loss of the epoch, including label smoothing.",
    "learning_rate": "Learning rate of the epoch's last step.",
    "from_batch_size": "Batch size per accelerator that did not fit into memory.",
    "to_batch_size": "Batch size per accelerator with which the trial continues.",
}
"""Meanings of fields that several events share, without a docstring."""
EVENTS: tuple[type[msgspec.Struct], ...] = get_args(events.AnyEvent)
PARTS = tuple(
    each
    for each in vars(events).values()
    if inspect.isclass(each) and issubclass(each, msgspec.Struct) and each.__module__ == events.__name__
    if not issubclass(each, events.Event)
)
"""Objects inside of events."""


def event_tables() -> Iterator[str]:
    yield f"\n## Events of schema {events.SCHEMA}\n"
    yield "Every event has `at`: seconds since the start of the run, by the driver's clock, also while a run is down."
    for each in EVENTS:
        yield from _fields_of(each)
    yield "\n## Parts of events\n"
    yield "A part of an event is an object without `event` and `at`."
    for each in PARTS:
        yield from _fields_of(each)


def _fields_of(owner: type[msgspec.Struct]) -> Iterator[str]:
    meanings = {name: text for part in PARTS for name, text in field_docstrings(part).items()}
    meanings |= COMMON | field_docstrings(owner)
    yield f"\n### {owner.__name__}\n\n{_one_line(owner.__doc__ or '')}\n\n| field | type | meaning |\n| --- | --- | --- |"
    for field in msgspec.structs.fields(owner):
        if field.name == "at":
            continue
        if field.name not in meanings:
            raise SystemExit(f"field {owner.__name__}.{field.name} has no explanation. Write a docstring under it")
        kind = inspect.get_annotations(owner)[field.name].replace("|", "\\|")
        yield f"| `{field.name}` | `{kind}` | {_one_line(meanings[field.name])}{_default(field)} |"


def _default(field: msgspec.structs.FieldInfo) -> str:
    value: Any = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return "" if value is msgspec.NODEFAULT else f" Default: `{value!r}`."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def port_table() -> Iterator[str]:
    yield "| port of | process | listens on: one machine / several hosts | protocol | without certificate and token | time |"
    yield "|---|---|---|---|---|---|"
    for port in LISTENING_PORTS:
        addresses = f"{port.one_machine or 'no such port'} / {port.several_hosts}"
        yield f"| {' | '.join((port.purpose, port.process, addresses, port.protocol, port.without_token, port.time))} |"


def division_tables() -> Iterator[str]:
    first = division(BUILT_IN[0])
    yield from _of_division(first, ())
    known = frozenset(row for _, rows in _tables(first) for row in rows)
    for name in BUILT_IN[1:]:
        yield from _of_division(division(name), known)


def _of_division(one: Division, known: Collection[str]) -> Iterator[str]:
    yield f"**`{one.name}`**: {one.title} (`aiperf/ranking/divisions/{one.name}.yaml`)"
    if known:
        ids = {rule.id for rule in one.rules}
        left_out = [rule.id for rule in division(BUILT_IN[0]).rules if rule.fact is not None and rule.id not in ids]
        yield f"\nRows as in `{BUILT_IN[0]}` are left out. Without the rules {', '.join(left_out)}."
    yield ""
    for head, rows in _tables(one):
        yield f"| {head} |"
        yield f"| {' | '.join('---' for _ in head.split(' | '))} |"
        yield from (row for row in rows if row not in known)
        yield ""


def _tables(one: Division) -> Iterator[tuple[str, list[str]]]:
    facts = [rule for rule in one.rules if rule.fact is not None]
    rows = [f"| {rule.id} | {rule.text} {_source(rule)} | {rule.fact}: {rule.law} |" for rule in facts]
    yield "rule | what it says | law", rows
    parts: dict[str, list[str]] = {}
    for rule in one.rules:
        if rule.option is not None:
            part, _, name = rule.option.partition(".")
            parts.setdefault(part, []).append(f"{name or part} {rule.law} {_source(rule)}")
    yield "part | options, and what each must be", [f"| {part} | {', '.join(laws)} |" for part, laws in parts.items()]
    yield "option | judged by the rule", _grouped(one.judged)
    yield "free | why", _grouped(one.free)


def _grouped(by_option: Mapping[str, str]) -> list[str]:
    texts: dict[str, list[str]] = {}
    for option, text in sorted(by_option.items(), key=lambda item: item[1]):
        texts.setdefault(text, []).append(option)
    return [f"| {', '.join(options)} | {text} |" for text, options in texts.items()]


def _source(rule: Rule) -> str:
    letters = {"paper": "P", "predecessor": "C", "decided": "D"}  # as in docs/benchmark.md
    return f"[{', '.join(letters[source] for source in rule.source)}]"


TABLES: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "events": ("events.md", event_tables),
    "ports": ("security.md", port_table),
    "divisions": ("divisions.md", division_tables),
}
"""By the name in the marks: page and contents."""


def current(name: str) -> str:
    page, lines = TABLES[name]
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = (DOCS / page).read_text().partition(begin)
    return "\n".join([before + begin, *lines(), end + rest.partition(end)[2]])


if __name__ == "__main__":
    for name, (page, _) in TABLES.items():
        (DOCS / page).write_text(current(name))
