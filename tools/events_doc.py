"""Generator of docs/events.md from the types in aiperf/journal/events.py: `python tools/events_doc.py > docs/events.md`.

Meanings are the docstrings of the source. A field with one meaning in several events is explained once, in COMMON or at a part
of events with the same field. A field without an explanation stops the program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import aiperf.journal.events
from aiperf.journal.events import SCHEMA, EpochFinished, Interval, RunStarted
from aiperf.journal.journal import NAME, Journal
from searchers.propose import RULES

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
"""Meanings of fields without a docstring."""

INTRODUCTION = """\
A run is its journal: state, score, report, resume and verification are folds over these events. Each line is one JSON
object, ended by a newline. `event` names its type and `at` its time. Events hold facts, not conclusions. Only the driver
writes the file, and nothing acts on an event before it is on disk."""

HASH_CHAIN = """\
The last member of every line is `chain`, 64 hexadecimal digits. The line without it (without `,"chain":"…"`, but with the
closing brace) is the body. Then

    chain = SHA-256(chain of the previous line ‖ body), in lower-case hexadecimal

The chain before the first line is 64 times the digit `0`. Both parts are bytes: the digits in ASCII, the body in UTF-8
exactly as written. A changed, removed, added or exchanged line breaks its own hash or the next one. The hash of the last
line identifies the whole journal: with it one can later prove that nothing was changed. It is not a signature: the whole
file can be rewritten with new hashes.

- A last line without its newline was torn by a killed driver. It is dropped with a warning.
- A line has at most 16 MiB. An object names each member once, since readers differ in their treatment of duplicates.
- A line that no run can write is rejected, even with a correct hash: a value outside its range, time that runs backwards, an
  unknown worker, trial, attempt or epoch, a configuration that does not match its hash, anything after the end except a resume
  (`aiperf/journal/validator.py` has the rules). This does not prove that the work was done.
- Other damage is rejected with the line's number. `resume_until=N` continues after line N. The lines after it are kept in
  `journal.jsonl.after-line-N`, the next time in `….2` and so on. `RunResumed` records their number and hash. No kept file is
  overwritten, and every rollback is recorded.
- Events that arrive together are committed together: all or none, with one flush to disk (a simulated run omits the flush)."""

NEXT_SCHEMA = """\
A reader rejects every other schema, and any event or field that this page does not list."""

CHECK = """\
import hashlib, sys

chain = b"0" * 64
for number, line in enumerate(open(sys.argv[1], "rb"), 1):
    body, found = line.removesuffix(b'"}\\n').rsplit(b',"chain":"', 1)
    chain = hashlib.sha256(chain + body + b"}").hexdigest().encode()
    if chain != found:
        sys.exit(f"line {number} does not follow from the line before it")
print(f"{number} lines, all whole; the last hash is {chain.decode()}")
"""
"""Independent program that verifies a journal."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an event or of a part of an event, as in the source."""

    name: str
    type: str
    default: str | None
    meaning: str


def main() -> None:
    """Print the page."""
    print(page(), end="")


def page() -> str:
    """Return the text of docs/events.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Events: the lines of journal.jsonl"
    yield ""
    yield "Written by `tools/events_doc.py` from `aiperf/journal/events.py`; change it there."
    yield ""
    yield INTRODUCTION
    yield "\n## The line and its hash\n"
    yield HASH_CHAIN
    yield from _example()
    yield ""
    yield NEXT_SCHEMA
    yield f"\n## Events of schema {SCHEMA}\n"
    yield "Every event has `at`: seconds since the start of the run, by the driver's clock, also while a run is down."
    for event in events():
        yield from _table(*event)
    yield "\n## Parts of events\n"
    yield "A part of an event is an object without `event` and `at`."
    for part in parts():
        yield from _table(*part)


def _table(name: str, meaning: str, fields: list[Field]) -> Iterator[str]:
    yield f"\n### {name}\n"
    yield meaning
    yield ""
    yield "| field | type | meaning |"
    yield "| --- | --- | --- |"
    for field in fields:
        default = "" if field.default is None else f" Default: `{field.default}`."
        yield f"| `{field.name}` | `{field.type.replace('|', chr(92) + '|')}` | {field.meaning}{default} |"


def _example() -> Iterator[str]:
    yield "\n## An example, and how to verify it\n"
    yield "Two lines (configuration, graph and versions are left empty here):"
    yield "\n```json"
    yield example().rstrip("\n")
    yield "```\n"
    yield "This program does not use AIPerf. Pass it a journal's path:"
    yield "\n```python"
    yield CHECK.rstrip("\n")
    yield "```\n"
    lines = example().splitlines()
    yield "On the two lines it prints:"
    yield "\n```text"
    yield f"{len(lines)} lines, all whole; the last hash is {lines[-1][-66:-2]}"
    yield "```"


def example() -> str:
    """Return a journal of two lines."""
    started = RunStarted(
        at=0.0,
        schema=SCHEMA,
        run="example",
        started_unix=1795262400.0,
        seed=0,
        config={},
        config_hash="",
        start_graph={},
        dataset={"name": "digits", "training_images": 1437, "validation_images": 360},
        duration_seconds=180.0,
        warmup_seconds=20.0,
        versions={},
        machine={},
        proposal_rules=RULES,
    )
    epoch = EpochFinished(
        at=31.5,
        trial=0,
        attempt=1,
        epoch=1,
        accuracy=0.875,
        validation_loss=0.5,
        training_loss=1.25,
        learning_rate=0.1,
        checkpoint=True,
        interval=Interval(
            worker=0,
            start=30.25,
            end=31.5,
            training_images=1437,
            validation_images=360,
            busy_seconds=1.125,
            communication_seconds=0.0625,
            validation_seconds=0.125,
            input_seconds=0.03125,
            checkpoint_seconds=0.0,
        ),
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        with Journal(path) as journal:
            journal.append([started, epoch])
        return path.read_text()


def events() -> Iterator[tuple[str, str, list[Field]]]:
    """Yield name, meaning and fields of each event, in the source's order."""
    for part in _classes():
        if _is_event(part):
            yield part.name, _meaning(part), list(_fields(part))


def parts() -> Iterator[tuple[str, str, list[Field]]]:
    """Yield name, meaning and fields of the parts of events."""
    for part in _classes():
        if not _is_event(part):
            yield part.name, _meaning(part), list(_fields(part))


def _classes() -> Iterator[ast.ClassDef]:
    source = Path(aiperf.journal.events.__file__).read_text()
    return (part for part in ast.parse(source).body if isinstance(part, ast.ClassDef) and part.name != "Event")


def _is_event(part: ast.ClassDef) -> bool:
    return ast.unparse(part.bases[0]) == "Event"


def _meaning(part: ast.ClassDef) -> str:
    return _one_line(ast.get_docstring(part) or "")


def _fields(part: ast.ClassDef) -> Iterator[Field]:
    meanings = {name: meaning for each in _classes() if not _is_event(each) for name, meaning in _own(each)}
    meanings |= COMMON | dict(_own(part))
    for node in part.body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        name = node.target.id
        if name not in meanings:
            raise SystemExit(f"field {part.name}.{name} has no explanation. Write a docstring under it")
        default = None if node.value is None else ast.unparse(node.value)
        yield Field(name, ast.unparse(node.annotation), default, _one_line(meanings[name]))


def _own(part: ast.ClassDef) -> list[tuple[str, str]]:
    """Return the docstrings of a class's fields."""
    return [
        (node.target.id, after.value.value)
        for node, after in pairwise(part.body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
