"""Append-only log of JSON lines. The last member, `chain`, is the SHA-256 over the one before and the line's own JSON."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import msgspec

from aiperf.files import bounded_lines
from aiperf.journal.legality import IllegalLine

LONGEST_LINE = 1 << 24
"""Maximum length in bytes. A first line of a journal has about 100 kB, other lines less."""
LONGEST_TEXT = 1 << 20
"""Maximum length of a text or a member's name in a line, in characters."""
ORIGIN = b"0" * 64
"""Seal before the first line."""

_SEAL = b',"chain":"'
TAIL = len(_SEAL) + len(ORIGIN) + len(b'"}\n')
"""Bytes at the end of a line that are not part of its record."""

Record = TypeVar("Record")


class LineRefused(Exception):
    """Error for a line that has no valid seal, holds no record or breaks a rule. The text is the reason."""

    def __init__(self, before: int, why: str) -> None:
        super().__init__(why)
        self.before = before
        """Valid lines before it."""


def sealed(chain: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Return (line with its newline, its seal). `chain`: seal of the previous line. `body`: the record as a JSON object."""
    seal = hashlib.sha256(chain + body).hexdigest().encode()
    return b'%b%b%b"}\n' % (body[:-1], _SEAL, seal), seal


def check_object(content: bytes) -> None:
    """Raise IllegalLine if an object in a JSON text names a member twice, or if a text in it is too long."""

    def members(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(name for name, _ in pairs)
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is not None:
            raise IllegalLine(
                f"an object must name each member once. This line has {twice[:80]!r} {counts[twice]} times"
            )
        for texts in pairs:
            _check_texts(texts)

    json.loads(content, object_pairs_hook=members, parse_int=lambda _: None)


def _check_texts(values: Iterable[Any]) -> None:
    for each in values:
        if isinstance(each, list):
            _check_texts(each)
        elif isinstance(each, str) and len(each) > LONGEST_TEXT:
            raise IllegalLine(f"a text has at most {LONGEST_TEXT} characters. This line has one of {len(each)}")


@dataclass(slots=True)
class SealedLines(Generic[Record]):
    """Checked records of a sealed log. The iteration raises LineRefused. lines, end, chain and torn describe it afterwards."""

    file: IO[bytes]
    """Open at its first line."""
    decode: Callable[[bytes], Record]
    check_first: Callable[[Record], None]
    check: Callable[[Record], None]
    _: KW_ONLY
    of: tuple[str, str]
    """Names of the records and of their writer, for messages."""
    until: int | None = None
    lines: int = 0
    end: int = 0
    """Bytes of all lines read."""
    chain: bytes = ORIGIN
    """Seal of the last line."""
    torn: bytes = b""
    """Bytes after the last whole line, which its writer did not finish."""

    def __iter__(self) -> Iterator[Record]:
        sha256, decode, check, until, tail = hashlib.sha256, self.decode, self.check, self.until, TAIL
        end, chain = 0, ORIGIN
        # Reading a million lines must be fast. The reason for a refused line is therefore determined after the refusal.
        for before, line in enumerate(bounded_lines(self.file, LONGEST_LINE)):
            if before == until:
                break
            if line[-1] != 0x0A:
                if len(line) == LONGEST_LINE:
                    raise LineRefused(before, f"a line has at most {LONGEST_LINE} bytes. This one is longer")
                self.torn = line
                break
            body = line[:-tail] + b"}"
            seal = sha256(chain + body).hexdigest().encode()
            if line[-tail:] != _SEAL + seal + b'"}\n':
                raise LineRefused(before, _why_unsealed(line))
            try:
                record = decode(body)
                if not before:
                    self.check_first(record)
                check(record)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise LineRefused(before, f"it is no {self.of[0]} ({error})") from error
            except IllegalLine as error:
                raise LineRefused(before, f"no {self.of[1]} can write it: {error}") from error
            chain = self.chain = seal
            self.lines = before + 1
            end += len(line)
            yield record
        self.end = end


def _why_unsealed(line: bytes) -> str:
    if line.endswith(b"\r\n"):
        return "it ends in CR LF, which no line of a journal does (an editor, or a transfer as text)"
    if line[-TAIL : -len(ORIGIN) - 3] != _SEAL:
        return "it has no hash"
    return "its hash does not follow from the line before it. One of the two lines was changed"


@dataclass(frozen=True, slots=True)
class JournalHashes:
    """Two SHA-256 hashes that identify a journal, in hexadecimal."""

    first: str
    """SHA-256 of the first line. Journals of one run have the same first line."""
    last: str
    """SHA-256 of the last whole line, which depends on all lines before it."""


def ends(journal: Path) -> JournalHashes:
    """Return the hashes of the first and the last complete line of a journal that the caller has read before."""
    with journal.open("rb") as file:
        first = file.readline()
        file.seek(max(0, file.seek(0, os.SEEK_END) - 2 * LONGEST_LINE))
        tail = file.read()
    whole = tail[: tail.rfind(b"\n") + 1]
    last = whole[whole.rfind(b"\n", 0, -1) + 1 :]
    return JournalHashes(hashlib.sha256(first).hexdigest(), hashlib.sha256(last).hexdigest())


HEAD = 1 << 10
"""Bytes to read from the file."""
_FIRST = b'{"event":"RunStarted"'
"""Beginning of a journal. With two changed bytes the file still counts as a (damaged) journal."""
_PACKED = (
    (b"\x1f\x8b", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    (b"\xfd7zXZ\x00", "xz -dc"),
    (b"BZh", "bzip2 -dc"),
)


def why_no_journal(head: bytes) -> str | None:
    """Return why a file is no journal, to follow 'it is', and what to do. None if it may be one. `head`: its first bytes."""
    if not head:
        return "empty (0 bytes): start another run (python -m aiperf)"
    if _begins_as_a_journal(head):
        return None
    for magic, command in _PACKED:
        if head.startswith(magic):
            return f"compressed: unpack it with {command} FILE > journal.jsonl"
    return f"not a journal (first bytes {head[:16]!r}): pass the run's folder with the journal that its driver wrote"


def _begins_as_a_journal(head: bytes) -> bool:
    if len(head) < len(_FIRST):
        return _FIRST.startswith(head)
    return sum(here != there for here, there in zip(head, _FIRST, strict=False)) <= 2
