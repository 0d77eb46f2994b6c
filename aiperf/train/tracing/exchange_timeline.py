"""Times of the phases of the gradient exchange, read from Horovod's timeline file: the rows of HPC AI500's Table 6.

Fused tensors repeat the interval of their buffer, and several tensors wait at the same time. The time of a phase is therefore
the length of the union of its intervals.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from aiperf.train.tracing.trace_file import Trace

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
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
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
                found[phase].append((begin, at))
    seconds = {phase: union_length(found[phase]) / 1e6 for phase in PHASES if phase in found}
    return ExchangeTimes(max(exchanges.values(), default=0), seconds)
