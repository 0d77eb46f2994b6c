"""Probe of the memory bandwidth by the triad of the STREAM benchmark, a = b + s·c, with arrays larger than any cache.

A virtual machine may hide a large cache of its host: arrays of 128 MiB once gave 74 GB/s, and 256 MiB 43 GB/s. The arrays
therefore grow until the rate decreases no further.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from aiperf.measure.matrix_product import devices_of, on_threads
from aiperf.measure.probe import ProbeReading, Setting
from aiperf.system.control_groups import available_bytes

if TYPE_CHECKING:
    import torch

SMALLEST_BYTES: Final = {"cpu": 2**26, "cuda": 2**29}
LARGEST_BYTES: Final = {"cpu": 2**29, "cuda": 2**29}
GROWTH_SECONDS: Final = 5.0
"""Time after which the arrays grow no further, for machines under heavy load."""
MEMORY_SHARE: Final = 1 / 4
"""Largest share of the available memory that the arrays of all processes on a host take."""
SLOWER_BY: Final = 0.05
"""Relative decrease above which arrays of twice the size are slower."""
EQUAL_SIZES: Final = 3
"""Sizes in a row with an equal rate, each twice the one before, after which the rate is that of the memory."""
PASS_SECONDS: Final = 0.15
FEWEST_REPETITIONS: Final = 3


@dataclass(frozen=True, slots=True)
class MemoryBandwidth:
    """Probe of the memory bandwidth in bytes/s. As in STREAM, two reads and one write are counted, without write-allocates."""

    for_seconds: float = 1.0
    name: ClassVar[str] = "memory"
    unit: ClassVar[str] = "B/s"

    def measure(self, setting: Setting) -> ProbeReading:
        series: dict[str, list[float]] = {}
        smaller: dict[str, dict[str, list[float]]] = {}
        array_bytes = 0
        for device in devices_of(setting):
            rates: dict[int, list[float]] = {}
            for one in triad_passes(setting.processors, device):
                rates.setdefault(one.array_bytes, []).extend(one.rates)
                if one.is_final:
                    break
            array_bytes = max(rates)
            rates[array_bytes] += Triad(array_bytes, device, setting.processors).rates(self.for_seconds)
            series[str(device)] = rates.pop(array_bytes)
            smaller[str(device)] = {str(size): values for size, values in rates.items()}
        facts = {"array_bytes": array_bytes, "smaller_arrays": smaller, "threads": setting.processors}
        return ProbeReading(probe=self.name, unit=self.unit, series=series, facts=facts)


@dataclass(frozen=True, slots=True)
class TriadPass:
    array_bytes: int
    rates: tuple[float, ...]
    is_final: bool
    """Larger arrays are not slower, do not fit, or take too long."""


def triad_passes(threads: int, device: torch.device, processes: int = 1) -> Iterator[TriadPass]:
    """Yield passes without end. `processes` of this host that measure together share a quarter of the free memory."""
    size, largest = SMALLEST_BYTES[device.type], LARGEST_BYTES[device.type]
    if device.type == "cpu":
        largest = min(largest, int(available_bytes() * MEMORY_SHARE / 3 / processes))
    best, equal, end = 0.0, 0, time.monotonic() + GROWTH_SECONDS
    while True:
        rates = Triad(size, device, threads).rates(PASS_SECONDS)
        equal = equal + 1 if max(rates) > best * (1 - SLOWER_BY) else 1
        best = max(rates)
        is_final = equal >= EQUAL_SIZES or 2 * size > largest or time.monotonic() > end
        yield TriadPass(size, tuple(rates), is_final)
        if not is_final:
            size *= 2


class Triad:
    def __init__(self, array_bytes: int, device: torch.device, threads: int) -> None:
        import torch

        self._bytes = array_bytes
        self._device = device
        self._threads = threads
        self._b, self._c = (torch.full((array_bytes // 4,), value, device=device) for value in (1.0, 2.0))
        self._a = torch.empty_like(self._b)

    def rates(self, seconds: float) -> list[float]:
        """Return the bytes/s of each repetition that fits into `seconds`, at least three."""
        with on_threads(self._threads):
            self._rate()  # the first touch allocates the pages
            end = time.perf_counter() + seconds
            rates: list[float] = []
            while len(rates) < FEWEST_REPETITIONS or time.perf_counter() < end:
                rates.append(self._rate())
        return rates

    def _rate(self) -> float:
        import torch

        began = time.perf_counter()
        torch.add(self._b, self._c, alpha=3.0, out=self._a)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return 3 * self._bytes / (time.perf_counter() - began)
