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
    """torch.optim.SGD with a step that is never compiled. The arithmetic is bit-identical.

    torch wraps these three methods for compilation. The wrappers import torch._dynamo at first use, including SymPy and half of
    the compiler. This costs each starting rank more than a second of processor time (torch 2.13).
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure is used
        """Update all parameters by one step of SGD. A closure is not supported."""
        assert closure is None
        _step(self)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, as in torch.optim.SGD."""
        _add_param_group(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients to None, or to zero if `set_to_none` is False."""
        _zero_grad(self, set_to_none)


def sgd(module: nn.Module, conf: TrainerConf) -> EagerSgd:
    """Return SGD for the module's parameters with learning rate, momentum and weight decay of `conf`, in one fused kernel."""
    return EagerSgd(
        module.parameters(),
        lr=conf.learning_rate,
        momentum=conf.momentum,
        weight_decay=conf.weight_decay,
        fused=True,
    )


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters from the next step on."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def momentum_of(optimiser: torch.optim.Optimizer, module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the optimiser's momentum buffers, by parameter name. They are not copied.

    Parameters without a buffer are left out. A buffer is created by the first step or by `give_momentum`.
    """
    found = {}
    for name, parameter in module.named_parameters():
        buffer = optimiser.state[parameter].get("momentum_buffer") if parameter in optimiser.state else None
        if buffer is not None:
            found[name] = buffer
    return found


def give_momentum(optimiser: torch.optim.Optimizer, module: nn.Module, momentum: Mapping[str, torch.Tensor]) -> None:
    """Set the optimiser's momentum buffers from `momentum` (tensors by parameter name).

    They are copied to the device and memory format of their parameters. Parameters without an entry keep their buffer. Shapes
    must equal the parameters'.
    """
    for name, parameter in module.named_parameters():
        if name in momentum:
            buffer = torch.empty_like(parameter, requires_grad=False)
            buffer.copy_(momentum[name])
            optimiser.state[parameter]["momentum_buffer"] = buffer
