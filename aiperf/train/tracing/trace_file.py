"""Reader of files in Chrome's trace format, as torch.profiler and Horovod write them. Truncated files are read to their end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf.errors import AiperfError


class NoTrace(AiperfError):
    """Error for a file that is no trace: it has no list of events."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Events of a trace file, as JSON objects in the order of the file. Their times are in microseconds."""

    events: tuple[Mapping[str, Any], ...]
    is_truncated: bool
    """True if the file ends before its list of events does."""


def read_trace(path: Path) -> Trace:
    """Return the events of a file in Chrome's trace format.

    Raise NoTrace if the file has no list of events, and OSError if it cannot be read.
    """
    text = path.read_bytes().decode("utf-8", errors="replace")
    begin = text.find("[", max(0, text.find('"traceEvents"')))
    if begin < 0 or text.lstrip()[:1] not in ("[", "{"):
        raise NoTrace(
            f"a trace is a JSON file with a list of events (torch.profiler's export_chrome_trace, Horovod's timeline), "
            f"but found none in {str(path)!r}: name such a file"
        )
    return _events(text, begin + 1)


def _events(text: str, at: int) -> Trace:
    """Return the objects of the JSON list that follow its opening bracket, from position `at` on."""
    decoder = json.JSONDecoder()
    events: list[Mapping[str, Any]] = []
    while True:
        while at < len(text) and text[at] in ", \t\r\n":
            at += 1
        if text[at : at + 1] == "]":
            return Trace(tuple(events), is_truncated=False)
        try:
            event, at = decoder.raw_decode(text, at)
        except ValueError:
            return Trace(tuple(events), is_truncated=True)
        if isinstance(event, dict):
            events.append(event)
