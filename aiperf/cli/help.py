"""`python -m aiperf --help`: verbs, examples, and every option with its default and meaning, taken from the configuration."""

from __future__ import annotations

import ast
import inspect
import io
import sys
from contextlib import redirect_stdout
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from aiperf.cli.arguments import VERBS
from aiperf.cli.program import as_called
from aiperf.config import GROUPS, RunConf, choices, name_of_choice, records_of, schemas_of_parts
from aiperf.option_limits import limits_of
from aiperf.ranking.law import written

EXAMPLES = (
    ("python -m aiperf", "about 3 minutes on this machine, on real images that ship with scikit-learn"),
    (
        "python -m aiperf dry_run=true dataset=imagenet dataset.root=/data/imagenet schedule=ranking",
        "the plan of a ranking run",
    ),
    (
        "python -m aiperf dataset=images dataset.root=/data/cifar10 start=resnet20 schedule.duration_seconds=900",
        "your own images",
    ),
    ("python -m aiperf schedule=ranking dataset=imagenet dataset.root=/data/imagenet", "12 hours; may be ranked"),
    (
        "python -m aiperf +cluster=simulated cluster.workers=4096 schedule=ranking searcher=random",
        "a rehearsal without machines",
    ),
    ("python -m aiperf resume=runs/20261121-120000-digits", "go on after a crash, a kill or Ctrl-C"),
    ("python -m aiperf report runs/20261121-120000-digits", "the report again, on any laptop"),
)


def main() -> int:
    """Prints the help, in one piece; gives the exit status."""
    said = io.StringIO()
    with redirect_stdout(said):
        _print()
    sys.stdout.write(as_called(said.getvalue()))
    return 0


def _print() -> None:
    print("AIPerf: an AutoML benchmark for AI clusters. The score is floating-point work done per second.\n")
    print("usage: python -m aiperf [GROUP=CHOICE …] [OPTION=VALUE …]     a run; ends with a score and a report")
    print("       python -m aiperf [OPTION=VALUE …] --cfg job    what the options compose, as YAML")
    print("       python -m aiperf --version")
    print("       python -m aiperf VERB …\n\nverbs (each has its own --help):")
    for verb, meaning in VERBS.items():
        print(f"  {verb:<10} {meaning}")
    print("\nexamples:")
    for command, meaning in EXAMPLES:
        print(f"  {command}\n      {meaning}")
    print("\ngroups:")
    for group in GROUPS:
        absent = " (absent: this machine; add with +cluster=…)" if group == "cluster" else ""
        print(f"  {group:<10} {', '.join(choices(group))}{absent}")
    print("\noptions of a run:")
    _options(RunConf, "", skip=schemas_of_parts().keys())
    for group, schemas in schemas_of_parts().items():
        shown: dict[str, type[Any]] = {}
        for schema in schemas:
            of = f" ({name_of_choice(schema)})" if len(schemas) > 1 else ""
            print(f"\n{group}{of}: {inspect.getdoc(schema)}")
            owners = _owners(schema)
            _options(schema, f"{group}.", skip={name for name, owner in owners.items() if shown.get(name) is owner})
            shown |= owners


def _owners(schema: type[Any]) -> dict[str, type[Any]]:
    """The class of its family that defines each field of a dataclass: choices share those that they inherit, and no others."""
    return {name: part for part in reversed(schema.__mro__[:-1]) for name in inspect.get_annotations(part)}


def _options(schema: type[Any], prefix: str, skip: Any) -> None:
    meanings = _docstrings(schema)
    is_chosen = name_of_choice(schema) is not None  # by its group: what says which is no option
    for place, field in enumerate(fields(schema)):
        if field.name in skip or (is_chosen and place == 0):
            continue
        if field.default is not MISSING:
            default = field.default
        else:
            default = field.default_factory() if field.default_factory is not MISSING else "???"
        text = " ".join(meanings.get(field.name, "").split())
        described = limits_of(schema)[field.name].described if field.name in limits_of(schema) else ""
        print(f"  {prefix}{field.name}={_written(default)}{f'  ({described})' if described else ''}")
        if text:
            print(f"      {text}")
        for record in records_of(schema, field.name):
            _record(record)


def _record(schema: type[Any]) -> None:
    """One kind of the records of a list: as it is written, with its defaults, then what each field is, and its range."""
    if name_of_choice(schema) is None:
        return
    print(f"      {_written(schema())}\n          {inspect.getdoc(schema)}")
    meanings = _docstrings(schema)
    for field in fields(schema)[1:]:
        print(f"          {field.name} {limits_of(schema)[field.name].words}. {' '.join(meanings[field.name].split())}")


def _written(value: Any) -> str:
    """A value as it is written on the command line."""
    if is_dataclass(value):
        inside = ", ".join(f"{field.name}: {_written(getattr(value, field.name))}" for field in fields(value))
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return written(value)


def _docstrings(schema: type[Any]) -> dict[str, str]:
    """The string that stands under each field of a dataclass and of those it is made from."""
    found: dict[str, str] = {}
    for part in reversed(schema.__mro__[:-1]):
        body = _classes(part.__module__)[part.__name__].body
        for field, after in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found[field.target.id] = str(after.value.value)
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module, by name: its file is read once (`inspect.getsource` reads it anew for every class)."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {part.name: part for part in tree.body if isinstance(part, ast.ClassDef)}
