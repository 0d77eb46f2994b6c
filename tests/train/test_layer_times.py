"""Measured times of a step by kind of layer."""

from __future__ import annotations

from typing import Any

import pytest
from torch._C._autograd import DeviceType
from torch.autograd import profiler_util

from aiperf.train.tracing.kernel_trace import OTHER
from aiperf.train.tracing.layer_times import layer_times, seconds_by_layer
from morphism import start


def test_kinds_and_the_rest_add_up_to_the_step() -> None:
    whole, parts = layer_times(start("digits_small"), 4, "fp32", steps=1)

    assert sum(parts.values()) == pytest.approx(whole)
    assert {"convolution forward", "convolution backward", "batch_normalisation forward", OTHER} <= parts.keys()
    assert all(seconds > 0 for name, seconds in parts.items() if name != OTHER)


def test_a_language_model_has_the_times_of_its_kinds() -> None:
    whole, parts = layer_times(start("llama_tiny", image=16), 4, "bf16", steps=1)

    assert sum(parts.values()) == pytest.approx(whole)
    kinds = {name.partition(" ")[0] for name in parts}
    assert {"dense", "attention", "gated_mlp", "embedding", "rms_norm", "softmax", "add"} <= kinds


def test_kernels_count_once_for_their_operators() -> None:
    """Events as torch makes them on CUDA: operators, their calls to the runtime, and each kernel as an event of its own."""
    planted = [  # name, start, end, kernels of it
        ("aten::conv2d", 0, 40, ()),
        ("aten::cudnn_convolution", 5, 30, (("sm80_xmma_gemm_bf16", 100), ("nchwToNhwcKernel", 20))),
        ("cudaLaunchKernel", 10, 12, ()),
        ("aten::max_pool2d", 50, 60, ()),
        ("aten::copy_", 51, 58, (("vectorized_elementwise_kernel", 7),)),
        ("aten::to", 70, 80, (("unrolled_elementwise_kernel", 3),)),
        ("autograd::engine::evaluate_function: ReluBackward0", 100, 120, ()),
        ("aten::threshold_backward", 101, 110, (("vectorized_elementwise_kernel", 11),)),
        ("aten::add_", 130, 140, (("vectorized_elementwise_kernel", 13),)),
    ]
    torch_events: Any = profiler_util  # without annotations
    events = torch_events.EventList(use_device="cuda")
    for number, (name, begin, end, kernels) in enumerate(planted):
        operator = torch_events.FunctionEvent(number, name, 1, begin, end, use_device="cuda")
        events.append(operator)
        for kernel, micros in kernels:
            operator.append_kernel(kernel, 0, micros)
            own = torch_events.FunctionEvent(
                number, kernel, 7, 1000 + begin, 1000 + begin + micros, use_device="cuda", device_type=DeviceType.CUDA
            )
            events.append(own)
    events._build_tree()

    found = {name: round(1e6 * seconds) for name, seconds in seconds_by_layer(events, on_device=True).items()}

    assert found == {
        "convolution forward": 120,
        "max_pooling forward": 7,
        "relu backward": 11,
        "gradient_sums backward": 13,
    }
