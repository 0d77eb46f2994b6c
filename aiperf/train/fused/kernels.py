"""The Triton kernels: per-channel statistics, normalise + add + ReLU, its backward pass, and a 1×1 convolution with statistics.

Every tensor is a matrix here, rows × channels, as channels_last images lie in memory. Sums are FP32 whatever the tensors are,
and are taken in an order that depends on the shape alone: the same numbers give the same numbers. Statistics are carried as
(mean, sum of squared deviations) of runs of rows and merged as Chan, Golub and LeVeque do (1979), since E[x²] − E[x]² loses
all digits where the mean is large. Imported only where Triton is (it comes with torch's CUDA build); `norm.py` calls them.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Triton has no types: each kernel's arguments are pointers, sizes and constants (in capitals), in this order.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"
# ruff: noqa: N803


@triton.jit
def statistics_of_rows(x, mean, deviation, rows, run_rows, channels, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Mean and sum of squared deviations of each run of `run_rows` rows, per channel: (runs, channels) of FP32."""
    run = tl.program_id(0)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    is_column = column < channels
    first = run.to(tl.int64) * run_rows
    until = tl.minimum(first + run_rows, rows)
    m = tl.zeros((BLOCK_C,), dtype=tl.float32)
    d = tl.zeros((BLOCK_C,), dtype=tl.float32)
    seen = 0.0
    for start in range(0, run_rows, BLOCK_R):
        row = first + start + tl.arange(0, BLOCK_R)
        is_row = row < until
        where = is_row[:, None] & is_column[None, :]
        value = tl.load(x + row[:, None] * channels + column[None, :], mask=where, other=0.0).to(tl.float32)
        count = tl.sum(is_row.to(tl.float32), axis=0)
        own_mean = tl.sum(value, axis=0) / tl.maximum(count, 1.0)
        off = tl.where(where, value - own_mean[None, :], 0.0)
        own_deviation = tl.sum(off * off, axis=0)
        together = tl.maximum(seen + count, 1.0)
        step = own_mean - m
        m += step * (count / together)
        d += own_deviation + step * step * (seen * count / together)
        seen += count
    at = run * channels + column
    tl.store(mean + at, m, mask=is_column)
    tl.store(deviation + at, d, mask=is_column)


