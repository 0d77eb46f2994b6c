"""Information about the program: `--help` (one screen), `help NAME`, `help options`, `--version` and `--cfg job`."""

from __future__ import annotations

import ast
import inspect
import platform
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from aiperf.cli.arguments import VERB_GROUPS, VERBS
from aiperf.cli.output import in_users_form, print_parts
from aiperf.config import (
    GROUPS,
    MAIN,
    RunConf,
    choices,
    configuration_folder,
    name_of_choice,
    option_names,
    records_of,
    schemas_of_parts,
)
from aiperf.errors import BadConfiguration
from aiperf.journal.options import flat_options
from aiperf.nearest import nearest_option
from aiperf.option_limits import limits_of
from aiperf.page.section import rows
from aiperf.page.terminal import table_lines
from aiperf.ranking.law import written

USAGE = """AIPerf: an AutoML benchmark for AI clusters. The score is floating-point work done per second.

usage: python -m aiperf [GROUP=CHOICE …] [OPTION=VALUE …]    a run, here of 3 min; its score and report
       python -m aiperf VERB …                               see `VERB --help`
       python -m aiperf help OPTION|GROUP|VERB|options       meaning, limits and default (`help options`: all)
       python -m aiperf [OPTION=VALUE …] --cfg job           the composed configuration as YAML; --version
"""
EXAMPLES = """
example:
  python -m aiperf +cluster=slurm cluster.nodes=8 …    submit a job to Slurm and follow it"""
COMMON = {
    "dataset": "{choices}",
    "dataset.root": "folder of the samples, for a data set of files",
    "schedule": "length and rounds: {choices}",
    "schedule.duration_seconds": "length of the run, warm-up included",
    "+cluster": "where to run; default: here. {choices}",
    "accelerators_per_worker": "accelerators (GPUs) of one worker; null: all of a node",
    "start": "starting network, or a JSON file; null: that of the data set",
    "searcher": "search algorithm: {choices}",
    "seed": "all randomness is derived from it",
    "name": "second half of the run's folder, runs/TIME-NAME",
    "dry_run": "print the plan and start nothing",
    "resume": "run to resume after a crash or Ctrl-C, such as runs/20261121-120000-digits",
}
LIBRARIES = ("torch", "ray", "horovod", "hydra-core", "optuna")
"""Distributions of which `--version` shows the version. A journal holds all versions."""


def main(names: Sequence[str] = ()) -> int:
    """Print the help of the program on one screen, or the help on options and parts of the configuration."""
    lines = [line for name in names for line in _entry(name)] if names else list(_screen())
    print(in_users_form("\n".join(lines)))
    return 0


def _screen() -> Iterator[str]:
    yield USAGE
    named = [
        row
        for group, verbs in VERB_GROUPS.items()
        for row in ((group, ""), *((f"  {verb}", meaning) for verb, meaning in verbs.items()))
    ]
    yield from table_lines(rows("verbs", "verbs:", ("", ""), named))
    values, common = usual_values(), []
    for name, meaning in COMMON.items():
        group = name.lstrip("+")
        value = written(values[name]) if values.get(name) is not None else ""
        listed = ", ".join(choices(group)) if group in GROUPS else ""
        first, *more = textwrap.wrap(meaning.format(choices=listed), 76)
        common += [(f"{name}={value}", first), *[("", line) for line in more]]
    yield ""
    yield from table_lines(rows("options", "common options, with the defaults of a run:", ("", ""), common))
    yield EXAMPLES


def _entry(name: str) -> Iterator[str]:
    """Yield the lines about an option, a group, a choice (`schedule=ranking`), a whole part, or all options."""
    key, _, choice = name.lstrip("+-").partition("=")
    parts = schemas_of_parts()
    if key == "options":
        yield "options of a run:"
        yield from _options(RunConf, "", skip=parts.keys())
        for part in parts:
            yield from _part(part)
    elif key in parts:
        if choice and choice not in choices(key):
            raise BadConfiguration(
                f"{key} is one of {', '.join(choices(key))}, but found {choice!r}: choose one of them"
            )
        yield from _part(key, choice)
    elif key in option_names():
        part, _, last = key.rpartition(".")
        schemas = [each for each in (parts[part] if part else (RunConf,)) if last in each.__dataclass_fields__]
        for owner in dict.fromkeys(_owners(schema)[last] for schema in schemas):
            choosing = [schema for schema in schemas if _owners(schema)[last] is owner]
            if part and len(parts[part]) > 1:
                yield f"with {', '.join(f'{part}={name_of_choice(schema)}' for schema in choosing)}:"
            others = choosing[0].__dataclass_fields__.keys() - {last}
            yield from _options(choosing[0], f"{part}." if part else "", others)
    else:
        hint = nearest_option(key, sorted({*VERBS, *option_names(), *parts, "options"}))
        raise BadConfiguration(
            f"help takes a verb, an option or a group, but found {name!r}{hint}. `python -m aiperf help options` lists all"
        )


def _part(part: str, choice: str = "") -> Iterator[str]:
    schemas = schemas_of_parts()[part]
    if part in GROUPS:
        absent = "; absent by default: this machine" if part == "cluster" else ""
        yield f"\n{'+' if part == 'cluster' else ''}{part}={'|'.join(choices(part))}{absent}"
    shown: dict[str, type[Any]] = {}
    for schema in schemas:
        if len(schemas) > 1 and choice not in ("", name_of_choice(schema)):
            continue
        of = f" ({name_of_choice(schema)})" if len(schemas) > 1 else ""
        yield f"\n{part}{of}: {_meaning(schema)}"
        owners = _owners(schema)
        yield from _options(schema, f"{part}.", skip={name for name, one in owners.items() if shown.get(name) is one})
        shown |= owners


