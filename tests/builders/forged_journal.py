"""Changed journals with a valid hash chain, as anybody can write them with an editor and a short program."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiperf.journal.first_line import config_hash
from aiperf.journal.journal import NAME

Line = dict[str, Any]
Place = tuple[str | int, ...]


def lines_of(journal: Path) -> list[Line]:
    """Return the lines of a journal as plain values, without hashes."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        del line["chain"]
    return lines


def hash_chained(bodies: Iterable[bytes]) -> bytes:
    """Return a journal of these bodies with a valid hash chain."""
    chain, whole = b"0" * 64, bytearray()
    for body in bodies:
        chain = hashlib.sha256(chain + body).hexdigest().encode()
        whole += body[:-1] + b',"chain":"' + chain + b'"}\n'
    return bytes(whole)


def body(line: Line) -> bytes:
    """Return a line as the driver's encoder writes it."""
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode()


def write(folder: Path, lines: Iterable[Line]) -> Path:
    """Write a run's folder with that journal and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(hash_chained(body(line) for line in lines))
    return folder


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield the place of each value inside an object, groups and leaves."""
    for key, inside in (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    ):
        yield (*at, key)
        yield from places(inside, (*at, key))


def changed(line: Line, place: Place, value: Any) -> Line:
    """Return a first line with another value at one place, with the hash of its configuration."""
    line = copy.deepcopy(line)
    inner: Any = line
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = copy.deepcopy(value)
    with suppress(TypeError, ValueError, OverflowError, KeyError):
        line["config_hash"] = config_hash(line["config"])
    return line
