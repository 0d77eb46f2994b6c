"""A value as it was read, or why it was not: nothing is guessed, and nothing is left out silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

UNREAD = "not readable: "
"""What a value begins with that could not be read; why follows."""
Part = dict[str, Any]
"""Names to values: texts, numbers, lists, or parts of their own."""


def unread(why: object) -> str:
    """In place of a value.

    >>> unread("no such file")
    'not readable: no such file'
    """
    return f"{UNREAD}{' '.join(str(why).split())}"


def text(file: Path) -> str:
    """What stands in a file of the kernel's, without blanks around it."""
    try:
        return file.read_text(errors="replace").strip() or unread(f"{file} is empty")
    except OSError as error:
        return unread(f"{file}: {error.strerror}")


def number(file: Path) -> int | str:
    """The number that stands in a file of the kernel's."""
    told = text(file)
    return int(told) if told.lstrip("-").isdecimal() else told if told.startswith(UNREAD) else unread(f"{file}: {told}")


def chosen(file: Path) -> str:
    """Of a file like 'always [madvise] never' the choice in brackets."""
    told = text(file)
    _, bracket, rest = told.partition("[")
    return rest.partition("]")[0] if bracket and not told.startswith(UNREAD) else told


def common(files: list[Path], what: str) -> str:
    """What all of the files say, or each thing that some say, in order."""
    if not files:
        return unread(f"the kernel shows no {what}")
    return ", ".join(sorted({text(file) for file in files}))
