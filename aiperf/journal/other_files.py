"""What a file is that is no journal, from its first bytes: told by name, with what makes a journal of it where that can be.

A journal comes by mail, out of an archive, through an editor or from another program; whoever is handed one is to know which.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

HEAD = 1 << 16
"""So many bytes are looked at."""
_FIRST = b'{"event":"RunStarted"'
"""How a journal begins. Where two bytes of it were changed it is still one, and damaged."""
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that is no journal."""

    what: str
    """After 'it is'."""
    remedy: str


_AGAIN = "give the run's folder with the journal that its driver wrote"
_PACKED = (
    (b"\x1f\x8b", "gzip", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
    (b"\xfd7zXZ\x00", "xz", "xz -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
)
_ARCHIVES = ((b"PK\x03\x04", "a zip archive"), (b"\x7fELF", "a program"), (b"%PDF", "a PDF"), (b"\x89PNG", "a picture"))
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def other_file(head: bytes) -> OtherFile | None:
    """What it is, by its first `HEAD` bytes; None: it begins as a journal does."""
    for magic, name, command in _PACKED:
        if head.startswith(magic):
            return OtherFile(f"compressed with {name}", f"unpack it: {command} FILE > journal.jsonl")
    for magic, name in _ARCHIVES:
        if head.startswith(magic):
            return OtherFile(name, _AGAIN)
    if _is_ours(head):
        return _with_carriage_returns(head)  # else a journal's own line, which may be damaged
    if not head:
        return OtherFile("empty (0 bytes)", "nothing was written to it: begin another run (python -m aiperf)")
    if not head.strip(b"\0"):
        return OtherFile("zeros alone, as after a power failure", "take the journal from a copy, or begin another run")
    if head.startswith(_UTF_16) or head[1:20:2].strip(b"\0") == b"" or head[:20:2].strip(b"\0") == b"":
        return OtherFile("text in UTF-16", "an editor has changed it: iconv -f UTF-16 -t UTF-8 FILE > journal.jsonl")
    if head.startswith(_MARK) and _is_ours(head[len(_MARK) :]):
        return OtherFile(
            "a journal with a byte order mark before it", r"take it away: sed -i '1s/^\xEF\xBB\xBF//' FILE"
        )
    return _text(head)


def _is_ours(head: bytes) -> bool:
    if len(head) < len(_FIRST):
        return bool(head) and _FIRST.startswith(head)
    return sum(here != there for here, there in zip(head, _FIRST, strict=False)) <= 2


def _with_carriage_returns(head: bytes) -> OtherFile | None:
    first, newline, _ = head.partition(b"\n")
    if newline and first.endswith(b"\r"):
        return OtherFile("a journal whose lines end in CR LF", "take the CRs away: sed -i 's/\\r$//' FILE")
    return None


def _text(head: bytes) -> OtherFile:
    try:
        # a character may be cut at the end of what was looked at
        text = head.decode("utf-8") if len(head) < HEAD else head[: HEAD - 4].decode("utf-8", "ignore")
    except UnicodeDecodeError:
        return OtherFile("binary data that no journal begins with", _AGAIN)
    text = text.removeprefix("\ufeff").lstrip()
    if text.startswith(":::MLL"):
        return OtherFile("a log of MLPerf", _AGAIN)
    if text.startswith("<"):
        return OtherFile("a page (HTML or XML)", _AGAIN)
    if text.startswith("["):
        return OtherFile("a JSON array", _AGAIN) if _begins_json(text) else OtherFile("plain text", _AGAIN)
    if not text.startswith("{"):
        return OtherFile("plain text", _AGAIN)
    if '"score"' in text and '"run"' in text and '"event"' not in text:
        return OtherFile("a report.json", "give the folder that it lies in")
    keys = _first_object(text)
    if keys is None or "event" not in keys:
        return OtherFile("JSON of another program", _AGAIN)
    return OtherFile(
        "JSON lines that were written anew (with other spaces, or another order of keys), which no hash fits",
        "take the journal as its driver wrote it",
    )


def _begins_json(text: str) -> bool:
    """Whether what begins with a bracket goes on as JSON does: a log's line may begin with one too."""
    rest = text[1:].lstrip()
    return not rest or (rest[0] in '{["]-0123456789' and not rest[:4].isdigit()) or rest[:4] in ("true", "null")


def _first_object(text: str) -> list[str] | None:
    """The keys of the first JSON object; None: it does not end within what was looked at, or is none."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return list(found)