def _meaning(schema: type[Any]) -> str:
    return " ".join((inspect.getdoc(schema) or "").split())


def _owners(schema: type[Any]) -> dict[str, type[Any]]:
    """Return the class that defines each field of a dataclass. Choices share the fields that they inherit."""
    return {name: part for part in reversed(schema.__mro__[:-1]) for name in inspect.get_annotations(part)}


def _options(schema: type[Any], prefix: str, skip: Collection[str]) -> Iterator[str]:
    meanings, choice = field_docstrings(schema), name_of_choice(schema)
    for place, field in enumerate(fields(schema)):
        if field.name in skip or (choice is not None and place == 0):  # the first field names the choice
            continue
        name = f"{prefix}{field.name}"
        own = field.default_factory() if field.default_factory is not MISSING else field.default
        is_usual = choice is None or usual_values().get(prefix.rstrip(".")) == choice
        default = usual_values().get(name, own) if is_usual else own
        limits = limits_of(schema)[field.name].description if field.name in limits_of(schema) else ""
        yield f"  {name}={_written(default)}{f'  ({limits})' if limits else ''}"
        if meaning := " ".join(meanings.get(field.name, "").split()):
            yield f"      {meaning}"
        if by_choice := _set_by_choices().get(name):
            listed = "; ".join(f"{chosen}: {_written(value)}" for chosen, value in by_choice.items())
            yield f"      {listed}; else {_written(own)}"
        for record in records_of(schema, field.name):
            yield from _record(record)


def _record(schema: type[Any]) -> Iterator[str]:
    if name_of_choice(schema) is None:
        return
    yield f"      {_written(schema())}\n          {_meaning(schema)}"
    meanings = field_docstrings(schema)
    for field in fields(schema)[1:]:
        yield f"          {field.name} {limits_of(schema)[field.name].condition}. {' '.join(meanings[field.name].split())}"


@cache
def _set_by_choices() -> dict[str, dict[str, Any]]:
    """Return the values that the files of choices set, by option and then by choice ('schedule=quick')."""
    from aiperf.bounded_yaml import load

    values: dict[str, dict[str, Any]] = {}
    for group in GROUPS:
        for choice in choices(group):
            file = load((configuration_folder() / group / f"{choice}.yaml").read_text("utf-8"))
            del file["defaults"]
            for option, value in flat_options(file).items():
                values.setdefault(option, {})[f"{group}={choice}"] = value
    return values


@cache
def usual_values() -> dict[str, Any]:
    from aiperf.bounded_yaml import load

    listed = load((configuration_folder() / MAIN).read_text("utf-8"))["defaults"]
    chosen = {group: choice for each in listed if isinstance(each, dict) for group, choice in each.items()}
    values: dict[str, Any] = {field.name: field.default for field in fields(RunConf) if field.default is not MISSING}
    schedule, *_ = schemas_of_parts()["schedule"]
    values |= {f"schedule.{each.name}": each.default for each in fields(schedule) if each.default is not MISSING}
    values |= chosen
    for option, by_choice in _set_by_choices().items():
        for group, choice in chosen.items():
            if f"{group}={choice}" in by_choice:
                values[option] = by_choice[f"{group}={choice}"]
    return values


def _written(value: Any) -> str:
    if is_dataclass(value):
        inside = ", ".join(f"{field.name}: {_written(getattr(value, field.name))}" for field in fields(value))
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return written(value)


def field_docstrings(schema: type[Any]) -> dict[str, str]:
    """Return the docstrings of a class's fields by field name, with those of its base classes."""
    texts: dict[str, str] = {}
    for part in (each for each in reversed(schema.__mro__) if "__annotations__" in vars(each)):
        body = _classes(part.__module__)[part.__name__].body
        for field, after in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                texts[field.target.id] = str(after.value.value)
    return texts


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module by their names. `inspect.getsource` would read the file again for each class."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {part.name: part for part in tree.body if isinstance(part, ast.ClassDef)}


def version() -> int:
    """Print the versions of the program, its sources, the journal's format, Python and libraries. Return exit status 0."""
    from aiperf.journal.events import SCHEMA
    from aiperf.system.source import COMMIT, SOURCE, revision

    sources = revision()
    shown = {"aiperf-cluster": _installed("aiperf-cluster")}
    if COMMIT in sources:
        shown["commit"] = sources[COMMIT].replace("+", " (with changes)")
    shown |= {
        "sources": f"SHA-256 {sources[SOURCE]}",
        "journal schema": str(SCHEMA),
        "python": platform.python_version(),
    }
    shown |= {name: _installed(name) for name in LIBRARIES}
    print_parts((rows("versions", "", ("", ""), shown.items()),))
    return 0


def _installed(distribution: str) -> str:
    from importlib import metadata  # slow

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def composed(words: Sequence[str]) -> int:
    """Print the configuration of a run as YAML, for the command line `[OPTION=VALUE …] --cfg job`."""
    import argparse

    import yaml

    parser = argparse.ArgumentParser(prog="--cfg", add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--cfg", choices=["job"], required=True)
    try:
        _, options = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise BadConfiguration(f"the form is [OPTION=VALUE …] --cfg job: {error}") from error
    from aiperf.cli.site import words_with_site
    from aiperf.config import as_plain, configure

    print(yaml.safe_dump(as_plain(configure(words_with_site(options))), sort_keys=False, allow_unicode=True), end="")
    return 0
