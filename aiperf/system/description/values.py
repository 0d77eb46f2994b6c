"""Values from files of the kernel. An unreadable value is replaced by the reason. Nothing is guessed or omitted."""

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
    """Return the text of a file without surrounding blanks. If it is empty or unreadable: 'not readable: ' and the reason."""
    try:
        return file.read_text(errors="replace").strip() or unread(f"{file} is empty")
    except OSError as error:
        return unread(f"{file}: {error.strerror}")


def number(file: Path) -> int | str:
    """Return the integer in a file. If there is none, return the text 'not readable: ' and the reason."""
    content = text(file)
    if content.lstrip("-").isdecimal():
        return int(content)
    return content if content.startswith(UNREAD) else unread(f"{file}: {content}")


def chosen(file: Path) -> str:
    """Return the choice in brackets from a file such as 'always [madvise] never'. The whole text if it has no brackets.

    For an unreadable file: 'not readable: ' and the reason.
    """
    content = text(file)
    _, bracket, rest = content.partition("[")
    return rest.partition("]")[0] if bracket and not content.startswith(UNREAD) else content
