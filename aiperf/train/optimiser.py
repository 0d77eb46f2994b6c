"""Stochastic gradient descent as the benchmark prescribes."""

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
    """torch.optim.SGD whose step is never compiled itself; to the bit the same arithmetic.

    torch wraps these three methods for those who compile them, and the wrappers import torch._dynamo at first use: more than a
    second of processor time for each rank that starts, SymPy and half of torch's compiler with it. (torch 2.13)
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure: nothing here evaluates a loss again
        """One step of all parameters by their gradients."""
        assert closure is None
        _step(self)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See torch.optim.Optimizer."""
        _add_param_group(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """See torch.optim.Optimizer."""
        _zero_grad(self, set_to_none)


def sgd(module: nn.Module, conf: TrainerConf) -> EagerSgd:
    """SGD with momentum and weight decay, one fused kernel for all parameters."""
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
