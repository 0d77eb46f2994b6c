"""Weights of a network: initial values, weights of a child derived from its parent's, and noise on copied channels.

All random values are drawn from seeded generators: a seed gives the same values in any precision and on any device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import sqrt
from typing import assert_never

import torch
from torch import Tensor, nn

from morphism import Divide, Enlarge, Fill, Gather, Identity, RandomTensor, WeightPlan, ZeroTensor

DENSE_DEVIATION = 0.01
"""Standard deviation of a classifier's initial weights, as in Goyal et al., arXiv:1706.02677, section 5.1."""


def initialise(module: nn.Module, seed: int) -> None:
    """Set every tensor of the module to its initial value, in place. Random values depend only on `seed`.

    - convolution: He normal, std = √(2 / fan_in), fan_in = input channels per group · K² (He et al. 2015, eq. 10, the forward
      form, which keeps the scale of activations constant through the depth). 3×3 over 64 channels: √(2/576) = 0.0589
    - batch normalisation: γ = 1, β = 0, running mean 0, running variance 1
    - dense: normal with std 0.01, bias 0

    Raise TypeError for any other submodule with tensors, because its values would stay undefined.
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
                    "use only Conv2d, BatchNorm1d, BatchNorm2d, SyncBatchNorm and Linear"
                )


def stream(purpose: str, seed: int, number: int) -> torch.Generator:
    """A change of any argument gives an independent CPU generator. `purpose`: any text, such as "noise"."""
    digest = blake2b(f"{purpose} {seed} {number}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))


def normal(shape: Sequence[int], deviation: float, generator: torch.Generator) -> Tensor:
    return torch.empty(tuple(shape), dtype=torch.float32, device="cpu").normal_(0.0, deviation, generator=generator)


def he_normal(shape: Sequence[int], fan_in: int, generator: torch.Generator) -> Tensor:
    """Return random values of the given shape from a normal distribution with std = √(2 / fan_in), float32 on the CPU.

    `fan_in`: number of inputs of one output value. Source: He et al. 2015 (arXiv:1502.01852), eq. 10.
    """
    return normal(shape, sqrt(2.0 / fan_in), generator)


def _fill(parameter: Tensor, values: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(values)


@torch.no_grad()
def carry_out(plan: WeightPlan, parent_state: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Return the state dict of a child: its parent's, changed by the plan, in the parent's precision, on its device.

    Unchanged tensors are returned without a copy. Raise ValueError if the plan was made for another network.
    """
    child = dict(parent_state)
    own: set[str] = set()  # created here, so that they may be changed in place
    for instruction in plan.instructions:
        name = instruction.tensor
        match instruction:
            case Gather(axis=axis, index=index):
                old = _existing(child, name)
                child[name] = old.index_select(axis, torch.tensor(index, device=old.device))
            case Divide(axis=axis, counts=counts):
                old = _existing(child, name)
                along = [1] * old.dim()
                along[axis] = len(counts)
                divisor = torch.tensor(counts, dtype=old.dtype, device=old.device).view(along)
                child[name] = old.div_(divisor) if name in own else old / divisor
            case Enlarge(kernel=kernel):
                old = _existing(child, name)
                border = (kernel - old.shape[-1]) // 2
                child[name] = nn.functional.pad(old, (border, border, border, border))
            case Identity(shape=shape):
                child[name] = nn.init.dirac_(_new(child, name, shape))
            case ZeroTensor(shape=shape):
                child[name] = _new(child, name, shape).zero_()
            case Fill(shape=shape, value=value):
                child[name] = _new(child, name, shape).fill_(value)
            case RandomTensor(shape=shape, fan_in=fan_in, ordinal=ordinal):
                child[name] = _new(child, name, shape).copy_(he_normal(shape, fan_in, stream("fresh", seed, ordinal)))
            case _:
                assert_never(instruction)
        own.add(name)
        node, _, kind = name.rpartition(".")
        if kind == "running_mean" and name not in parent_state:
            # torch counts batches with the statistics. Plans omit the count, which starts at 0
            child[f"{node}.num_batches_tracked"] = torch.zeros((), dtype=torch.int64, device=child[name].device)
    return child


def _existing(state: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in state:
        raise ValueError(f"the plan changes {name!r}, but the parent's state lacks it. {_REMEDY}")
    return state[name]


def _new(state: Mapping[str, Tensor], name: str, shape: tuple[int, ...]) -> Tensor:
    """In the precision and on the device of the parent's tensors of its kind."""
    if name in state:
        raise ValueError(f"the plan creates {name!r}, but the parent's state already has it. {_REMEDY}")
    kind = name.rpartition(".")[2]
    # precision may differ by kind: 16-bit convolutions, float32 normalisation
    alike = (
        tensor
        for other, tensor in state.items()
        if other.rpartition(".")[2] == kind and tensor.dim() == len(shape) and tensor.is_floating_point()
    )
    any_other = (tensor for tensor in state.values() if tensor.is_floating_point())
    like = next(alike, None)
    return (next(any_other) if like is None else like).new_empty(shape)


_REMEDY = "Apply it to the state of its own network"


@torch.no_grad()
def break_symmetry(
    state: Mapping[str, Tensor], plan: WeightPlan, seed: int, relative: float = 1e-3
) -> dict[str, Tensor]:
    """Return the state dict with small noise on the second and later copies of channels that the plan made.

    `relative`: standard deviation as a share of the RMS of the tensor. Copies of a channel receive the same gradients, and
    without noise a widened network would stay as narrow as its parent. Normalisation is unchanged, because a running variance
    must stay positive. Raise ValueError for weights with a precision coarser than the noise (bfloat16 for 1e-3), because
    rounding would remove it.
    """
    noisy = dict(state)
    for number, instruction in enumerate(plan.instructions):
        if not isinstance(instruction, Gather):
            continue
        weight, axis, copies = noisy[instruction.tensor], instruction.axis, _repeated(instruction.index)
        if weight.dim() < 2 or not copies:
            continue
        if torch.finfo(weight.dtype).eps > relative:
            raise ValueError(
                f"noise of {relative!r} would be rounded away in {instruction.tensor!r}, which is {weight.dtype}; "
                "break the symmetry of the float32 master weights"
            )
        root_mean_square = torch.linalg.vector_norm(weight, dtype=torch.float64).item() / sqrt(weight.numel())
        shape = list(weight.shape)
        shape[axis] = len(copies)
        noise = normal(shape, relative * root_mean_square, stream("noise", seed, number))
        noisy[instruction.tensor] = weight.index_add(
            axis, torch.tensor(copies, device=weight.device), noise.to(device=weight.device, dtype=weight.dtype)
        )
    return noisy


def _repeated(index: tuple[int, ...]) -> list[int]:
    """Return the positions with a source channel that occurred before."""
    seen: set[int] = set()
    return [position for position, source in enumerate(index) if source in seen or seen.add(source)]  # type: ignore[func-returns-value]
