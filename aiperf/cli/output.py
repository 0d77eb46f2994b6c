"""Printing of lines on the standard output: folded to the terminal's width, with commands as the user typed the program."""

from __future__ import annotations

import argparse
import codecs
import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from aiperf import HOME
from aiperf.atomic_files import write_named
from aiperf.errors import explained
from aiperf.files import escaped
from aiperf.page.html import DOCS
from aiperf.page.section import Items, Part
from aiperf.page.terminal import parts_lines
from aiperf.sanitize import sanitize_stream

MODULE = "python -m aiperf"
SCRIPT = "aiperf-cluster"
"""The console script of pyproject.toml."""


def program() -> str:
    """Return a command that starts this program: `python -m aiperf` or `aiperf-cluster`, as the user did.

    If the search path has not this environment first, its path is given: `.venv/bin/python -m aiperf`.
    """
    is_script = Path(sys.argv[0]).name == SCRIPT
    place = Path(sys.argv[0] if is_script else sys.executable).absolute()
    name = SCRIPT if is_script else "python"
    found = shutil.which(name)
    if found is None or Path(found).absolute().parent != place.parent:
        here = Path.cwd()
        name = shlex.quote(str(place.relative_to(here) if here in place.parents[1:] else place))
    return name if is_script else f"{name} -m aiperf"


def print_line(line: str) -> None:
    print(in_users_form(line), flush=True)


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print_line(line)


def in_users_form(text: str) -> str:
    """Return the text with `python -m aiperf` replaced by a command that works as printed (`program`).

    Pages of the documentation get their address, if they are not installed beside the packages (as with the wheel).
    """
    # not within the path of an interpreter
    text = re.sub(rf"(?<![\w/]){MODULE}", lambda _: program(), text)
    return text if Path(HOME, "docs").is_dir() else re.sub(r"(?<![\w/])docs/(?=[\w-]+\.md)", f"{DOCS}/", text)


def print_folded(lines: Iterable[str]) -> None:
    print_parts((Items(tuple(lines)),))


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def document(schema: str, value: Mapping[str, Any]) -> str:
    """Return a result as a JSON object in ASCII, with the name and the version of its schema (cli/schemas) first.

    A version increases if a member is removed or changes its meaning, but not for a new member.
    """
    return json.dumps({"schema": schema, "version": 1, **value}, indent=2).replace("\x7f", "\\u007f")


def print_parts(parts: Iterable[Part | None], width: int | None = None) -> None:
    """Print the parts of a section as text. `width`: number of columns (default: those of the terminal)."""
    print_lines(parts_lines(parts, _width() if width is None else width))


def print_result(
    schema: str,
    value: Mapping[str, Any],
    parts: Iterable[Part | None],
    arguments: argparse.Namespace,
    width: int | None = None,
) -> None:
    """Print a result as the parts of a section, or with --json as JSON. `--out FILE` (of `add_json`) writes the JSON too."""
    whole = document(schema, value)
    if arguments.json:
        print(whole)
    else:
        print_parts(parts, width)
    if (out := getattr(arguments, "json_file", None)) is not None:
        with explained(out, "cannot be written", "Choose another file: --out FILE"):
            write_named(out, f"{whole}\n".encode())


def set_up(*streams: TextIO) -> None:
    """Set streams, such as sys.stdout, to sanitize texts, and to print '?' for characters that their encoding lacks."""
    codecs.register_error("aiperf", _printable)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="aiperf")
        sanitize_stream(stream)


def _printable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return escaped(error.object[error.start : error.end]).encode("ascii", "replace").decode(), error.end
