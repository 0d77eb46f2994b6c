"""Files that are generated from the code, by `python -m tools.generated_docs`: tables of docs/, and report.schema.json."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from aiperf.cli.help import field_docstrings
from aiperf.journal import events
from aiperf.ranking.division import BUILT_IN, Division, Rule, division
from aiperf.report.facts import SCHEMA, VERSION, Report
from aiperf.report.figures import FIGURES

PROJECT = Path(__file__).parent.parent
DOCS = PROJECT / "docs"

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
        kind = re.sub(
            r"\w+", lambda name: events.RANGED.get(name[0], name[0]), inspect.get_annotations(owner)[field.name]
        )
        kind = kind.replace("|", "\\|")
        yield f"| `{field.name}` | `{kind}` | {_one_line(meanings[field.name])}{_default(field)} |"


def _default(field: msgspec.structs.FieldInfo) -> str:
    value: Any = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return "" if value is msgspec.NODEFAULT else f" Default: `{value!r}`."


def _one_line(text: str) -> str:
    return " ".join(text.split())


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
    "divisions": ("divisions.md", division_tables),
}
"""By the name in the marks: page and contents."""


def current(name: str) -> str:
    page, lines = TABLES[name]
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = (DOCS / page).read_text().partition(begin)
    return "\n".join([before + begin, *lines(), end + rest.partition(end)[2]])


SCHEMA_FILE = PROJECT / "aiperf" / "report" / "report.schema.json"
REF = "#/$defs/{name}"


def schema() -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([Report], ref_template=REF)
    for name, owner in dataclasses_of(Report).items():
        describe(parts[name], owner)
    report = parts.pop("Report")
    report["properties"]["schema"] = {"const": SCHEMA, "description": "Name of this format."}
    report["properties"]["version"] = {"const": VERSION, "description": "Version of this format."}
    number = {"type": ["number", "null"]}
    report["properties"]["figures"] = {
        "type": "object",
        "description": "Every figure of the run, by the name that compare, rank and the exports use.",
        "properties": {each.name: {**number, "title": each.title, "description": each.meaning} for each in FIGURES},
        "required": sorted(each.name for each in FIGURES),
    }
    report["required"] = sorted({*report["required"], "schema", "version", "figures"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"report.json of AIPerf, version {VERSION}",
        **report,
        "$defs": {name: parts[name] for name in sorted(parts)},
    }


def schema_text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def dataclasses_of(*of: Any) -> dict[str, type]:
    types_by_name: dict[str, type] = {}
    waiting: list[Any] = [*of]
    while waiting:
        one = waiting.pop()
        waiting += getattr(one, "__args__", ())
        if (
            isinstance(one, type)
            and one.__name__ not in types_by_name
            and (dataclasses.is_dataclass(one) or issubclass(one, msgspec.Struct))
        ):
            types_by_name[one.__name__] = one
            waiting += inspect.get_annotations(one, eval_str=True).values()
    return types_by_name


def describe(part: dict[str, Any], owner: type) -> None:
    """Add the docstrings of fields, and remove defaults: a report contains every field."""
    if "description" in part:
        part["description"] = inspect.cleandoc(part["description"])  # as Python 3.13 compiles it
    descriptions = field_docstrings(owner)
    for name, field in part["properties"].items():
        field.pop("default", None)
        if name in descriptions:
            part["properties"][name] = {**field, "description": " ".join(descriptions[name].split())}
    if not (issubclass(owner, msgspec.Struct) and owner.__struct_config__.omit_defaults):
        part["required"] = sorted(part["properties"])
    # Readers of this version also read reports of later releases, which may contain more fields.
    part.pop("additionalProperties", None)


if __name__ == "__main__":
    for name, (page, _) in TABLES.items():
        (DOCS / page).write_text(current(name))
    SCHEMA_FILE.write_text(schema_text())
