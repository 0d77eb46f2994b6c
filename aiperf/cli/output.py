"""Printing of lines on the standard output: folded to the terminal's width, with commands as the user typed the program."""

from __future__ import annotations

import codecs
import io
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from aiperf.files import escaped
from aiperf.sanitize import sanitize, sanitize_stream

if TYPE_CHECKING:
    from aiperf.report.tables import Table

MODULE = "python -m aiperf"
SCRIPT = "aiperf-cluster"
"""The console script of pyproject.toml."""


def program() -> str:
    """Return the command by which the user started this program: `python -m aiperf` or `aiperf-cluster`."""
    return SCRIPT if Path(sys.argv[0]).name == SCRIPT else MODULE


def print_line(line: str) -> None:
    print(in_users_form(line), flush=True)


def in_users_form(text: str) -> str:
    """Return the text with `python -m aiperf` replaced by the command that the user typed, such as `aiperf-cluster`."""
    return text if program() == MODULE else text.replace(MODULE, program())


NARROWEST = 40
"""Columns. Lines are not folded for a narrower terminal."""


def print_folded(lines: Iterable[str], indent: int = 2) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines:
        text = in_users_form(line)
        for part in folded(text, width, indent) if width >= NARROWEST else [text]:
            print(part, flush=True)


def print_json(value: object, indent: int | None = 2) -> None:
    """Print a value as JSON in ASCII: control characters in its texts are escaped."""
    print(json.dumps(value, indent=indent).replace("\x7f", "\\u007f"))


def print_table(table: Table) -> None:
    """Print a table as text: caption, aligned columns with their names, additional lines below their row, and footnote."""
    rows: list[tuple[list[str], tuple[str, ...]]] = [([column.name for column in table.columns], ())]
    for row in table.rows:
        rows.append(([sanitize(cell.text) for cell in row], tuple(line for cell in row for line in cell.unfolds)))
    widths = [max(len(texts[index]) for texts, _ in rows) for index in range(len(table.columns))]
    aligned = [str.rjust if column.is_number else str.ljust for column in table.columns]
    print_line(f"\n{sanitize(table.caption)}")
    for texts, unfolded in rows:
        cells = (align(text, width) for align, text, width in zip(aligned, texts, widths, strict=True))
        print_line(f"  {'  '.join(cells)}".rstrip())
        print_folded(f"    {sanitize(line)}" for line in unfolded)
    print_folded([f"  {sanitize(table.footnote)}"] if table.footnote else [])


def folded(line: str, width: int, indent: int = 2) -> list[str]:
    """Return a line broken at spaces into lines of at most `width` characters."""
    own = len(line) - len(line.lstrip())
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * (own + indent),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    ) or [""]


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
