"""Initial values: He normal for convolutions, small normal for dense layers, from seeded generators.

The same seed gives the same values in any precision and on any device, independent of torch's global generator.
"""

from collections.abc import Sequence
from hashlib import blake2b
from math import sqrt

import torch
from torch import Tensor, nn

DENSE_DEVIATION = 0.01
"""Standard deviation of a classifier's initial weights, as in Goyal et al., arXiv:1706.02677, section 5.1."""


def initialise(module: nn.Module, seed: int) -> None:
    """Set every tensor of the module to its initial value, in place.

    - convolution: He normal, std = √(2 / fan_in), fan_in = input channels per group · K² (He et al. 2015, eq. 10, the forward
      form, which keeps the scale of activations constant through the depth). 3×3 over 64 channels: √(2/576) = 0.0589
    - batch normalisation: γ = 1, β = 0, running mean 0, running variance 1
    - dense: normal with std 0.01, bias 0

    Raises TypeError for any other submodule with tensors, because its values would stay undefined.
    """
    for number, (name, layer) in enumerate(module.named_modules()):
        match layer:
            case nn.Conv2d():
                fan_in = layer.weight.shape[1] * layer.weight.shape[2] * layer.weight.shape[3]
                _fill(layer.weight, he_normal(layer.weight.shape, fan_in, stream("initialise", seed, number)))
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
            case nn.BatchNorm1d() | nn.BatchNorm2d() | nn.SyncBatchNorm():
                layer.reset_parameters()
            case nn.Linear():
                draw = normal(layer.weight.shape, DENSE_DEVIATION, stream("initialise", seed, number))
                _fill(layer.weight, draw)
                nn.init.zeros_(layer.bias)
            case _ if own := [*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)]:
                raise TypeError(
                    f"cannot initialise {name!r}: no initial value is defined for {own[0][0]!r} of a {type(layer).__name__}; "
                    "known are Conv2d, BatchNorm1d, BatchNorm2d, SyncBatchNorm and Linear"
                )


def stream(purpose: str, seed: int, number: int) -> torch.Generator:
    """Return the generator for one use of a seed. Other purposes and numbers give independent generators."""
    digest = blake2b(f"{purpose} {seed} {number}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))


def normal(shape: Sequence[int], deviation: float, generator: torch.Generator) -> Tensor:
    """Return normal values of the given shape with mean 0 and standard deviation `deviation`, float32 on the CPU."""
    return torch.empty(tuple(shape), dtype=torch.float32, device="cpu").normal_(0.0, deviation, generator=generator)


def he_normal(shape: Sequence[int], fan_in: int, generator: torch.Generator) -> Tensor:
    """Return values of the given shape with std = √(2 / fan_in), float32 on the CPU.

    He et al. 2015 (arXiv:1502.01852), eq. 10.
    """
    return normal(shape, sqrt(2.0 / fan_in), generator)


def _fill(parameter: Tensor, values: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(values)
