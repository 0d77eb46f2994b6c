"""Counts of numbers in a training step that 16-bit types lose: gradients in FP16 and BF16, and updates of BF16 weights."""

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
    """Counts, over several steps, of gradients and updates that 16-bit types lose, by kind of layer."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Tensor] = defaultdict(lambda: torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def add(self, network: nn.Module, optimiser: torch.optim.Optimizer, scaler: Scaler | None) -> None:
        """Call it between the backward pass and the update. The device is synchronized only with loss scaling."""
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
        """By kind of layer ('convolution', 'dense', 'batch_normalisation', 'other'). The call waits for the device."""
        names = GradientCounts.__struct_fields__
        return {
            kind: GradientCounts(**dict(zip(names, row.tolist(), strict=True))) for kind, row in self._counts.items()
        }


def sgd_update(weight: Tensor, gradient: Tensor, momentum: Tensor, options: Mapping[str, Any]) -> Tensor:
    """Return lr · (m · momentum + gradient + weight_decay · weight), with m the momentum factor, as SGD subtracts it."""
    direction: Tensor = options["momentum"] * momentum + gradient + options["weight_decay"] * weight
    update: Tensor = direction * options["lr"]
    return update


def gradient_counts(gradient: Tensor) -> list[Tensor]:
    """Return seven scalar counts of elements of an FP32 gradient that 16-bit types would lose.

    They are: finite elements that are not 0, and of these the elements that become 0, subnormal and infinite in FP16, then in
    BF16.
    """
    is_counted = gradient.isfinite() & (gradient != 0)
    counts = [is_counted.sum()]
    for dtype in (torch.float16, torch.bfloat16):
        size = gradient.to(dtype).float().abs()
        is_subnormal = (size > 0) & (size < torch.finfo(dtype).smallest_normal)
        counts += [(is_counted & found).sum() for found in (size == 0, is_subnormal, size.isinf())]
    return counts


def update_counts(weight: Tensor, update: Tensor) -> list[Tensor]:
    """Return two scalar counts: finite elements of an update that are not 0, and of these those that BF16 weights would lose.

    `update`: difference that the optimiser subtracts from `weight`. Weights that are 0 are left out. An update is lost if it is
    below half the last place of the weight. A weight w with 2^(e−1) ≤ |w| < 2^e has the last place 2^(e−8) in BF16.
    """
    is_counted = update.isfinite() & (update != 0) & (weight != 0)
    exponent = torch.frexp(weight).exponent
    half_of_last_place = torch.ldexp(torch.ones_like(weight), exponent - _BF16_DIGITS - 1)
    return [is_counted.sum(), (is_counted & (update.abs() < half_of_last_place)).sum()]
