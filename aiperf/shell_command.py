"""Text of commands that the program prints for the user, quoted for the shell."""

from __future__ import annotations

import shlex
from pathlib import Path

PROGRAM = "python -m aiperf"
_READ_OTHERWISE = ("~", "'", '"')


def command(*words: str) -> str:
    """Return a command line of this program as text: `python -m aiperf` and the words, quoted for a shell.

    `words`: verb, options and arguments. Without words, only the program is returned.

    >>> command("report", "runs/a b", "--out", "DIR")
    "python -m aiperf report 'runs/a b' --out DIR"
    """
    return " ".join([PROGRAM, shlex.join(words)]) if words else PROGRAM


def option(name: str, path: Path | str) -> str:
    """Return the option NAME=PATH as one word, without quotes for the shell. `command` adds them.

    A path that begins with `~` or a quote, or that is `null`, gets the prefix `./`. It would have another meaning.

    >>> option("resume", Path("runs/a b")), option("resume", "~a"), option("follow", "null")
    ('resume=runs/a b', 'resume=./~a', 'follow=./null')
    """
    text = str(path)
    # `~`, quotes and `null` have a meaning at the beginning of a value
    return f"{name}=./{text}" if text.startswith(_READ_OTHERWISE) or text == "null" else f"{name}={text}"


def resuming(folder: Path) -> str:
    """Return the command line that resumes the run in `folder`: `python -m aiperf resume=FOLDER`, quoted for a shell."""
    return command(option("resume", folder))
