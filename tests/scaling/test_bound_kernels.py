"""Share of the time bound by the cores, from 1 and 2 threads, for kernels whose bound is known.

`make test-long ARGS=tests/scaling`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median

import pytest
import torch

from aiperf.measure.matrix_product import matmul_rates, on_threads
from aiperf.measure.memory_bandwidth import Triad
from aiperf.scaling.bound import core_share

pytestmark = [pytest.mark.slow, pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two threads need two cores")]
ROUNDS = 6
OUTSIDE = 0.05
"""Largest relative distance of a kernel's speed-up from the range of the two probes, which is noise."""
CPU = torch.device("cpu")
Rate = Callable[[int], float]


def memory(threads: int) -> float:
    return max(Triad(2**28, CPU, threads).rates(0.5))


def product(threads: int) -> float:
    return max(matmul_rates("fp32", threads, 0.5))


def of_kernel(kernel: Callable[[], object]) -> Rate:
    """Return the function that measures calls per second in half a second."""

    def rate(threads: int) -> float:
        with on_threads(threads):
            kernel()
            calls, began = 0, time.perf_counter()
            while time.perf_counter() - began < 0.5:
                kernel()
                calls += 1
            return calls / (time.perf_counter() - began)

    return rate


def speed_ups(*rates: Rate) -> list[float]:
    """Return the median of two threads ÷ one thread over interleaved rounds, for each rate."""
    found: list[list[float]] = [[] for _ in rates]
    for _ in range(ROUNDS):
        for ratios, rate in zip(found, rates, strict=True):
            one = rate(1)
            ratios.append(rate(2) / one)
    return [median(each) for each in found]


def test_element_wise_kernels_follow_the_memory_and_products_the_cores() -> None:
    image, other, out = (torch.rand(2**26) for _ in range(3))  # 256 MiB each, beyond any cache
    left, right = torch.rand(1024, 4096), torch.rand(4096, 1024)
    kernels = of_kernel(lambda: torch.relu_(torch.add(image, other, out=out))), of_kernel(lambda: left @ right)

    m, k, *kernel_speed_ups = speed_ups(memory, product, *kernels)

    print(f"m {m:.3f}, k {k:.3f}, s {kernel_speed_ups}")
    if (lacks := core_share(m, k, k)[1]) or m > k:
        pytest.skip(f"a second thread gives this machine as much memory bandwidth as arithmetic: {lacks}")
    shares = []
    for s in kernel_speed_ups:
        assert (1 - OUTSIDE) * m <= s <= (1 + OUTSIDE) * k
        share, _ = core_share(m, k, min(max(s, m), k))
        assert share is not None
        shares.append(share)
    print(f"shares of the cores: {shares}")
    assert shares[0] <= 0.15 and shares[1] >= 0.85
