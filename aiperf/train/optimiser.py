"""Optimisers of training: SGD with momentum, as the benchmark prescribes for images, and AdamW for language models."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from aiperf.train.trainer_config import TrainerConf

MOMENTUM = "momentum_buffer"
_MOMENTS = ("exp_avg", "exp_avg_sq")
_add_param_group: Callable[..., None] = inspect.unwrap(torch.optim.Optimizer.add_param_group)
_zero_grad: Callable[..., None] = inspect.unwrap(torch.optim.Optimizer.zero_grad)
_sgd_step: Callable[[torch.optim.Optimizer], None] = inspect.unwrap(torch.optim.SGD.step)
_adamw_step: Callable[[torch.optim.Optimizer], None] = inspect.unwrap(torch.optim.AdamW.step)


class _Eager(torch.optim.Optimizer):
    """Base of torch's fused optimisers without torch's wrappers for compilation. The arithmetic is bit-identical.

    The wrappers import torch._dynamo, which costs each starting rank more than a second of processor time (torch 2.13).
    """

    _update: ClassVar[Callable[..., None]]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure is used
        assert closure is None
        self.clip()
        self._update(self)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        _add_param_group(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        _zero_grad(self, set_to_none)

    def clip(self) -> None:
        """Scale all gradients down to the norm trainer.gradient_clipping, without waiting for the device.

        With loss scaling the gradients are still scaled, and so is the norm. An overflow gives zero or NaN, and the fused step
        is skipped then.
        """
        norm = self.param_groups[0].get("clipping")
        if not norm:
            return
        gradients = [each.grad for group in self.param_groups for each in group["params"] if each.grad is not None]
        scale = getattr(self, "grad_scale", None)
        of_all: Tensor = torch.nn.utils.get_total_norm(gradients)
        torch._foreach_mul_(gradients, ((norm if scale is None else norm * scale) / (of_all + 1e-6)).clamp(max=1.0))


class EagerSgd(_Eager, torch.optim.SGD):
    _update = staticmethod(_sgd_step)


class EagerAdamW(_Eager, torch.optim.AdamW):
    _update = staticmethod(_adamw_step)


def optimiser_of(module: nn.Module, conf: TrainerConf) -> EagerSgd | EagerAdamW:
    """Return the configured optimiser in its fused form. AdamW's decay leaves gains, biases and embeddings out."""
    assert conf.learning_rate is not None and conf.weight_decay is not None, "set by the configuration"
    if conf.optimiser == "sgd":
        made: EagerSgd | EagerAdamW = EagerSgd(
            module.parameters(),
            lr=conf.learning_rate,
            momentum=conf.momentum,
            weight_decay=conf.weight_decay,
            fused=True,
        )
    else:
        embeddings = {id(each.weight) for each in module.modules() if isinstance(each, nn.Embedding)}
        parameters = [*module.parameters()]
        decays = [each.dim() > 1 and id(each) not in embeddings for each in parameters]
        groups = [
            {
                "params": [each for each, of in zip(parameters, decays, strict=True) if of == is_decayed],
                "weight_decay": decay,
            }
            for is_decayed, decay in ((True, conf.weight_decay), (False, 0.0))
        ]
        made = EagerAdamW(
            [group for group in groups if group["params"]],
            lr=conf.learning_rate,
            betas=(conf.momentum, conf.second_momentum),
            fused=True,
        )
    for group in made.param_groups:
        group["clipping"] = conf.gradient_clipping
    return made


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def initial_state(module: nn.Module, conf: TrainerConf) -> dict[str, Tensor]:
    """Return moments of zero, by name, because fused SGD leaves its momentum undefined if the loss scaler finds an overflow."""
    names = (MOMENTUM,) if conf.optimiser == "sgd" else _MOMENTS
    parameters = dict(module.named_parameters())
    state = {f"{name}.{moment}": torch.zeros_like(each) for name, each in parameters.items() for moment in names}
    if conf.optimiser == "adamw":
        state |= {f"{name}.step": torch.zeros((), device=each.device) for name, each in parameters.items()}
    return state


def state_by_name(optimiser: torch.optim.Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of any optimiser as "<parameter>.<name in the optimiser>". They are not copied."""
    return {
        f"{name}.{key}": value
        for name, parameter in module.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_state(optimiser: torch.optim.Optimizer, module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy tensors to the device and memory format of their parameters. Others of the optimiser stay."""
    parameters = dict(module.named_parameters())
    for name, value in state.items():
        owner, _, key = name.rpartition(".")
        parameter = parameters[owner]
        if value.shape == parameter.shape:
            buffer = torch.empty_like(parameter, requires_grad=False)
        else:  # AdamW's number of steps
            buffer = torch.empty_like(value, device=parameter.device)
        buffer.copy_(value)
        optimiser.state[parameter][key] = buffer
