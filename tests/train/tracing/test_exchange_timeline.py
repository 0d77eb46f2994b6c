"""Phases of the exchange in Horovod's timelines: a real one of two ranks on Gloo, one with NCCL's names, and truncated ones."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.train.tracing.trace_file import (
    PHASES,
    ExchangeTimes,
    NoTrace,
    Trace,
    exchange_times,
    read_trace,
    union_length,
)

REAL = Path(__file__).parent / "horovod_two_ranks.json"
"""Three steps of two ranks by Horovod 0.28.1 on Gloo."""
FOLDER = tempfile.TemporaryDirectory()
NCCL = {
    "wait for data": "WAIT_FOR_DATA",
    "wait for other data": "WAIT_FOR_OTHER_TENSOR_DATA",
    "queuing": "QUEUE",
    "memcpy in": "MEMCPY_IN_FUSION_BUFFER",
    "all-reduce": "NCCL_ALLREDUCE",
    "memcpy out": "MEMCPY_OUT_FUSION_BUFFER",
}
TABLE_6 = {
    # microseconds: negotiation, wait for data, wait for other data, queuing, memcpy in, all-reduce, memcpy out
    "EWA": (54837, 1746, 2961, 65863, 108, 66228, 197),
    "IC": (22836, 85418, 27036, 43, 1256, 4153, 993),
}


def timeline(micros: tuple[int, ...], tensors: int, steps: int) -> Trace:
    """Return a timeline of fused tensors, each with the same intervals of the given lengths."""
    events: list[dict[str, Any]] = []
    for tensor in range(1, tensors + 1):
        for step in range(steps):
            at = step * 1_000_000
            names = ("NEGOTIATE_ALLREDUCE", *NCCL.values())
            for number, (name, length) in enumerate(zip(names, micros, strict=True)):
                if number == 1:
                    events.append({"ph": "B", "name": "ALLREDUCE", "ts": at, "pid": tensor})
                events += [
                    {"ph": "B", "name": name, "ts": at, "pid": tensor},
                    {"ph": "E", "ts": at + length, "pid": tensor},
                ]
                at += length
            events.append({"ph": "E", "ts": at, "pid": tensor, "args": {"dtype": "float32"}})
    return Trace(tuple(events), is_truncated=False)


@given(st.integers(1, 5), st.integers(1, 3))
def test_fused_tensors_count_once(tensors: int, steps: int) -> None:
    found = exchange_times(timeline(TABLE_6["IC"], tensors, steps))

    assert found.steps == steps
    assert list(found.seconds) == list(PHASES)
    assert list(found.seconds.values()) == pytest.approx([steps * each / 1e6 for each in TABLE_6["IC"]])


@pytest.mark.parametrize(
    ("workload", "milliseconds", "negotiation"), [("EWA", 191.940, 0.2857), ("IC", 141.735, 0.1611)]
)
def test_table_6_has_its_total_and_its_negotiation(workload: str, milliseconds: float, negotiation: float) -> None:
    seconds = exchange_times(timeline(TABLE_6[workload], tensors=3, steps=1)).seconds

    assert sum(seconds.values()) * 1000 == pytest.approx(milliseconds)
    assert seconds["negotiation"] / sum(seconds.values()) == pytest.approx(negotiation, abs=5e-5)


def test_a_real_timeline_has_steps_and_less_than_its_sums() -> None:
    found = exchange_times(read_trace(REAL))
    lengths = [0.0]
    opened: dict[int, list[tuple[str, float]]] = {}
    for each in json.loads(REAL.read_text()):
        if each["ph"] == "B":
            opened.setdefault(each["pid"], []).append((each["name"], each["ts"]))
        elif each["ph"] == "E":
            name, begin = opened[each["pid"]].pop()
            lengths += [each["ts"] - begin] if name == "GLOO_ALLREDUCE" else []

    assert found.steps == 3
    assert list(found.seconds) == ["negotiation", "memcpy in", "all-reduce", "memcpy out"]
    assert 0 < found.seconds["all-reduce"] * 1e6 < sum(lengths)


@given(st.integers(0, len(REAL.read_bytes()) - 1))
def test_a_truncated_timeline_is_read_as_far_as_it_goes(length: int) -> None:
    whole = exchange_times(read_trace(REAL))
    file = Path(FOLDER.name) / "timeline.json"
    file.write_bytes(REAL.read_bytes()[:length])
    try:
        found = exchange_times(read_trace(file))
    except NoTrace:
        assert length == 0
    else:
        assert found.steps <= whole.steps
        assert all(seconds <= whole.seconds[phase] for phase, seconds in found.seconds.items())


intervals = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda ends: (min(ends), max(ends))))


@given(intervals)
def test_a_union_has_each_moment_once(found: list[tuple[float, float]]) -> None:
    assert union_length(found) == len({at for begin, end in found for at in range(int(begin), int(end))})


def test_a_broadcast_is_no_exchange_of_gradients() -> None:
    events = ({"ph": "B", "name": "BROADCAST", "ts": 0, "pid": 1}, {"ph": "E", "ts": 9, "pid": 1})

    assert exchange_times(Trace(events, is_truncated=False)) == ExchangeTimes(0, {})
