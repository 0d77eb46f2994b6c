"""A processor's reference peak is the rate of a real matrix product, measured here."""

from __future__ import annotations

import pytest
import torch

from aiperf.measure.matrix_product import matmul_passes, matmul_rates


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_the_rate_is_plausible_and_the_thread_count_restored(dtype: str) -> None:
    before = torch.get_num_threads()

    rates = matmul_rates(dtype, threads=1, seconds=0.05)

    assert all(1e7 < flops < 1e14 for flops in rates)
    assert torch.get_num_threads() == before


def test_each_pass_reports_the_fastest_rate_so_far() -> None:
    before, best = torch.get_num_threads(), 0.0
    for flops, is_faster in matmul_passes("fp32", threads=1):
        assert flops >= best
        assert flops > best or not is_faster
        best = flops
        if not is_faster:
            break

    assert 1e7 < best < 1e14
    assert torch.get_num_threads() == before