@triton.jit
def merge_runs(
    mean, deviation, merged_mean, merged_deviation, runs, rows, run_rows, channels,
    GROUP: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Each GROUP runs as one; all runs have `run_rows` rows but the last, which has what is left of `rows`."""
    group = tl.program_id(0)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    is_column = column < channels
    run = group * GROUP + tl.arange(0, GROUP)
    is_run = run < runs
    where = is_run[:, None] & is_column[None, :]
    left = rows - run.to(tl.int64) * run_rows
    count = tl.where(is_run, tl.minimum(left, run_rows).to(tl.float32), 0.0)
    at = run[:, None] * channels + column[None, :]
    m = tl.load(mean + at, mask=where, other=0.0)
    d = tl.load(deviation + at, mask=where, other=0.0)
    total = tl.sum(count, axis=0)
    whole = tl.sum(m * count[:, None], axis=0) / total
    off = tl.where(where, m - whole[None, :], 0.0)
    squares = tl.sum(d, axis=0) + tl.sum(off * off * count[:, None], axis=0)
    out = group * channels + column
    tl.store(merged_mean + out, whole, mask=is_column)
    tl.store(merged_deviation + out, squares, mask=is_column)


@triton.jit
def take_statistics(
    mean, deviation, running_mean, running_variance, inverse, rows, channels, momentum, epsilon, BLOCK_C: tl.constexpr
):
    """From the statistics of all rows: 1/√(variance + ε), and the running ones moved on (by the unbiased variance)."""
    column = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    is_column = column < channels
    m = tl.load(mean + column, mask=is_column, other=0.0)
    d = tl.load(deviation + column, mask=is_column, other=0.0)
    tl.store(inverse + column, 1.0 / tl.sqrt(d / rows + epsilon), mask=is_column)
    old_mean = tl.load(running_mean + column, mask=is_column, other=0.0)
    old_variance = tl.load(running_variance + column, mask=is_column, other=0.0)
    tl.store(running_mean + column, old_mean + momentum * (m - old_mean), mask=is_column)
    unbiased = d / (rows - 1)
    tl.store(running_variance + column, old_variance + momentum * (unbiased - old_variance), mask=is_column)


@triton.jit
def normalise(
    x, residual, y, mean, inverse, gamma, beta, rows, channels,
    ADDS: tl.constexpr, RELU: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """y = relu((x − mean) · inverse · gamma + beta + residual), each part where it is asked for."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    is_column = column < channels
    where = (row < rows)[:, None] & is_column[None, :]
    at = row[:, None] * channels + column[None, :]
    m = tl.load(mean + column, mask=is_column, other=0.0)
    scale = tl.load(inverse + column, mask=is_column, other=0.0) * tl.load(gamma + column, mask=is_column, other=0.0)
    shift = tl.load(beta + column, mask=is_column, other=0.0)
    value = (tl.load(x + at, mask=where, other=0.0).to(tl.float32) - m[None, :]) * scale[None, :] + shift[None, :]
    if ADDS:
        value += tl.load(residual + at, mask=where, other=0.0).to(tl.float32)
    if RELU:
        value = tl.where(value != value, value, tl.maximum(value, 0.0))  # a value that is not a number stays one
    tl.store(y + at, value.to(y.dtype.element_ty), mask=where)


@triton.jit
def sums_backward(
    dy, x, y, dz, mean, inverse, gamma, beta, sum_dz, sum_dz_x, rows, run_rows, channels,
    ADDS: tl.constexpr, RELU: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Of each run of rows the sums of dz and dz · x̂, dz being dy where the ReLU let through.

    With a residual dz is written, since it is the residual's gradient, and y says what was let through; without one x does."""
    run = tl.program_id(0)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    is_column = column < channels
    first = run.to(tl.int64) * run_rows
    until = tl.minimum(first + run_rows, rows)
    m = tl.load(mean + column, mask=is_column, other=0.0)
    i = tl.load(inverse + column, mask=is_column, other=0.0)
    scale = i * tl.load(gamma + column, mask=is_column, other=0.0)
    shift = tl.load(beta + column, mask=is_column, other=0.0)
    own = tl.zeros((BLOCK_C,), dtype=tl.float32)
    own_x = tl.zeros((BLOCK_C,), dtype=tl.float32)
    for start in range(0, run_rows, BLOCK_R):
        row = first + start + tl.arange(0, BLOCK_R)
        where = (row < until)[:, None] & is_column[None, :]
        at = row[:, None] * channels + column[None, :]
        gradient = tl.load(dy + at, mask=where, other=0.0).to(tl.float32)
        off = tl.load(x + at, mask=where, other=0.0).to(tl.float32) - m[None, :]
        if RELU:
            if ADDS:
                let_through = tl.load(y + at, mask=where, other=0.0).to(tl.float32) > 0.0
            else:
                # rounded as y was: what became zero there was not let through
                let_through = (off * scale[None, :] + shift[None, :]).to(x.dtype.element_ty).to(tl.float32) > 0.0
            gradient = tl.where(let_through, gradient, 0.0)
        if ADDS:
            tl.store(dz + at, gradient.to(dz.dtype.element_ty), mask=where)
        own += tl.sum(gradient, axis=0)
        own_x += tl.sum(tl.where(where, gradient * off * i[None, :], 0.0), axis=0)
    out = run * channels + column
    tl.store(sum_dz + out, own, mask=is_column)
    tl.store(sum_dz_x + out, own_x, mask=is_column)


@triton.jit
def normalise_backward(
    dy, x, dx, mean, inverse, gamma, beta, dbeta, dgamma, rows, channels,
    RELU: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """dx = gamma · inverse · (dz − (Σdz + x̂ · Σ(dz · x̂)) / rows). RELU: dz is dy where x let it through, else it is dy."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    is_column = column < channels
    where = (row < rows)[:, None] & is_column[None, :]
    at = row[:, None] * channels + column[None, :]
    m = tl.load(mean + column, mask=is_column, other=0.0)
    i = tl.load(inverse + column, mask=is_column, other=0.0)
    scale = i * tl.load(gamma + column, mask=is_column, other=0.0)
    by_sum = tl.load(dbeta + column, mask=is_column, other=0.0) / rows
    by_x = tl.load(dgamma + column, mask=is_column, other=0.0) / rows
    off = tl.load(x + at, mask=where, other=0.0).to(tl.float32) - m[None, :]
    gradient = tl.load(dy + at, mask=where, other=0.0).to(tl.float32)
    if RELU:
        shift = tl.load(beta + column, mask=is_column, other=0.0)
        let_through = (off * scale[None, :] + shift[None, :]).to(x.dtype.element_ty).to(tl.float32) > 0.0
        gradient = tl.where(let_through, gradient, 0.0)
    value = scale[None, :] * (gradient - by_sum[None, :] - off * i[None, :] * by_x[None, :])
    tl.store(dx + at, value.to(dx.dtype.element_ty), mask=where)


@triton.jit
def pointwise_with_statistics(
    x, weight, z, mean, deviation, rows, channels, out_channels,
    BLOCK_R: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_C: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A 1×1 convolution, z = x · weightᵀ, and the statistics of each BLOCK_R rows of z as it is rounded, made on the chip."""
    tile = tl.program_id(0)
    row = tile.to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    out = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)
    is_row, is_out = row < rows, out < out_channels
    total = tl.zeros((BLOCK_R, BLOCK_O), dtype=tl.float32)
    for start in range(0, channels, BLOCK_C):
        column = start + tl.arange(0, BLOCK_C)
        is_column = column < channels
        entering = tl.load(
            x + row[:, None] * channels + column[None, :], mask=is_row[:, None] & is_column[None, :], other=0.0
        )
        weights = tl.load(
            weight + out[None, :] * channels + column[:, None], mask=is_out[None, :] & is_column[:, None], other=0.0
        )
        total = tl.dot(entering, weights, total, input_precision=PRECISION)
    leaving = total.to(z.dtype.element_ty)
    where = is_row[:, None] & is_out[None, :]
    tl.store(z + row[:, None] * out_channels + out[None, :], leaving, mask=where)
    value = tl.where(where, leaving.to(tl.float32), 0.0)
    count = tl.sum(is_row.to(tl.float32), axis=0)
    own_mean = tl.sum(value, axis=0) / count
    off = tl.where(where, value - own_mean[None, :], 0.0)
    at = tile * out_channels + out
    tl.store(mean + at, own_mean, mask=is_out)
    tl.store(deviation + at, tl.sum(off * off, axis=0), mask=is_out)
