"""What becomes of a parent's weights, as instructions that are data: there is no tensor in a plan.

A tensor is named '<node name>.<weight|bias|running_mean|running_var>'. Instructions are carried out in order; a tensor
of the child that none mentions is the parent's, unchanged. The count of batches that torch keeps beside the running
statistics is no tensor of a plan: it goes with them, and begins at 0 where they are new.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class Gather:
    """Along `axis`, entry j of the new tensor is entry `index[j]` of the old."""

    tensor: str
    axis: int
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Divide:
    """Along `axis`, entry j is divided by `counts[j]`, so that copies sum to what they were copied from."""

    tensor: str
    axis: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """A new convolution weight (out, in, K, K) that leaves its input as it is: 1 at [c, c, K//2, K//2], else 0."""

    tensor: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Zero:
    """A new tensor of zeros."""

    tensor: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """A new tensor of one value."""

    tensor: str
    shape: tuple[int, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Fresh:
    """A new tensor drawn from a normal distribution, mean 0, variance 2 / `fan_in` (He et al. 2015, equation 10).

    The generator is seeded by (the seed of the transplant, `ordinal`); ordinals are unique within a plan.
    """

    tensor: str
    shape: tuple[int, ...]
    fan_in: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class Enlarge:
    """A convolution weight (out, in, K, K) padded with zeros, the same on each side, to (out, in, kernel, kernel)."""

    tensor: str
    kernel: int


Instruction: TypeAlias = Gather | Divide | Identity | Zero | Fill | Fresh | Enlarge


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """Instructions in the order in which they are carried out."""

    instructions: tuple[Instruction, ...] = ()


def shapes_after(plan: WeightPlan, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes of a child's tensors, given those of its parent: the plan carried out on shapes alone."""
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
            case Identity(shape=shape) | Zero(shape=shape) | Fill(shape=shape) | Fresh(shape=shape):
                assert tensor not in grown, f"{tensor}: is there already"
                grown[tensor] = shape
            case _:
                assert_never(instruction)
    return grown
