"""Paired measurements: interleaved pairs, the median of their ratio and its 95 % interval.

A machine's speed drifts (frequency, neighbours, caches), so a and b are never measured in two separate blocks. Each pair
measures both, in alternating order, and only ratios within a pair are compared.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

FEWEST_PAIRS = 6
"""With five pairs even [smallest, largest] contains the median with a probability of only 1 − 2·0.5⁵ = 93.75 %."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of a to b. For times, a ratio below 1 means that a is faster."""

    median: float
    low: float
    """Lower end of the median's 95 % interval."""
    high: float
    """Upper end of the median's 95 % interval."""
    a: tuple[float, ...]
    """Measurements of a by pair, in seconds unless the callable returned another value."""
    b: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.median:.3f} (95 % interval {self.low:.3f}–{self.high:.3f}, {len(self.a)} pairs)"


def interleaved(
    a: Callable[[], float | None],
    b: Callable[[], float | None],
    pairs: int = 10,
    clock: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """Measure `a` and `b` alternately (a b, b a, a b, …) and return the ratio a / b.

    The number that a callable returns is its measurement. A callable that returns None is timed by `clock`. Both are called
    once before, unmeasured, as a warm-up.

    Raises:
        ValueError: for fewer than 6 pairs, which give no 95 % interval of a median, or a measurement that is not positive.
    """
    if pairs < FEWEST_PAIRS:
        raise ValueError(f"a 95 % interval of the median needs at least {FEWEST_PAIRS} pairs, but got {pairs!r}")
    a()
    b()
    of_a: list[float] = []
    of_b: list[float] = []
    for pair in range(pairs):
        order = ((a, of_a), (b, of_b))
        for measured, values in order if pair % 2 == 0 else reversed(order):
            values.append(_measure(measured, clock))
    ratios = [x / y for x, y in zip(of_a, of_b, strict=True)]
    low, high = interval_of_median(ratios)
    return Ratio(statistics.median(ratios), low, high, tuple(of_a), tuple(of_b))


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """Return the narrowest order statistics [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎] that contain the median with at least 95 % probability.

    Exact for any continuous distribution: the number of values below the median is binomial(n, ½), so the interval misses
    with probability 2·P(X < k). For n = 10 it is [x₍₂₎, x₍₉₎], with 97.9 %.

    Raises:
        ValueError: for fewer than 6 values.
    """
    n = len(values)
    if n < FEWEST_PAIRS:
        raise ValueError(f"a 95 % interval of the median needs at least {FEWEST_PAIRS} values, but got {n}")
    k = 1
    while 2 * sum(comb(n, below) for below in range(k + 1)) <= 0.05 * 2**n:
        k += 1
    ordered = sorted(values)
    return ordered[k - 1], ordered[n - k]


class SideProcess:
    """One side of a comparison, in a separate process that works only during a request.

    Process-wide settings of one side (threads, allocator) then do not affect the other. `make(*arguments)` creates the object
    in that process. It must be importable, like its arguments. Close it, or use it as a context.
    """

    def __init__(self, make: Callable[..., object], *arguments: object) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_answer, args=(theirs, make, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, method: str, *arguments: object) -> float:
        """Call a method of the object and return its result. Raise RuntimeError if the process ends."""
        self._pipe.send((method, arguments))
        try:
            answer: float = self._pipe.recv()
        except EOFError as error:
            raise RuntimeError(f"the process ended during {method!r}. The reason is in its output") from error
        return answer

    def close(self) -> None:
        self._pipe.close()
        self._process.join()

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _answer(pipe: Connection, make: Callable[..., object], made_from: tuple[object, ...]) -> None:
    made = make(*made_from)
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:  # closed by the owner
            return
        pipe.send(getattr(made, method)(*arguments))


def describe_machine() -> str:
    """Describe this machine for the heading of a measurement: '2-core AMD EPYC 9B45, no accelerator'."""
    import torch  # late: other functions of this module do not need torch

    # the usable cores, which in a container or a job are fewer than the machine has
    cores = len(os.sched_getaffinity(0))
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        accelerator = ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))
    else:
        accelerator = "no accelerator"
    return f"{cores}-core {_processor()}, {accelerator}"


def _measure(measured: Callable[[], float | None], clock: Callable[[], float]) -> float:
    begin = clock()
    own = measured()
    value = clock() - begin if own is None else own
    if not value > 0:
        raise ValueError(f"a measurement must be above zero to form a ratio, but {measured!r} returned {value!r}")
    return value


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(), re.MULTILINE)
        if found:
            return re.sub(r"\s+(\d+-Core )?Processor$", "", found[1].strip())
    return platform.processor() or platform.machine()
