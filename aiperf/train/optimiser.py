"""Stochastic gradient descent as the benchmark prescribes, and the learning rate of each epoch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from aiperf.train.trainer_config import TrainerConf


def learning_rate(conf: TrainerConf, epoch: int, global_batch: int, done: float = 0.0) -> float:
    """The rate of a step: in an epoch, from 1, of whose steps the share `done` came before it.

    Linear by the epoch from `learning_rate` towards zero at `decay_epochs`, anew for each trial; epochs beyond keep the last
    rate above zero. Where it is scaled by k = global batch / reference batch > 1, k is reached from 1, by the same amount at
    each step, in the first `warmup_epochs` (gradual warm-up: Goyal et al. 2017, arXiv:1706.02677, section 2.2).

    >>> [round(learning_rate(TrainerConf(), epoch, 256), 4) for epoch in (1, 31, 60)]
    [0.1, 0.05, 0.0017]
    """
    assert conf.decay_epochs is not None, "a run's configuration says how many: aiperf/config.py"
    left = max(1, conf.decay_epochs - (epoch - 1)) / conf.decay_epochs
    return conf.learning_rate * _scale(conf, epoch - 1 + done, global_batch) * left


def _scale(conf: TrainerConf, epochs: float, global_batch: int) -> float:
    """By how much the rate is scaled after so many epochs."""
    if not conf.scale_learning_rate:
        return 1.0
    whole = global_batch / conf.reference_batch
    if whole <= 1 or epochs >= conf.warmup_epochs:
        return whole
    return 1.0 + (whole - 1.0) * epochs / conf.warmup_epochs


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
