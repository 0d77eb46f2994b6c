"""A processor's stand-in for a peak is the rate of a real matrix product, measured here."""

from __future__ import annotations

import pytest
import torch

from aiperf.train.matmul_peak import CpuDataType, measured_matmul_flops


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_the_rate_is_one_a_processor_can_have_and_the_thread_count_is_put_back(dtype: CpuDataType) -> None:
    before = torch.get_num_threads()

    flops = measured_matmul_flops(dtype, threads=1, seconds=0.05)

    assert 1e7 < flops < 1e14
    assert torch.get_num_threads() == before


def test_no_threads_measure_nothing() -> None:
    with pytest.raises(ValueError, match="threads=0"):
        measured_matmul_flops("fp32", threads=0)
