"""Loading of libraries that the first trial would otherwise wait for.

The first convolution, backward pass and checkpoint load their kernels. If a trial may be compiled, torch's compiler is
also loaded. Done once at a rank's start, on a tiny network.
"""

from __future__ import annotations

import importlib
import io

import torch
from torch import nn

from aiperf.train.execution_mode import modes_of
from aiperf.train.optimiser import sgd
from aiperf.train.rank_context import RankContext


def warm_up(context: RankContext) -> None:
    """Run one step of a tiny network through everything that a trial uses, including gradient exchange.

    All ranks must call it.
    """
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 2 * 2, 2)).to(
        context.device
    )
    if context.conf.channels_last:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    context.collective.broadcast([*network.state_dict().values()])
    exchange = context.collective.exchange(
        network, sgd(network, context.conf), context.precision.scaler(), context.timeline
    )
    images = torch.zeros(2, 1, 4, 4, device=context.device, dtype=context.precision.dtype)
    with context.precision.computing():
        loss = nn.functional.cross_entropy(
            exchange.module(images).float(),
            torch.zeros(2, dtype=torch.int64, device=context.device),
            label_smoothing=0.1,
        )
    exchange.backward(loss)
    exchange.update()
    exchange.close()
    if any(mode.compiled for mode in modes_of(context.conf, on_cuda=context.device.type == "cuda")):
        importlib.import_module("torch._dynamo")  # takes a second
    torch.save(network.state_dict(), io.BytesIO())
    context.timeline.anchor()
