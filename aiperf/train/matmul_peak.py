"""What a processor's cores can do at best: the measured rate of one large matrix product, in the type training uses.

It stands in for the data-sheet peak that processors do not have, and is named so wherever it is shown: a figure of MFU
over it is a share of this host's own matrix product, not of its maker's promise.
"""

from __future__ import annotations

import time
from typing import Final, Literal, assert_never

import torch

CpuDataType = Literal["fp32", "bf16", "fp16"]

SIDES: Final = (256, 512, 1024, 2048)
"""Rows and columns, the largest that the time allows. At 2048 a product is 17 GFLOP and its operands (16 MB each in FP32)
are reused 2048 times, so that the cores and not the memory are measured."""


def measured_matmul_flops(dtype: CpuDataType, threads: int, seconds: float = 1.0) -> float:
    """FLOPS of the fastest of the square matrix products that fit into `seconds`, on `threads` threads.

    The fastest and not the mean, since a peak is what nothing else disturbs. See `matmul_rates`.
    """
    return max(matmul_rates(dtype, threads, seconds))


def matmul_rates(dtype: CpuDataType, threads: int, seconds: float = 1.0) -> list[float]:
    """FLOPS of each of the square matrix products that fit into `seconds`, on `threads` threads; one at least.

    The matrices are the largest of SIDES of which one product is expected to take less than half the time: a processor without
    units for a type can be 500 times slower in it (FP16 without AVX512-FP16). A product is 2·side³ operations
    (multiply-accumulate = 2). The process's number of threads is changed meanwhile: call it when nothing else computes.
    """
    if threads < 1:
        raise ValueError(f"a matrix product takes at least one thread; threads={threads!r}")
    threads_before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        end = time.perf_counter() + seconds
        rates: list[float] = []
        for side in SIDES:
            if rates and 2 * side**3 / rates[-1] > seconds / 2:
                break
            product = _Product(side, _torch_type(dtype))
            product.seconds()  # the first allocates and, in some libraries, compiles
            rates.append(2 * side**3 / product.seconds())
        while time.perf_counter() < end:
            rates.append(2 * product.side**3 / product.seconds())
        return rates
    finally:
        torch.set_num_threads(threads_before)


class _Product:
    """Two matrices and room for their product."""

    def __init__(self, side: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(0)
        self.side = side
        self._left, self._right = (torch.randn(side, side, generator=generator).to(dtype) for _ in range(2))
        self._out = torch.empty_like(self._left)

    def seconds(self) -> float:
        began = time.perf_counter()
        torch.mm(self._left, self._right, out=self._out)
        return time.perf_counter() - began


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
