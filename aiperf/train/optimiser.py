"""Stochastic gradient descent (SGD) with momentum, as the benchmark prescribes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from aiperf.train.trainer_config import TrainerConf

MOMENTUM = "momentum_buffer"
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
        module.parameters(), lr=conf.learning_rate, momentum=conf.momentum, weight_decay=conf.weight_decay, fused=True
    )


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def initial_state(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return a momentum of zero, by name, because fused SGD leaves it uninitialized if the loss scaler finds an overflow."""
    return {f"{name}.{MOMENTUM}": torch.zeros_like(parameter) for name, parameter in module.named_parameters()}


def state_by_name(optimiser: torch.optim.Optimizer, module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors of any optimiser as "<parameter>.<name in the optimiser>". They are not copied."""
    return {
        f"{name}.{key}": value
        for name, parameter in module.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def load_state(optimiser: torch.optim.Optimizer, module: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Copy tensors to the device and memory format of their parameters. Others of the optimiser stay."""
    parameters = dict(module.named_parameters())
    for name, value in state.items():
        owner, _, key = name.rpartition(".")
        buffer = torch.empty_like(parameters[owner], requires_grad=False)
        buffer.copy_(value)
        optimiser.state[parameters[owner]][key] = buffer
