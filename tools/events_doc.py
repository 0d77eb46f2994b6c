"""Writes docs/events.md from the types in aiperf/journal/events.py: `python tools/events_doc.py > docs/events.md`.

Meanings are the docstrings, read from the source. A field that stands in several events and means the same in each is
explained once, here, or at the part of events that it stands in too; a field that is explained nowhere stops the writing.
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
from tools.events_history import FIRST, RELEASES, changes

COMMON = {
    "schema": 'Version of the journal\'s lines; see "History".',
    "seed": "What everything random of this event's is derived from.",
    "versions": "Version of each library that has a part in the result.",
    "machine": "System description of the host: processor, memory, accelerators, limits.",
    "worker": "The worker's number. One that comes back after a loss has a new number.",
    "host": "Name of the host it is on.",
    "reason": "In words, for a reader.",
    "number": "The proposal's number, and its trial's.",
    "trial": "The trial's number: that of its proposal.",
    "attempt": "Which attempt at the trial, from 1.",
    "epoch": "From 1.",
    "start": "When the interval began: where the one before it ended, on the driver's clock.",
    "end": "When it ended.",
    "searcher": "Name of the searcher that made it.",
    "fingerprint": "The architecture's; names of nodes have no part in it.",
    "backward_flops": "Operations of one image in training, backward: gradients and update.",
    "tensor_backward_flops": "Convolutions and matrix products alone, backward.",
    "parameters": "Learnt values of the network.",
    "batch_size": "Images per accelerator and step.",
    "precision": "What convolutions and matrix products compute in: fp32, tf32, bf16 or fp16.",
    "ranks": "Data-parallel processes that take part.",
    "compiled": "Whether torch.compile made the network's code.",
    "build_seconds": "Building the module.",
    "weights_seconds": "Bringing its weights there.",
    "compile_seconds": "Compiling, and measuring whether it pays.",
    "validation_images": "Validation images evaluated, over all ranks.",
    "training_loss": "Mean over the epoch of the loss that was minimised, label smoothing included.",
    "learning_rate": "Of this epoch's last step.",
    "from_batch_size": "That did not fit, per accelerator.",
    "to_batch_size": "That the trial goes on with.",
}
"""Fields without a docstring of their own."""

INTRODUCTION = """\
A run is its journal: state, score, report, resume and verification are folds over these events. Each line is one JSON
object, ended by a newline; `event` names its type, `at` says when it happened. Events hold facts, not conclusions. The
driver alone writes the file, and nothing acts on an event before it stands on disk."""

HASH_CHAIN = """\
The last member of every line is `chain`, 64 hexadecimal digits. Take the line without it (without `,"chain":"…"`, the
closing brace kept): that is the body. Then

    chain = SHA-256(chain of the line before ‖ body), in lower-case hexadecimal

where the chain before the first line is 64 times the digit `0`, and both parts are bytes: the digits in ASCII, the body
in UTF-8 exactly as it stands. A changed, removed, added or exchanged line breaks its own hash or the next one's. The
hash of the last line stands for the whole journal: whoever keeps it can tell later that nothing was changed. It is no
signature: someone who rewrites the whole file can hash it anew.

- A last line without its newline was torn by a killed driver: it is dropped, and said.
- A line that no run can write is refused as well, however well it is chained: a value outside its range, time that runs back, a
  worker, trial, attempt or epoch that is not there, a configuration that does not fit its hash, anything after the end but
  a resume (`aiperf/journal/validator.py` holds the laws). That the work was really done is not shown by this.
- Damage anywhere else is refused, with the line's number. `resume_until=N` goes on after line N; what stood after it is
  kept in `journal.jsonl.after-line-N`, the next time in `….2` and so on, and `RunResumed` says how many lines that were and
  their hash: nothing kept is overwritten, and no rollback goes untold.
- Events that arrive together are committed together: all of them or none, with one flush to the disk (a simulated run
  does without the flush)."""

NEXT_SCHEMA = """\
What is new in a release stands under that release's number; a test compares this history with the types. A reader reads
the schemas named here, takes what an older one does not have by its default, and refuses a schema that it does not know and
an event or a field that stands nowhere here."""

CHECK = """\
import hashlib, sys

chain = b"0" * 64
for number, line in enumerate(open(sys.argv[1], "rb"), 1):
    body, found = line.removesuffix(b'"}\\n').rsplit(b',"chain":"', 1)
    chain = hashlib.sha256(chain + body + b"}").hexdigest().encode()
    if chain != found:
        sys.exit(f"line {number} does not follow from the one before it")
print(f"{number} lines, all whole; the last hash is {chain.decode()}")
"""
"""A program of the reader's own that verifies a journal."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an event or of a part of one, as the source has it."""

    name: str
    type: str
    default: str | None
    meaning: str


def main() -> None:
    """Prints the page."""
    print(page(), end="")


def page() -> str:
    """docs/events.md."""
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
    yield "\n## History\n"
    yield "| schema | since | change |"
    yield "| --- | --- | --- |"
    yield f"| 1 | {RELEASES[1]} | the first form: {len(FIRST)} events |"
    for change in changes():
        yield f"| {change.schema} | {RELEASES[change.schema]} | {change.text} |"
    yield ""
    yield NEXT_SCHEMA
    yield f"\n## Events of schema {SCHEMA}\n"
    yield "Every event has `at`: seconds since the run began, on the driver's clock, which goes on while a killed run is down."
    for event in events():
        yield from _table(*event)
    yield "\n## What stands inside of events\n"
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
    yield "This program needs nothing of AIPerf's; give it a journal's path:"
    yield "\n```python"
    yield CHECK.rstrip("\n")
    yield "```\n"
    lines = example().splitlines()
    yield "On the two lines it prints:"
    yield "\n```text"
    yield f"{len(lines)} lines, all whole; the last hash is {lines[-1][-66:-2]}"
    yield "```"


def example() -> str:
    """A journal of two lines."""
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
    """Name, meaning and fields of each event, in the source's order."""
    for part in _classes():
        if _is_event(part):
            yield part.name, _meaning(part), list(_fields(part))


def parts() -> Iterator[tuple[str, str, list[Field]]]:
    """Name, meaning and fields of what stands inside of events."""
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
    said = {name: meaning for each in _classes() if not _is_event(each) for name, meaning in _own(each)}
    said |= COMMON | dict(_own(part))
    for here in part.body:
        if not (isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name)):
            continue
        name = here.target.id
        if name not in said:
            raise SystemExit(f"every field is explained; {part.name}.{name} is not: write a docstring under it")
        default = None if here.value is None else ast.unparse(here.value)
        yield Field(name, ast.unparse(here.annotation), default, _one_line(said[name]))


def _own(part: ast.ClassDef) -> list[tuple[str, str]]:
    """The docstrings under a class's fields."""
    return [
        (here.target.id, after.value.value)
        for here, after in pairwise(part.body)
        if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
