"""What can stand at the end of a command line: verbs, their arguments, options, choices and folders of runs.

A candidate is a whole word. One after which the next word begins ends in a space; `part.` and `option=` do not.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import cast

from aiperf.cli.arguments import VERBS, VerbModule, parser_of
from aiperf.cli.shell_scripts import SHELLS

FLAGS_OF_A_RUN = ("--help", "--version", "--cfg")
RUN_OPTIONS = ("resume", "follow")


def candidates(before: Sequence[str], last: str) -> list[str]:
    """What the last word can become, in order. `before`: the words between it and the program's name."""
    return sorted({each for each in _all(before, last) if each.startswith(last)})


def _all(before: Sequence[str], last: str) -> Iterator[str]:
    if before and before[0] == "help":
        yield from (f"{verb} " for verb in VERBS)
    elif before and before[0] in VERBS:
        yield from _of_verb(before[0], before[1:], last)
    elif before and before[-1] == "--cfg":
        yield "job "
    else:
        if not before:
            yield from (f"{verb} " for verb in (*VERBS, "help"))
        if last.startswith("-"):
            yield from (f"{flag} " for flag in FLAGS_OF_A_RUN)
        yield from _options(before, last)


def _of_verb(verb: str, before: Sequence[str], last: str) -> Iterator[str]:
    module = cast(VerbModule, importlib.import_module(f"aiperf.cli.{verb}"))
    parser = parser_of(verb, module)
    if last.startswith("-"):
        yield from (f"{flag} " for action in parser._actions for flag in action.option_strings if flag.startswith("--"))
        return
    positional = {str(action.metavar) for action in parser._actions if not action.option_strings}
    if "RUN" in positional:
        yield from _runs(last)
    if "NAME_OR_FILE" in positional and not before:
        from morphism import STARTS

        yield from (f"{start} " for start in STARTS)
    if verb == "completion":
        yield from (f"{shell} " for shell in SHELLS)
    if module.OPTIONS:
        yield from _options(before, last)


def _options(before: Sequence[str], last: str) -> Iterator[str]:
    """Options and groups; of a cluster those of the kind that is named."""
    from aiperf.config import GROUPS, choices, option_names, schemas_of_parts

    key, is_given, _ = last.partition("=")
    if is_given:
        group = key.removeprefix("+")
        if group in GROUPS and (group == "cluster") == key.startswith("+"):
            yield from (f"{key}={choice} " for choice in choices(group))
        elif key in RUN_OPTIONS:
            yield from (f"{key}={run}" for run in _runs(last.partition("=")[2]))
        elif _is_switch(key):
            yield from (f"{key}={value} " for value in ("true", "false"))
        return
    said = dict(word.lstrip("+").partition("=")[::2] for word in before)
    yield from (f"+{group}=" if group == "cluster" else f"{group}=" for group in GROUPS if group not in said)
    for part in schemas_of_parts():
        if part != "cluster" or part in said:
            yield f"{part}."
            if last.startswith(f"{part}."):
                yield from (f"{part}.{name}=" for name in _fields(part, said.get(part)))
    yield from (f"{name}=" for name in option_names() if "." not in name and name not in GROUPS)


def _fields(part: str, choice: str | None) -> Iterator[str]:
    """What can be set in a part; where a choice of it is named, of that alone."""
    from aiperf.config import name_of_choice, schemas_of_parts

    for schema in schemas_of_parts()[part]:
        chosen_as = name_of_choice(schema)
        if choice is None or chosen_as in (None, choice):
            yield from (field.name for place, field in enumerate(fields(schema)) if chosen_as is None or place)


def _is_switch(key: str) -> bool:
    from aiperf.config import RunConf, schemas_of_parts

    part, _, name = key.rpartition(".")
    schemas = schemas_of_parts().get(part, ()) if part else (RunConf,)
    return any(field.name == name and field.type in ("bool", bool) for schema in schemas for field in fields(schema))


def _runs(typed: str) -> Iterator[str]:
    """Folders of runs below the folder that is typed, and those under runs/ by their names."""
    from aiperf.journal.journal import NAME

    folder = Path(typed.rpartition("/")[0] or ("/" if typed.startswith("/") else "."))
    for found in (folder, *(() if "/" in typed else (Path("runs"),))):
        if not found.is_dir():
            continue
        for path in sorted(found.iterdir()):
            if (path / NAME).is_file():
                yield f"{shlex.quote(str(path))} "
            elif path.is_dir() and found == folder and not path.name.startswith("."):
                yield f"{shlex.quote(str(path))}/"
