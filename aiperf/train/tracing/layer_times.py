"""Measured times of a training step by kind of layer and pass (forward, backward), from torch's profiler."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterable

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler import profile
from torch.autograd.profiler_util import FunctionEvent

from aiperf.train.counted_step import mean_loss, prepared
from aiperf.train.tracing.kernel_trace import OTHER, layer_kind
from morphism import Graph


def operator_profile(device: torch.device) -> profile:
    """torch.profiler does the same, but imports torch's compiler first, which takes seconds (torch 2.13)."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise its library prints lines about its start and end
    return profile(use_device="cuda" if device.type == "cuda" else None, use_kineto=True)


"""Kind of the time that no kernel of a layer covers."""


def layer_times(graph: Graph, batch: int, precision: str, steps: int = 3) -> tuple[float, dict[str, float]]:
    """Measure forward and backward pass. Return (mean seconds of a step, seconds of it by kind of layer and pass).

    The keys are such as 'convolution forward', and the values sum to the step. 'other' has the remaining time, including the
    profiler's own. The products of attention and gated MLP with their weights are operators of dense layers, and count there.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module, images, labels = prepared(graph, batch, str(device))
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)

    def step() -> None:
        module.zero_grad()
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            loss = mean_loss(module, images, labels)
        _wait(device)
        loss.backward()  # type: ignore[no-untyped-call]
        _wait(device)

    step()
    sums: Counter[str] = Counter()
    whole = 0.0
    for _ in range(steps):
        with operator_profile(device) as profiled:
            start = time.perf_counter()
            step()
            whole += time.perf_counter() - start
        sums += seconds_by_layer(profiled.function_events or (), on_device=device.type == "cuda")
    by_kind = {name: seconds / steps for name, seconds in sums.items()}
    by_kind[OTHER] = whole / steps - sum(by_kind.values())
    return whole / steps, by_kind


def seconds_by_layer(events: Iterable[FunctionEvent], *, on_device: bool) -> Counter[str]:
    """A kernel counts for the operator that launched it, or for its nearest caller that computes a layer."""
    operators = [each for each in events if each.device_type == DeviceType.CPU]
    backward = min(
        (each.time_range.start for each in operators if each.name.startswith("autograd::engine")), default=math.inf
    )
    sums: Counter[str] = Counter()
    for each in operators:
        micros = sum(kernel.duration for kernel in each.kernels) if on_device else each.self_cpu_time_total
        caller: FunctionEvent | None = each
        while caller is not None and (kind := layer_kind(caller.name)) is None and on_device:
            caller = caller.cpu_parent
        if kind is not None and micros:
            is_backward = each.time_range.start >= backward
            name = "gradient_sums" if kind == "add" and is_backward else kind
            sums[f"{name} {'backward' if is_backward else 'forward'}"] += micros / 1e6
    return sums


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
