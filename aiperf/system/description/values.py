"""Values read from files of the kernel. An unreadable value is replaced by the reason. Nothing is guessed or omitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

UNREAD = "not readable: "
"""Prefix of a value that could not be read. The reason follows."""
Part = dict[str, Any]
"""Names to values: texts, numbers, lists or further parts."""


def unread(why: object) -> str:
    """Return the text that replaces an unreadable value.

    >>> unread("no such file")
    'not readable: no such file'
    """
    return f"{UNREAD}{' '.join(str(why).split())}"


def text(file: Path) -> str:
    """Return the stripped content of a file, or 'not readable: ' with the reason if it is empty or cannot be read."""
    try:
        return file.read_text(errors="replace").strip() or unread(f"{file} is empty")
    except OSError as error:
        return unread(f"{file}: {error.strerror}")


def number(file: Path) -> int | str:
    """Return the integer in a file, or 'not readable: ' with the reason."""
    content = text(file)
    if content.lstrip("-").isdecimal():
        return int(content)
    return content if content.startswith(UNREAD) else unread(f"{file}: {content}")


def chosen(file: Path) -> str:
    """Return the word in brackets from a file such as 'always [madvise] never'. Without brackets: the whole content.

    'not readable: ' with the reason if the file cannot be read.
    """
    content = text(file)
    _, bracket, rest = content.partition("[")
    return rest.partition("]")[0] if bracket and not content.startswith(UNREAD) else content
