"""Plan that derives the weights of a child from its parent's, as instructions without tensors.

A tensor is named '<node name>.<weight|bias|running_mean|running_var>'. Instructions are executed in order. A tensor without an
instruction is copied from the parent. torch's count of batches is no tensor of a plan: it is copied with the running
statistics, and is 0 for new ones.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class Gather:
    """Entry j of the new tensor along `axis` is entry `index[j]` of the old one."""

    tensor: str
    axis: int
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Divide:
    """Divides entry j along `axis` by `counts[j]`, so that copies sum to the original."""

    tensor: str
    axis: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """New convolution weight (out, in, K, K) of the identity: 1 at [c, c, K//2, K//2], otherwise 0."""

    tensor: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ZeroTensor:
    """New tensor of zeros."""

    tensor: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """New tensor of one value."""

    tensor: str
    shape: tuple[int, ...]
    value: float


@dataclass(frozen=True, slots=True)
class RandomTensor:
    """New tensor from a normal distribution with mean 0 and variance 2 / `fan_in` (He et al. 2015, equation 10).

    The generator is seeded by (seed of the transplant, `ordinal`). Ordinals are unique within a plan.
    """

    tensor: str
    shape: tuple[int, ...]
    fan_in: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class Enlarge:
    """Pads a convolution weight (out, in, K, K) with zeros, equally on each side, to (out, in, kernel, kernel)."""

    tensor: str
    kernel: int


Instruction: TypeAlias = Gather | Divide | Identity | ZeroTensor | Fill | RandomTensor | Enlarge


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """Instructions in the order of their execution."""

    instructions: tuple[Instruction, ...] = ()


def shapes_after(plan: WeightPlan, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a child's tensors from those of its parent."""
    grown = dict(shapes)
    for instruction in plan.instructions:
        tensor = instruction.tensor
        match instruction:
            case Gather(axis=axis, index=index):
                shape = grown[tensor]
                assert all(0 <= entry < shape[axis] for entry in index), f"{tensor}: gathered from beyond its end"
                grown[tensor] = (*shape[:axis], len(index), *shape[axis + 1 :])
            case Divide(axis=axis, counts=counts):
                assert len(counts) == grown[tensor][axis], f"{tensor}: one count for each entry"
            case Enlarge(kernel=kernel):
                assert kernel > grown[tensor][-1] and (kernel - grown[tensor][-1]) % 2 == 0, f"{tensor}: symmetrically"
                grown[tensor] = (*grown[tensor][:2], kernel, kernel)
            case Identity(shape=shape) | ZeroTensor(shape=shape) | Fill(shape=shape) | RandomTensor(shape=shape):
                assert tensor not in grown, f"{tensor}: is there already"
                grown[tensor] = shape
            case _:
                assert_never(instruction)
    return grown
