"""Seconds of GPU kernels or CPU operators by class, read from a trace of torch.profiler.

The classes are those of HPC AI500's Figure 6, `framework`, and convolutions by FFT or Winograd. The first row of
kernel_names.json whose expression is found in a name decides. `below` restricts it to operators that another one calls.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from aiperf.train.tracing.trace_file import Trace

CONVOLUTION, ALL_REDUCE, FRAMEWORK = "convolution", "all-reduce", "framework"
PAPER_CLASSES = (
    CONVOLUTION,
    "GEMM",
    "batch normalisation",
    "element-wise",
    "pooling",
    "memcpy",
    ALL_REDUCE,
    "data arrangement",
)
"""Classes in the order of Figure 6."""
FAST_CONVOLUTION = "convolution by FFT or Winograd"
OTHER = "other"
CLASSES = (*PAPER_CLASSES, FAST_CONVOLUTION, FRAMEWORK, OTHER)
"""All classes. FAST_CONVOLUTION does fewer operations than are counted. Only traces of processors have a `framework`: dispatch,
allocation, and time between operators."""


class _Row(msgspec.Struct, rename={"kernel_class": "class", "layer_kind": "kind"}, forbid_unknown_fields=True):
    kernel_class: str
    names: str
    layer_kind: str | None = None
    below: str | None = None


@cache
def _table() -> list[_Row]:
    text = files("aiperf.train.tracing").joinpath("kernel_names.json").read_bytes()
    return msgspec.json.decode(text, type=list[_Row])


@cache
def _row(name: str, caller: str) -> _Row | None:
    for row in _table():
        if re.search(row.names, name) and (row.below is None or re.search(row.below, caller)):
            return row
    return None


def kernel_class(name: str, caller: str = "") -> str:
    """Return the class of a GPU kernel or torch operator, one of CLASSES. It is 'other' for an unknown name.

    >>> kernel_class("aten::mkldnn_convolution"), kernel_class("sm80_xmma_gemm_bf16bf16"), kernel_class("unheard_of")
    ('convolution', 'GEMM', 'other')
    """
    row = _row(name, caller)
    return OTHER if row is None else row.kernel_class


def layer_kind(name: str) -> str | None:
    """None if it computes no layer by itself, or for an unknown name."""
    row = _row(name, "")
    return None if row is None else row.layer_kind


STEP = "ProfilerStep#"
"""Begin of the annotation of a step. torch.profiler's `step()` and our own traces write it."""
_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
_ON_HOST = {"cpu_op", "user_annotation"}
Waits = Sequence[tuple[float, float]]
"""Begin and end of waits for the exchange, in microseconds of the trace."""


@dataclass(frozen=True, slots=True)
class KernelTimes:
    device: str
    """cuda: kernels of an accelerator. cpu: operators on a processor."""
    steps: int
    """0 if the trace has no annotations of steps."""
    seconds: dict[str, float]
    """By class, in the order of CLASSES. On an accelerator idle time and `framework` are left out. On a processor all seconds
    together are those of the steps."""


def kernel_times(trace: Trace, waits: Waits = ()) -> KernelTimes:
    """Seconds of each class: of all kernels on a GPU, or of the steps on a CPU.

    `waits`: in microseconds of the trace. On a CPU, framework time within them counts as all-reduce, an operator's seconds
    exclude the operators that it calls, and only the thread with the steps is read, because it executes both passes.
    """
    events = [each for each in trace.events if each.get("ph") == "X" and {"ts", "dur", "name", "cat"} <= each.keys()]
    on_host = [each for each in events if each["cat"] in _ON_HOST and "tid" in each]
    annotated = [each for each in on_host if each["cat"] == "user_annotation" and each["name"].startswith(STEP)]
    steps = len({each["name"] for each in annotated})
    kernels = [each for each in events if each["cat"] in _ON_DEVICE]
    sums = dict.fromkeys(CLASSES, 0.0)
    if kernels:
        for each in kernels:
            sums["memcpy" if each["cat"] != "kernel" else kernel_class(each["name"])] += each["dur"]
    else:
        for begin, end, name in _on_processor(on_host, annotated):
            waited = (
                sum(max(0.0, min(end, last) - max(begin, first)) for first, last in waits) if name == FRAMEWORK else 0.0
            )
            sums[name] += end - begin - waited
            sums[ALL_REDUCE] += waited
    by_class = {name: micros / 1e6 for name, micros in sums.items() if not (kernels and name == FRAMEWORK)}
    return KernelTimes("cuda" if kernels else "cpu", steps, by_class)


def _on_processor(
    events: Sequence[Mapping[str, Any]], annotated: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[float, float, str]]:
    """Yield consecutive parts of the steps (begin, end, class), each of the innermost operator."""
    if not events:
        return
    thread = Counter(each["tid"] for each in annotated or events).most_common(1)[0][0]
    own = [each for each in events if each["tid"] == thread]
    roots = [each for each in annotated if each["tid"] == thread]
    if not roots:
        begin, end = min(each["ts"] for each in own), max(each["ts"] + each["dur"] for each in own)
        own.append({"ts": begin, "dur": end - begin, "name": STEP, "cat": "user_annotation"})
    open_calls: list[tuple[float, str, str]] = []  # end, name, class
    now = 0.0
    own.append({"ts": math.inf, "dur": 0.0, "name": ""})  # ends all open calls
    for each in sorted(own, key=lambda one: (one["ts"], -one["dur"])):
        begin, name = each["ts"], each["name"]
        while open_calls and open_calls[-1][0] <= begin:
            end, _, inner = open_calls.pop()
            yield now, end, inner
            now = end
        if open_calls:
            yield now, begin, open_calls[-1][2]
        elif not name.startswith(STEP):
            continue  # outside the steps
        caller = open_calls[-1][1] if open_calls else ""
        inner = kernel_class(name, caller) if each["cat"] == "cpu_op" else FRAMEWORK
        end = min(begin + each["dur"], open_calls[-1][0] if open_calls else math.inf)
        open_calls.append((end, name, inner))
        now = begin
