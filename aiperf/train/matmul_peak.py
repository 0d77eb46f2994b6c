"""Measured peak of a CPU: the rate of one large matrix product, in the data type of training.

It replaces the data-sheet peak, which CPUs do not have, and is labelled as measured wherever it is shown. MFU based on
it is a share of this host's own matrix product.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, assert_never

import torch

CpuDataType = Literal["fp32", "bf16", "fp16"]

SIDES: Final = (256, 512, 1024, 2048)
"""Rows and columns.

The largest that the time allows is used. At 2048 a product is 17 GFLOP and its operands (16 MB each in FP32) are reused
2048 times, so the cores are measured and not the memory.
"""


PASS_SECONDS: Final = 0.15
FASTER_BY: Final = 0.02
"""Relative improvement below which a pass counts as equally fast."""


@dataclass(frozen=True, slots=True)
class PeakPass:
    """Result after one pass of the measurement."""

    flops: float
    """FLOPS of the fastest product so far."""
    is_faster: bool
    """This pass was faster than all before by more than FASTER_BY."""


def matmul_passes(dtype: CpuDataType, threads: int) -> Iterator[PeakPass]:
    """Yield passes of square matrix products on `threads` threads, PASS_SECONDS each.

    The caller stops when no rank gets faster.

    The maximum is used, not the mean, because a peak is the undisturbed rate. A worker measures while other processes
    of its host start: in one case a third of a second gave half the rate measured after the run. Ranks that measure
    together stop together, because one alone would be faster again.
    """
    with _on_threads(threads):
        product, rates = _largest(dtype, PASS_SECONDS)
        best = max(rates)
        while True:
            fastest = max(product.rates(PASS_SECONDS))
            is_faster, best = fastest > best * (1 + FASTER_BY), max(best, fastest)
            yield PeakPass(best, is_faster)


def matmul_rates(dtype: CpuDataType, threads: int, seconds: float = 1.0) -> list[float]:
    """Return the FLOPS of each square matrix product that fits into `seconds`, on `threads` threads. At least one.

    A product is 2·side³ operations (multiply-accumulate = 2). The process's number of threads is changed meanwhile:
    call it when nothing else computes.
    """
    with _on_threads(threads):
        end = time.perf_counter() + seconds
        product, rates = _largest(dtype, seconds)
        return rates + product.rates(end - time.perf_counter())


@contextmanager
def _on_threads(threads: int) -> Iterator[None]:
    if threads < 1:
        raise ValueError(f"a matrix product takes at least one thread; threads={threads!r}")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _largest(dtype: CpuDataType, seconds: float) -> tuple[_Product, list[float]]:
    """Return the largest product of SIDES that should take less than half the time, and the rates of the smaller ones.

    A CPU without native support for a type can be 500 times slower in it (FP16 without AVX512-FP16).
    """
    rates: list[float] = []
    for side in SIDES:
        if rates and 2 * side**3 / rates[-1] > seconds / 2:
            break
        product = _Product(side, _torch_type(dtype))
        product.rate()  # the first allocates and, in some libraries, compiles
        rates.append(product.rate())
    return product, rates


class _Product:
    """Two matrices (side, side) and a buffer for their product."""

    def __init__(self, side: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(0)
        self._side = side
        self._left, self._right = (torch.randn(side, side, generator=generator).to(dtype) for _ in range(2))
        self._out = torch.empty_like(self._left)

    def rate(self) -> float:
        """Return the FLOPS of one product."""
        began = time.perf_counter()
        torch.mm(self._left, self._right, out=self._out)
        return 2 * self._side**3 / (time.perf_counter() - began)

    def rates(self, seconds: float) -> list[float]:
        """Return the FLOPS of each product that fits into the time. At least one."""
        end = time.perf_counter() + seconds
        found = [self.rate()]
        while time.perf_counter() < end:
            found.append(self.rate())
        return found


def _torch_type(dtype: CpuDataType) -> torch.dtype:
    match dtype:
        case "fp32":
            return torch.float32
        case "bf16":
            return torch.bfloat16
        case "fp16":
            return torch.float16
        case _:
            assert_never(dtype)
