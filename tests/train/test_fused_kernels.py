"""The Triton kernels do torch's arithmetic. Where Triton is: on an accelerator, else in Triton's interpreter on the processor.

Triton comes with torch's CUDA build. To run them beside a CPU build: `pip install --target FOLDER --no-deps triton`, then
`TRITON_INTERPRET=1 PYTHONPATH=$PWD:FOLDER pytest tests/train/test_fused_kernels.py` (interpreted: half a minute).
"""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch
from torch import nn

from aiperf.train.fused import missing

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)
ON_CUDA = torch.cuda.is_available()
if (reason := missing(on_cuda=ON_CUDA)) is not None:
    pytest.skip(f"{reason}; TRITON_INTERPRET=1 would interpret the kernels", allow_module_level=True)

from aiperf.train.fused import Fusion  # noqa: E402
from aiperf.train.fused.check import worst  # noqa: E402
from aiperf.train.fused.norm import Statistics, _whole, norm, pointwise, statistics_of  # noqa: E402

DEVICE = torch.device("cuda" if ON_CUDA else "cpu")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def images(*shape: int, mean: float = 0.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(3)) + mean
    return values.to(DEVICE, dtype).contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("fusion", ["norm", "conv"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_output_gradients_and_running_statistics_are_torchs(dtype: torch.dtype, fusion: Fusion) -> None:
    """With and without ReLU, with and without addition; what a rank asks before it takes the kernels."""
    if INTERPRETED and dtype is torch.bfloat16 and fusion == "conv":
        pytest.skip("Triton 3.9's interpreter multiplies bfloat16 matrices as integers")
    assert worst(DEVICE, dtype, fusion) is None


@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (1, 1, 40, 40), (5, 130, 9, 11), (3, 64, 33, 3)], ids=str)
def test_statistics_of_every_shape_are_those_of_double_precision_even_far_from_zero(shape: tuple[int, ...]) -> None:
    """E[x²] − E[x]² in FP32 has no digit left of a variance of 1 at a mean of 5000."""
    x = images(*shape, mean=5000.0)
    rows = x.numel() // shape[1]

    mean, deviation = _whole(statistics_of(x), rows)

    exact = x.double()
    torch.testing.assert_close(mean.double(), exact.mean((0, 2, 3)), rtol=1e-6, atol=0)
    wanted = exact.var((0, 2, 3), correction=0) * rows
    torch.testing.assert_close(deviation.double(), wanted, rtol=2e-3, atol=1e-3)


def test_many_runs_are_merged_as_if_they_were_one() -> None:
    """Beyond the 64 that are merged at once, the last run shorter than the others."""
    runs, run, channels, rows = 200, 7, 5, 200 * 7 - 3
    values = torch.randn((rows, channels), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    parts = [values[start : start + run] for start in range(0, rows, run)]
    mean = torch.stack([part.mean(0) for part in parts])
    deviation = torch.stack([part.var(0, correction=0) * len(part) for part in parts])

    whole, deviations = _whole(Statistics(mean, deviation, run), rows)

    assert len(parts) == runs
    torch.testing.assert_close(whole, values.mean(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(deviations, values.var(0, correction=0) * rows, rtol=1e-5, atol=1e-4)


def test_a_convolutions_statistics_are_those_of_what_it_gives() -> None:
    layer = nn.Conv2d(48, 80, 1, bias=False).to(DEVICE)
    x = images(3, 48, 13, 9, mean=2.0)

    z, statistics = pointwise(x, layer)
    mean, deviation = _whole(statistics, 3 * 13 * 9)

    torch.testing.assert_close(mean, z.mean((0, 2, 3)), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(deviation, z.var((0, 2, 3), correction=0) * 3 * 13 * 9, rtol=1e-3, atol=1e-2)


def test_a_value_that_is_not_a_number_is_not_hidden_by_the_relu() -> None:
    x = images(2, 4, 3, 3)
    x[0, 1, 0, 0] = float("nan")

    y = norm(x, nn.BatchNorm2d(4).to(DEVICE), None, True)

    assert y[:, 1].isnan().all() and not y[:, 0].isnan().any()


def test_one_value_a_channel_is_refused_as_torch_refuses_it() -> None:
    with pytest.raises(ValueError, match="at least 2 values a channel"):
        norm(images(1, 4, 1, 1), nn.BatchNorm2d(4).to(DEVICE))


def test_the_check_finds_a_kernel_that_computes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiperf.train.fused import kernels

    class Wrong:
        def __getitem__(self, grid: object) -> object:
            return lambda dz, x, dx, *_: dx.copy_(dz)

    monkeypatch.setattr(kernels, "normalise_backward", Wrong())
    worst.cache_clear()

    found = worst(DEVICE, torch.float32, "norm")

    worst.cache_clear()
    assert found is not None and "gradient of images differs" in found
