"""Values from files of the kernel. An unreadable value is replaced by the reason. Nothing is guessed or omitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

UNREAD = "not readable: "
"""Prefix of a value that could not be read. The reason follows."""
Part = dict[str, Any]


def unread(why: object) -> str:
    return f"{UNREAD}{' '.join(str(why).split())}"


def text(file: Path) -> str:
    """Return the stripped text of a file. If it is empty or unreadable: 'not readable: ' and the reason."""
    try:
        return file.read_text(errors="replace").strip() or unread(f"{file} is empty")
    except OSError as error:
        return unread(f"{file}: {error.strerror}")


def number(file: Path) -> int | str:
    content = text(file)
    if content.lstrip("-").isdecimal():
        return int(content)
    return content if content.startswith(UNREAD) else unread(f"{file}: {content}")


def chosen(file: Path) -> str:
    """Return the choice in brackets from a file such as 'always [madvise] never', or the whole text without brackets."""
    content = text(file)
    _, bracket, rest = content.partition("[")
    return rest.partition("]")[0] if bracket and not content.startswith(UNREAD) else content
