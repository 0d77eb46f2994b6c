"""Reader of files in Chrome's trace format, and the times of the gradient exchange in Horovod's timeline.

A truncated file is read to its end, and unreadable events are counted. Fused tensors repeat the interval of their buffer, and
several tensors wait at the same time. The time of a phase is therefore the length of the union of its intervals.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf.bounded_yaml import LARGEST_NUMBER
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
    content_read = bytearray()
    file = gzip.GzipFile(fileobj=io.BytesIO(content))
    try:
        while block := file.read1(1 << 20):
            content_read += block
            if len(content_read) > LARGEST:
                raise fault_of(path, _RULE, _FIX, NoTrace)(f"has more than {LARGEST} bytes after decompression")
    except EOFError:
        pass  # truncated
    except (gzip.BadGzipFile, zlib.error) as error:
        raise fault_of(path, _RULE, "copy it again", NoTrace)(f"is a damaged gzip file ({error})") from error
    return bytes(content_read)


def _events(text: str, at: int) -> Trace:
    decoder = json.JSONDecoder(strict=False)  # torch.profiler writes control characters
    events: list[Mapping[str, Any]] = []
    unreadable = 0
    is_repaired = False
    while True:
        match = _BETWEEN.match(text, at)
        at = at if match is None else match.end()
        if text[at : at + 1] == "]" or at == len(text):
            return Trace(tuple(events), at == len(text), unreadable)
        try:
            event, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            if not is_repaired:  # backslashes of Windows paths
                text = text[:at] + _ESCAPE.sub(lambda match: "\\\\" if match[1] else match[0], text[at:])
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
    for match in _NEXT.finditer(text, at):
        try:
            event, _ = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        if "ph" in event:
            yield match.end()


def _is_event(event: object) -> bool:
    return (
        isinstance(event, dict)
        and all(isinstance(event.get(name, ""), str) for name in _TEXTS)
        and all(isinstance(event.get(name, 0), str | int | float) for name in _KEYS)
        and all(type(at := event.get(name, 0.0)) in (int, float) and abs(at) <= LARGEST_NUMBER for name in _NUMBERS)
    )


SOURCE = "Horovod timeline"
NEGOTIATION = "negotiation"
PHASES = {
    NEGOTIATION: re.compile(r"^NEGOTIATE_ALLREDUCE$"),
    "wait for data": re.compile(r"^WAIT_FOR_DATA$"),
    "wait for other data": re.compile(r"^WAIT_FOR_OTHER_TENSOR_DATA$"),
    "queuing": re.compile(r"^QUEUE$"),
    "memcpy in": re.compile(r"^MEMCPY_IN_"),
    "all-reduce": re.compile(r"^(NCCL|GLOO|MPI|CCL)_(ADASUM_|CROSS_)?(ALLREDUCE|REDUCESCATTER|ALLGATHER)$"),
    "memcpy out": re.compile(r"^MEMCPY_OUT_"),
}
"""Rows of Table 6, by the names of Horovod 0.28."""
_WHOLE = "ALLREDUCE"
"""Interval of a tensor's exchange after its negotiation."""


@dataclass(frozen=True, slots=True)
class ExchangeTimes:
    """Seconds of each phase of the gradient exchange. Phases that the backend does not report are missing."""

    steps: int
    """Exchanges of the tensor that was exchanged most often. 0 without an exchange."""
    seconds: dict[str, float]
    """Seconds of all steps by phase, in the order of PHASES."""


def union_length(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the total length covered by intervals (begin, end), in their unit. Overlapping parts count once.

    >>> union_length([(0, 2), (1, 3), (5, 6), (0, 2)])
    4.0
    """
    length, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        length += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return length


def exchange_times(trace: Trace) -> ExchangeTimes:
    """An interval without an end is left out."""
    open_intervals: dict[int, list[tuple[str, float]]] = defaultdict(list)
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    exchanges: Counter[int] = Counter()
    for event in trace.events:
        tensor, at = event.get("pid", 0), event.get("ts", 0.0)
        if event.get("ph") == "B":
            open_intervals[tensor].append((event.get("name", ""), at))
        elif event.get("ph") == "E" and open_intervals[tensor]:
            name, begin = open_intervals[tensor].pop()
            exchanges[tensor] += name == _WHOLE
            phase = next((phase for phase, names in PHASES.items() if names.search(name)), None)
            is_within = bool(open_intervals[tensor]) and open_intervals[tensor][0][0] == _WHOLE
            if phase == NEGOTIATION or (phase is not None and is_within):
                spans[phase].append((begin, at))
    seconds = {phase: union_length(spans[phase]) / 1e6 for phase in PHASES if phase in spans}
    return ExchangeTimes(max(exchanges.values(), default=0), seconds)
