"""Numbers of a training step that 16-bit types lose: gradients in FP16 and BF16, and updates of BF16 weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from aiperf.journal.events import GradientCounts
from aiperf.train.collectives.collective import Scaler

_KINDS = {nn.Conv2d: "convolution", nn.Linear: "dense", nn.BatchNorm2d: "batch_normalisation"}
_BF16_DIGITS = 8
"""Binary digits of a BF16 number's significand, with the hidden one."""


class LostNumbers:
    """Counts over steps, by kind of layer."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Tensor] = defaultdict(lambda: torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def add(self, network: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None) -> None:
        """Count the gradients of a step between backward pass and update. The optimiser must have momentum buffers.

        The device is not synchronized without loss scaling.
        """
        scale = 1.0 if scaler is None else scaler.get_scale()
        group = optimiser.param_groups[0]
        for module in network.modules():
            kind = next((name for layer, name in _KINDS.items() if isinstance(module, layer)), "other")
            for weight in module.parameters(recurse=False):
                if weight.grad is None:
                    continue
                gradient = weight.grad.float() / scale
                update = sgd_update(weight, gradient, optimiser.state[weight]["momentum_buffer"], group)
                self._counts[kind] = self._counts[kind].to(weight.device) + torch.stack(
                    [*gradient_counts(gradient), *update_counts(weight, update)]
                )

    def counts(self) -> dict[str, GradientCounts]:
        """Return the counts over all steps by kind of layer. Synchronizes the device."""
        names = GradientCounts.__struct_fields__
        return {
            kind: GradientCounts(**dict(zip(names, row.tolist(), strict=True))) for kind, row in self._counts.items()
        }


def sgd_update(weight: Tensor, gradient: Tensor, momentum: Tensor, options: Mapping[str, Any]) -> Tensor:
    """Return the difference that SGD's next step subtracts from a weight. `options`: of its parameter group."""
    direction: Tensor = options["momentum"] * momentum + gradient + options["weight_decay"] * weight
    update: Tensor = direction * options["lr"]
    return update


def gradient_counts(gradient: Tensor) -> list[Tensor]:
    """Return scalar counts of gradient elements: the first seven fields of GradientCounts, for an FP32 tensor."""
    is_counted = gradient.isfinite() & (gradient != 0)
    counts = [is_counted.sum()]
    for dtype in (torch.float16, torch.bfloat16):
        size = gradient.to(dtype).float().abs()
        is_subnormal = (size > 0) & (size < torch.finfo(dtype).smallest_normal)
        counts += [(is_counted & found).sum() for found in (size == 0, is_subnormal, size.isinf())]
    return counts


def update_counts(weight: Tensor, update: Tensor) -> list[Tensor]:
    """Return scalar counts of updates and lost updates: the last two fields of GradientCounts.

    `update`: difference that the optimiser subtracts.

    A weight w with 2^(e−1) ≤ |w| < 2^e has the last place 2^(e−8) in BF16.
    """
    is_counted = update.isfinite() & (update != 0) & (weight != 0)
    exponent = torch.frexp(weight).exponent
    half_of_last_place = torch.ldexp(torch.ones_like(weight), exponent - _BF16_DIGITS - 1)
    return [is_counted.sum(), (is_counted & (update.abs() < half_of_last_place)).sum()]
