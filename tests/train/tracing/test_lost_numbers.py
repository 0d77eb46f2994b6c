"""Gradients and updates that 16-bit types lose, against definitions by the bits of the numbers."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from aiperf.train.optimiser import initial_state, load_state, optimiser_of
from aiperf.train.tracing.step_trace import LostNumbers, gradient_counts, sgd_update, update_counts
from aiperf.train.trainer_config import TrainerConf

finite = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)
small = st.floats(-(2**-10), 2**-10, width=32, allow_subnormal=False)


@given(st.lists(finite | small, min_size=1))
def test_gradients_are_counted_by_the_bits_of_each_type(values: list[float]) -> None:
    exact = np.array(values, dtype=np.float32)
    counted = exact[exact != 0]
    with np.errstate(over="ignore"):
        half = counted.astype(np.float16)
    brain = [_nearest_bf16(float(each)) for each in counted]

    gradients, *counts = (int(each) for each in gradient_counts(torch.from_numpy(exact)))

    assert gradients == len(counted)
    assert counts[:3] == [
        int((half == 0).sum()),
        int(((half != 0) & (np.abs(half) < np.float16(2**-14))).sum()),
        int(np.isinf(half).sum()),
    ]
    assert counts[3:] == [
        sum(each == 0 for each in brain),
        sum(0 < abs(each) < 2**-126 for each in brain),
        sum(abs(each) == float("inf") for each in brain),
    ]


def _nearest_bf16(value: float) -> float:
    """Round an FP32 number to BF16, half to even, by its bits."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    (found,) = struct.unpack("<f", struct.pack("<I", bits))
    return float(found)


@given(st.floats(2**-100, 2**100, width=32), st.floats(2**-7, 3, width=32), st.sampled_from([-1.0, 1.0]))
def test_a_lost_update_is_below_half_a_last_place(weight: float, halves: float, sign: float) -> None:
    (bits,) = struct.unpack("<I", struct.pack("<f", weight))
    below, above = (struct.unpack("<f", struct.pack("<I", (bits & 0xFFFF0000) + up))[0] for up in (0, 0x10000))
    update = np.float32((above - below) / 2 * halves)

    counted, lost = update_counts(torch.tensor([sign * weight]), torch.tensor([-sign * float(update)]))

    assert (int(counted), bool(lost)) == (1, bool(update < (above - below) / 2))


def test_updates_of_zero_and_of_zero_weights_are_not_counted() -> None:
    counted, lost = update_counts(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([1.0, 0.0, float("nan")]))

    assert (int(counted), int(lost)) == (0, 0)


@given(st.floats(0, 0.99), st.floats(0, 0.1), st.floats(1e-3, 1))
def test_the_update_is_that_of_the_optimiser(momentum: float, weight_decay: float, rate: float) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(5, 3)
    optimiser = optimiser_of(layer, TrainerConf(momentum=momentum, weight_decay=weight_decay, learning_rate=rate))
    load_state(
        optimiser, layer, {name: torch.randn_like(each) for name, each in initial_state(layer, TrainerConf()).items()}
    )
    layer(torch.randn(4, 5)).square().sum().backward()
    weight = layer.weight
    before, gradient = weight.detach().clone(), weight.grad
    assert gradient is not None
    update = sgd_update(before, gradient, optimiser.state[weight]["momentum_buffer"], optimiser.param_groups[0])
    update = update.detach().clone()

    optimiser.step()

    assert torch.allclose(before - weight, update, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scale", [None, 2.0**16])
def test_counts_are_by_kind_of_layer_and_without_loss_scaling(scale: float | None) -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 3))
    optimiser = optimiser_of(network, TrainerConf())
    load_state(optimiser, network, initial_state(network, TrainerConf()))
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    if scaler is not None:
        scaler.scale(torch.ones(1))
    for each in network.parameters():
        each.grad = torch.full_like(each, 2.0**-30 * (scale or 1.0))
    lost = LostNumbers()

    lost.add(network, optimiser, scaler)
    lost.add(network, optimiser, scaler)
    counts = lost.counts()

    assert {kind: each.gradients for kind, each in counts.items()} == {
        "convolution": 36, "batch_normalisation": 8, "dense": 18
    }  # fmt: skip
    assert all(each.fp16_zero == each.gradients and each.bf16_zero == 0 for each in counts.values())
    assert counts["dense"].lost_updates <= counts["dense"].updates
