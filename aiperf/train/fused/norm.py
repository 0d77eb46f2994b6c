"""Batch normalisation in training + addition + ReLU as one differentiable operation, and a 1×1 convolution that hands it its
statistics.

Same formulas as torch's batch norm, sums in FP32 in a fixed order; the sum before the ReLU is rounded once, where torch rounds
it after the normalisation too. For tensors in channels_last on a device that Triton compiles for (CUDA, ROCm), or in Triton's
interpreter (TRITON_INTERPRET=1), which is for tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from aiperf.train.fused import kernels as k

_BLOCK_R, _BLOCK_C = 32, 64
_RUNS = 1024
"""At most, of which statistics are taken: some for each multiprocessor."""
_GROUP = 64
_TILE_R, _TILE_O, _TILE_C = 128, 64, 32


class Statistics(NamedTuple):
    """Mean and sum of squared deviations of runs of rows, (runs, channels) in FP32; all runs are alike but the last."""

    mean: Tensor
    deviation: Tensor
    run_rows: int


def norm(
    x: Tensor,
    layer: nn.BatchNorm2d,
    residual: Tensor | None = None,
    relu: bool = True,
    statistics: Statistics | None = None,
) -> Tensor:
    """relu(batch_norm(x) + residual) in training, running statistics moved on; `statistics`: of x, where they are known."""
    assert layer.running_mean is not None and layer.running_var is not None and layer.momentum is not None
    assert layer.num_batches_tracked is not None
    layer.num_batches_tracked.add_(1)
    running = (layer.running_mean, layer.running_var, layer.momentum, layer.eps)
    y: Tensor = _Norm.apply(x, layer.weight, layer.bias, residual, relu, running, statistics)  # type: ignore[no-untyped-call]
    return y


def pointwise(x: Tensor, layer: nn.Conv2d) -> tuple[Tensor, Statistics]:
    """A 1×1 convolution of stride 1 without groups, and the statistics of what it gives."""
    dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else layer.weight.dtype
    z, mean, deviation = _Pointwise.apply(x.to(dtype), layer.weight.to(dtype))  # type: ignore[no-untyped-call]
    return z, Statistics(mean, deviation, _TILE_R)


def _rows(tensor: Tensor) -> tuple[Tensor, int, int]:
    """The tensor in channels_last, its rows and channels."""
    tensor = tensor.contiguous(memory_format=torch.channels_last)
    return tensor, tensor.numel() // tensor.shape[1], tensor.shape[1]


def _grid(rows: int, block_r: int, channels: int, block_c: int) -> tuple[int, int]:
    return -(-rows // block_r), -(-channels // block_c)


def _run_rows(rows: int) -> int:
    return max(_BLOCK_R, -(-rows // _RUNS // _BLOCK_R) * _BLOCK_R)


def statistics_of(x: Tensor) -> Statistics:
    """By a pass over x."""
    x, rows, channels = _rows(x)
    run = _run_rows(rows)
    grid = _grid(rows, run, channels, _BLOCK_C)
    mean, deviation = x.new_empty((2, grid[0], channels), dtype=torch.float32)
    k.statistics_of_rows[grid](x, mean, deviation, rows, run, channels, _BLOCK_R, _BLOCK_C)
    return Statistics(mean, deviation, run)


def _whole(statistics: Statistics, rows: int) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations of all rows, per channel."""
    mean, deviation, run = statistics
    while len(mean) > 1:
        runs, channels = mean.shape
        grid = _grid(runs, _GROUP, channels, _BLOCK_C)
        merged = mean.new_empty((2, grid[0], channels))
        k.merge_runs[grid](mean, deviation, merged[0], merged[1], runs, rows, run, channels, _GROUP, _BLOCK_C)
        (mean, deviation), run = merged, run * _GROUP
    return mean[0], deviation[0]


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        residual: Tensor | None,
        relu: bool,
        running: tuple[Tensor, Tensor, float, float],
        statistics: Statistics | None,
    ) -> Tensor:
        x, rows, channels = _rows(x)
        if rows < 2:
            raise ValueError(f"batch normalisation in training needs at least 2 values a channel, found {rows}")
        running_mean, running_variance, momentum, epsilon = running
        mean, deviation = _whole(statistics_of(x) if statistics is None else statistics, rows)
        inverse = torch.empty_like(mean)
        k.take_statistics[(-(-channels // _BLOCK_C),)](
            mean, deviation, running_mean, running_variance, inverse, rows, channels, momentum, epsilon, _BLOCK_C
        )
        adds = residual is not None
        if residual is not None:
            residual, _, _ = _rows(residual.to(x.dtype))
        y = torch.empty_like(x)
        k.normalise[_grid(rows, _BLOCK_R, channels, _BLOCK_C)](
            x, residual if adds else x, y, mean, inverse, gamma, beta, rows, channels, adds, relu, _BLOCK_R, _BLOCK_C
        )
        ctx.adds, ctx.relu = adds, relu
        ctx.save_for_backward(x, y if adds and relu else None, gamma, beta, mean, inverse)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, y, gamma, beta, mean, inverse = ctx.saved_tensors
        _, rows, channels = _rows(x)
        dy, _, _ = _rows(dy.to(x.dtype))
        # without a ReLU the residual's gradient is dy itself
        writes = ctx.adds and ctx.relu
        dz = torch.empty_like(x) if writes else dy
        run = _run_rows(rows)
        grid = _grid(rows, run, channels, _BLOCK_C)
        sums = mean.new_empty((2, grid[0], channels))
        k.sums_backward[grid](
            dy, x, y if writes else x, dz, mean, inverse, gamma, beta, sums[0], sums[1], rows, run, channels,
            writes, ctx.relu, _BLOCK_R, _BLOCK_C,
        )  # fmt: skip
        dbeta, dgamma = sums.sum(1)
        dx = torch.empty_like(x)
        k.normalise_backward[_grid(rows, _BLOCK_R, channels, _BLOCK_C)](
            dz, x, dx, mean, inverse, gamma, beta, dbeta, dgamma, rows, channels,
            ctx.relu and not writes, _BLOCK_R, _BLOCK_C,
        )  # fmt: skip
        return dx, dgamma, dbeta, dz if ctx.adds else None, None, None, None


class _Pointwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, rows, channels = _rows(x)
        out_channels = weight.shape[0]
        batch, _, height, width = x.shape
        z = torch.empty(
            (batch, out_channels, height, width), dtype=x.dtype, device=x.device, memory_format=torch.channels_last
        )
        grid = _grid(rows, _TILE_R, out_channels, _TILE_O)
        mean, deviation = x.new_empty((2, grid[0], out_channels), dtype=torch.float32)
        # FP32 as torch was told to multiply it: whole, or by TF32's units
        precision = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
        k.pointwise_with_statistics[grid](
            x, weight.contiguous().view(out_channels, channels), z, mean, deviation, rows, channels, out_channels,
            _TILE_R, _TILE_O, _TILE_C, precision,
        )  # fmt: skip
        ctx.save_for_backward(x, weight)
        ctx.mark_non_differentiable(mean, deviation)
        return z, mean, deviation

    @staticmethod
    def backward(ctx: Any, dz: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        gradients = torch.ops.aten.convolution_backward(
            dz, x, weight, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, False)
        )
        return gradients[0], gradients[1]
