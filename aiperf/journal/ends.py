"""Identity of a journal: hashes of its first and its last whole line. Copies of one run are recognized by them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

_TAIL = 1 << 20


@dataclass(frozen=True, slots=True)
class JournalHashes:
    """Hashes that identify a journal."""

    first: str
    """SHA-256 of the first line. Journals of one run have the same first line."""
    last: str
    """SHA-256 of the last whole line, which depends on all lines before it. If both hashes are equal, the journals are equal.
    """


def ends(journal: Path) -> JournalHashes:
    """Return the identity of a journal whose hash chain was already checked."""
    with journal.open("rb") as file:
        first = file.readline()
        length = file.seek(0, os.SEEK_END)
        last, tail = b"", b""
        while not last and len(tail) < length:  # a line is seldom longer than _TAIL, but may be
            start = max(0, length - len(tail) - _TAIL)
            file.seek(start)
            tail = file.read(length - len(tail) - start) + tail
            whole = tail[: tail.rfind(b"\n") + 1]
            before = whole.rfind(b"\n", 0, -1)
            last = whole[before + 1 :] if whole and (before >= 0 or start == 0) else b""
    return JournalHashes(hashlib.sha256(first).hexdigest(), hashlib.sha256(last).hexdigest())
