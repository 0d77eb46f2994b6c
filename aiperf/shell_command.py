"""Printed commands, quoted for the shell."""

from __future__ import annotations

import shlex
from pathlib import Path

PROGRAM = "python -m aiperf"
_READ_OTHERWISE = ("~", "'", '"')


def command(*words: str) -> str:
    """Return a command line of this program, with quotes for a shell. Placeholders are in capitals.

    >>> command("report", "runs/a b", "--out", "DIR")
    "python -m aiperf report 'runs/a b' --out DIR"
    """
    return " ".join([PROGRAM, shlex.join(words)]) if words else PROGRAM


def option(name: str, path: Path | str) -> str:
    """Return NAME=PATH as one word of a command line, without quotes.

    >>> option("resume", Path("runs/a b")), option("resume", "~a"), option("follow", "null")
    ('resume=runs/a b', 'resume=./~a', 'follow=./null')
    """
    text = str(path)
    # `~`, quotes and `null` have a meaning at the beginning of a value
    return f"{name}=./{text}" if text.startswith(_READ_OTHERWISE) or text == "null" else f"{name}={text}"


def resuming(folder: Path) -> str:
    return command(option("resume", folder))
