"""Commands that are printed for a person to type: quoted for the shell, and read back by us as they were meant."""

from __future__ import annotations

import shlex
from pathlib import Path

PROGRAM = "python -m aiperf"
_READ_OTHERWISE = ("~", "'", '"')


def command(*words: str) -> str:
    """A command line; a word that a reader is to fill in is in capitals.

    >>> command("report", "runs/a b", "--out", "DIR")
    "python -m aiperf report 'runs/a b' --out DIR"
    """
    return " ".join([PROGRAM, shlex.join(words)]) if words else PROGRAM


def option(name: str, path: Path | str) -> str:
    """An option of a run whose value is a path, as one word that is not quoted yet.

    >>> option("resume", Path("runs/a b")), option("resume", "~a"), option("follow", "null")
    ('resume=runs/a b', 'resume=./~a', 'follow=./null')
    """
    text = str(path)
    # a shell's mark of home, quotes as Hydra's, and the word for none mean something at a value's beginning
    return f"{name}=./{text}" if text.startswith(_READ_OTHERWISE) or text == "null" else f"{name}={text}"


def resuming(folder: Path) -> str:
    """The command that goes on with a run."""
    return command(option("resume", folder))
