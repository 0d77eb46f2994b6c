"""Reader of files in Chrome's trace format. A truncated file is read to its end, and unreadable events are counted."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf.errors import AiperfError
from aiperf.given_file import fault_of, read_bytes

LARGEST = 1 << 30
"""Bytes of a trace, also after decompression. Traces of one step of many ranks have hundreds of MB."""
_RULE = "a trace is a JSON file with a list of events (torch.profiler's export_chrome_trace, Horovod's timeline)"
_FIX = "name such a file"
_BETWEEN = re.compile(r"[,\s]*")
_NEXT = re.compile(r"[,\n]\s*(?=\{)")
"""Place where an event can begin after one that cannot be read."""
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)')
"""An escape of JSON, or a backslash that is none (group 1)."""
_TEXTS, _NUMBERS, _KEYS = ("ph", "name", "cat"), ("ts", "dur"), ("pid", "tid")


class NoTrace(AiperfError):
    """Error for a file that is no trace: it has no list of events."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Events of a trace file, as JSON objects in the order of the file. Their times are in microseconds."""

    events: tuple[Mapping[str, Any], ...]
    is_truncated: bool
    unreadable: int = 0
    """Events that were left out, because they are torn or have a value of a wrong type."""


def read_trace(path: Path) -> Trace:
    """Raise NoTrace if the file cannot be read, has more than 1 GiB, or has no list of events."""
    content = read_bytes(path, _RULE, _FIX, error=NoTrace, largest=LARGEST)
    if content.startswith(b"\x1f\x8b"):
        content = _decompressed(content, path)
    text = content.decode("utf-8-sig", errors="replace")
    del content  # hundreds of MB
    begin = text.find("[", max(0, text.find('"traceEvents"')))
    if begin < 0 or re.match(r"\s*[\[{]", text) is None:
        raise fault_of(path, _RULE, _FIX, NoTrace)("has no such list")
    return _events(text, begin + 1)


def _decompressed(content: bytes, path: Path) -> bytes:
    """Return the content as far as it goes."""
    found = bytearray()
    file = gzip.GzipFile(fileobj=io.BytesIO(content))
    try:
        while block := file.read1(1 << 20):
            found += block
            if len(found) > LARGEST:
                raise fault_of(path, _RULE, _FIX, NoTrace)(f"has more than {LARGEST} bytes after decompression")
    except EOFError:
        pass  # truncated
    except (gzip.BadGzipFile, zlib.error) as error:
        raise fault_of(path, _RULE, "copy it again", NoTrace)(f"is a damaged gzip file ({error})") from error
    return bytes(found)


def _events(text: str, at: int) -> Trace:
    decoder = json.JSONDecoder(strict=False)  # torch.profiler writes control characters
    events: list[Mapping[str, Any]] = []
    unreadable = 0
    is_repaired = False
    while True:
        found = _BETWEEN.match(text, at)
        at = at if found is None else found.end()
        if text[at : at + 1] == "]" or at == len(text):
            return Trace(tuple(events), at == len(text), unreadable)
        try:
            event, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            if not is_repaired:  # backslashes of Windows paths
                text = text[:at] + _ESCAPE.sub(lambda found: "\\\\" if found[1] else found[0], text[at:])
                is_repaired = True
                continue
            following = next(_beginnings(text, at, decoder), None)
            if following is None:
                is_closed = re.search(r"\]\s*(\}\s*$|$|,\s*\")", text[at:]) is not None
                return Trace(tuple(events), not is_closed, unreadable + is_closed)
            unreadable, at = unreadable + 1, following
            continue
        if _is_event(event):
            events.append(event)
        else:
            unreadable += 1


def _beginnings(text: str, at: int, decoder: json.JSONDecoder) -> Iterator[int]:
    for found in _NEXT.finditer(text, at):
        try:
            event, _ = decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            continue
        if "ph" in event:
            yield found.end()


def _is_event(event: object) -> bool:
    return (
        isinstance(event, dict)
        and all(isinstance(event.get(name, ""), str) for name in _TEXTS)
        and all(isinstance(event.get(name, 0), str | int | float) for name in _KEYS)
        and all(type(at := event.get(name, 0.0)) in (int, float) and math.isfinite(at) for name in _NUMBERS)
    )
