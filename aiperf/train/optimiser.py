"""Stochastic gradient descent (SGD) with momentum, as the benchmark prescribes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from aiperf.train.trainer_config import TrainerConf

_step: Callable[[torch.optim.SGD], None] = inspect.unwrap(torch.optim.SGD.step)
_add_param_group: Callable[..., None] = inspect.unwrap(torch.optim.SGD.add_param_group)
_zero_grad: Callable[..., None] = inspect.unwrap(torch.optim.SGD.zero_grad)


class EagerSgd(torch.optim.SGD):
    """torch.optim.SGD without torch's wrappers for compilation. The arithmetic is bit-identical.

    The wrappers import torch._dynamo, which costs each starting rank more than a second of processor time (torch 2.13).
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure is used
        assert closure is None
        _step(self)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        _add_param_group(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        _zero_grad(self, set_to_none)


def sgd(module: nn.Module, conf: TrainerConf) -> EagerSgd:
    return EagerSgd(
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
    found = {}
    for name, parameter in module.named_parameters():
        buffer = optimiser.state[parameter].get("momentum_buffer") if parameter in optimiser.state else None
        if buffer is not None:
            found[name] = buffer
    return found


def give_momentum(optimiser: torch.optim.Optimizer, module: nn.Module, momentum: Mapping[str, torch.Tensor]) -> None:
    """Buffers are copied to the device and memory format of their parameters. A missing entry keeps the buffer."""
    for name, parameter in module.named_parameters():
        if name in momentum:
            buffer = torch.empty_like(parameter, requires_grad=False)
            buffer.copy_(momentum[name])
            optimiser.state[parameter]["momentum_buffer"] = buffer
