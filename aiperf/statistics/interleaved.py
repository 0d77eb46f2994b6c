"""Comparison of two operations by alternating measurements: the median of their ratio and its 95 % interval."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

FEWEST_PAIRS = 6
"""With five pairs even [smallest, largest] contains the median with a probability of only 1 − 2·0.5^5 = 93.75 %."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of the measurements of a to those of b, over pairs. For times, a ratio below 1 means that a is faster."""

    median: float
    low: float
    """Lower end of the median's 95 % interval."""
    high: float
    """Upper end of the median's 95 % interval."""
    a: tuple[float, ...]
    """Measurements of a by pair, in seconds unless the callable returned another value."""
    b: tuple[float, ...]

    @classmethod
    def of(cls, a: Sequence[float], b: Sequence[float]) -> Ratio:
        """Ratio of paired measurements."""
        ratios = [x / y for x, y in zip(a, b, strict=True)]
        return cls(statistics.median(ratios), *interval_of_median(ratios), tuple(a), tuple(b))

    def __str__(self) -> str:
        return f"{self.median:.3f} (95 % interval {self.low:.3f}–{self.high:.3f}, {len(self.a)} pairs)"


def interleaved(
    a: Callable[[], float | None],
    b: Callable[[], float | None],
    pairs: int = 10,
    clock: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """Measure `a` and `b` alternately (a b, b a, a b, …) and return the median of the ratio a / b with its 95 % interval."""
    if pairs < FEWEST_PAIRS:
        raise ValueError(
            f"a 95 % interval of the median needs at least {FEWEST_PAIRS} pairs, but found {pairs!r}: measure more pairs"
        )
    a()
    b()
    of_a: list[float] = []
    of_b: list[float] = []
    for pair in range(pairs):
        order = ((a, of_a), (b, of_b))
        for measured, values in order if pair % 2 == 0 else reversed(order):
            values.append(_measure(measured, clock))
    return Ratio.of(of_a, of_b)


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and upper end of the 95 % interval of a median: two of the sorted values, x(k) and x(n + 1 − k)."""
    n = len(values)
    if n < FEWEST_PAIRS:
        raise ValueError(
            f"a 95 % interval of the median needs at least {FEWEST_PAIRS} values, but found {n}: measure more values"
        )
    k = 1
    while 2 * sum(comb(n, below) for below in range(k + 1)) <= 0.05 * 2**n:
        k += 1
    ordered = sorted(values)
    return ordered[k - 1], ordered[n - k]


def _measure(measured: Callable[[], float | None], clock: Callable[[], float]) -> float:
    begin = clock()
    own = measured()
    value = clock() - begin if own is None else own
    if not value > 0:
        raise ValueError(
            f"a measurement must be above zero to form a ratio, but {measured!r} gave {value!r}: measure more work at once"
        )
    return value
