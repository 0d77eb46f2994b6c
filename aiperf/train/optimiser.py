"""Stochastic gradient descent as the benchmark prescribes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from aiperf.train.trainer_config import TrainerConf


def sgd(module: nn.Module, conf: TrainerConf) -> torch.optim.SGD:
    """SGD with momentum and weight decay, one fused kernel for all parameters."""
    return torch.optim.SGD(
        module.parameters(),
        lr=conf.learning_rate,
        momentum=conf.momentum,
        weight_decay=conf.weight_decay,
        fused=True,
    )


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def momentum_of(optimiser: torch.optim.Optimizer, module: nn.Module) -> dict[str, torch.Tensor]:
    """The momentum buffers by the parameter's name; of those that have one (none before the first step)."""
    found = {}
    for name, parameter in module.named_parameters():
        buffer = optimiser.state[parameter].get("momentum_buffer") if parameter in optimiser.state else None
        if buffer is not None:
            found[name] = buffer
    return found


def give_momentum(optimiser: torch.optim.Optimizer, module: nn.Module, momentum: Mapping[str, torch.Tensor]) -> None:
    """Puts momentum buffers in place, copied into the layout (device, memory format) of their parameters."""
    for name, parameter in module.named_parameters():
        if name in momentum:
            buffer = torch.empty_like(parameter, requires_grad=False)
            buffer.copy_(momentum[name])
            optimiser.state[parameter]["momentum_buffer"] = buffer
