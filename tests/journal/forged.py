"""Journals that were rewritten and hash-chained anew, as anyone can do with a text editor and ten lines of Python."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiperf.journal.journal import NAME

Line = dict[str, Any]


def lines_of(journal: Path) -> list[Line]:
    """The lines of a journal as plain values, without their hashes."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        del line["chain"]
    return lines


def hash_chained(bodies: Iterable[bytes]) -> bytes:
    """A journal of these bodies, whatever they are; every hash follows from the one before."""
    chain, whole = b"0" * 64, bytearray()
    for body in bodies:
        chain = hashlib.sha256(chain + body).hexdigest().encode()
        whole += body[:-1] + b',"chain":"' + chain + b'"}\n'
    return bytes(whole)


def body(line: Line) -> bytes:
    """A line as the driver's encoder would write it."""
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode()


def write(folder: Path, lines: Iterable[Line]) -> Path:
    """A run's folder with that journal; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(hash_chained(body(line) for line in lines))
    return folder
