"""Measured times of a training step by kind of layer and pass, from torch's profiler."""

from __future__ import annotations

import re
import time
from collections import Counter

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from aiperf.train.network.module import build
from morphism import Graph, Map

_KINDS = (
    ("convolution", re.compile(r"conv")),
    ("batch_normalisation", re.compile(r"batch_norm")),
    ("relu", re.compile(r"relu|threshold_backward|clamp_min")),
    ("max_pooling", re.compile(r"max_pool")),
    ("average_pooling", re.compile(r"avg_pool|aten::mean$")),
    ("dense", re.compile(r"addmm|aten::mm$|aten::linear$|aten::matmul$")),
    ("concat", re.compile(r"aten::cat$|slice_backward")),
    ("dropout", re.compile(r"dropout")),
    ("softmax", re.compile(r"softmax|cross_entropy|nll_loss")),
    ("add", re.compile(r"aten::add_?$")),
)
"""Kinds of layers by the names of aten's kernels. An addition in the backward pass is a sum of gradients."""
OTHER = "other"
"""Kind of the time that no kernel of a layer covers."""


def kernel_times(graph: Graph, batch: int, precision: str, steps: int = 3) -> tuple[float, dict[str, float]]:
    """Return the seconds of a training step, and its seconds by kind and pass (`convolution forward`), on this machine.

    All parts add up to the step. The profiler's own time is in `other`. The first step is left out.

    Args:
        precision: fp32, or bf16 or fp16 by autocast.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = graph.shapes[0]
    assert isinstance(shape, Map)
    module = build(graph).to(device).train()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.01)
    images = torch.randn(batch, shape.channels, shape.height, shape.width, device=device)
    labels = torch.zeros(batch, dtype=torch.long, device=device)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)

    def step() -> None:
        module.zero_grad()
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            loss = nn.functional.cross_entropy(module(images), labels)
        _wait(device)
        loss.backward()  # type: ignore[no-untyped-call]
        _wait(device)

    step()
    sums: Counter[str] = Counter()
    whole = 0.0
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    for _ in range(steps):
        with profile(activities=activities) as profiled:
            start = time.perf_counter()
            step()
            whole += time.perf_counter() - start
        events = list(profiled.events())
        backward = min(
            (each.time_range.start for each in events if each.name.startswith("autograd::engine")), default=float("inf")
        )
        for each in events:
            kind = next((name for name, pattern in _KINDS if pattern.search(each.name)), None)
            micros = each.self_device_time_total if device.type == "cuda" else each.self_cpu_time_total
            if kind is not None and not each.name.startswith("autograd::"):
                is_backward = each.time_range.start >= backward
                name = "gradient_sums" if kind == "add" and is_backward else kind
                sums[f"{name} {'backward' if is_backward else 'forward'}"] += micros / 1e6
    found = {name: seconds / steps for name, seconds in sums.items()}
    found[OTHER] = whole / steps - sum(found.values())
    return whole / steps, found


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
