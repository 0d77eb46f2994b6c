"""Application of a morph (a change that grows a network and keeps its function): the grown graph and the plan for its weights.

In evaluation mode the grown network computes the same function as its parent. `grow.py` computes the graph alone, which is
much cheaper.

The plan has instructions without tensors. A tensor is named '<node name>.<weight|bias|running_mean|running_var>', and one of
an Attention or GatedMlp '<node name>.<query|key|value|output|gate|up|down>.weight'. Instructions are executed in order. A
tensor without an instruction is copied from the parent. torch's count of batches is no tensor of a plan: it is copied with the
running statistics, and is 0 for new ones.
"""

import random
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from morphism.axes import axes
from morphism.graph import Graph
from morphism.grow import free_folder, grow
from morphism.morphs import Deepen, Heads, Kernel, Morph, Skip, Widen
from morphism.ops import (
    BATCH_NORMALISATION_EPSILON,
    TOKEN_DEVIATION,
    BatchNormalisation,
    Convolution,
    Residual,
    RmsNorm,
)
from morphism.shapes import Map, channels_of
from morphism.sites import is_of_tokens


@dataclass(frozen=True, slots=True)
class Gather:
    """Instruction: entry j of the new tensor along the dimension `axis` is entry `index[j]` of the old tensor."""

    tensor: str
    axis: int
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Divide:
    """Instruction: divide entry j of the tensor along the dimension `axis` by `counts[j]`. Copies then sum to the original."""

    tensor: str
    axis: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """Instruction: new convolution weight (out, in, K, K) of the identity, 1 at [c, c, K//2, K//2] and 0 elsewhere."""

    tensor: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ZeroTensor:
    """Instruction: new tensor of zeros."""

    tensor: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """Instruction: new tensor with `value` in every element."""

    tensor: str
    shape: tuple[int, ...]
    value: float


@dataclass(frozen=True, slots=True)
class RandomTensor:
    """Instruction: new tensor from a normal distribution with mean 0 and variance 2 / `fan_in` (He et al. 2015, equation 10).

    The generator is seeded by (seed of the copy of the weights, `ordinal`). Ordinals are unique within a plan.
    """

    tensor: str
    shape: tuple[int, ...]
    fan_in: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class Enlarge:
    """Instruction: pad a convolution weight (out, in, K, K) with zeros, equally on each side, to (out, in, kernel, kernel)."""

    tensor: str
    kernel: int


@dataclass(frozen=True, slots=True)
class Extend:
    """Instruction: tensor of `shape` with the old values first in each dimension, if the parent has the tensor.

    The other values are from a normal distribution with this standard deviation, 0 for zeros. The generator is seeded by (seed
    of the copy of the weights, `ordinal`). Ordinals are unique within a plan.
    """

    tensor: str
    shape: tuple[int, ...]
    deviation: float
    ordinal: int


Instruction: TypeAlias = Gather | Divide | Identity | ZeroTensor | Fill | RandomTensor | Enlarge | Extend


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """Instructions that derive the weights of a grown network from those of its parent, in the order of their execution."""

    instructions: tuple[Instruction, ...] = ()


def apply(graph: Graph, morph: Morph) -> tuple[Graph, WeightPlan]:
    """Return the graph after the morph, and the plan that derives its weights from the weights of `graph`.

    Raise IllegalMorph if the morph does not fit the structure of the graph. Limits of the cost are not checked.
    """
    grown = grow(graph, morph)
    match morph:
        case Deepen() | Widen() | Heads() if is_of_tokens(graph):
            known = {node.name: node.op for node in graph.nodes}
            return grown, _of_residuals(grown, [node.name for node in grown.nodes if known.get(node.name) != node.op])
        case Deepen():
            return grown, _deepening(graph, morph)
        case Widen():
            return grown, _widening(graph, morph)
        case Skip():
            return grown, _branching(graph, morph)
        case Kernel():
            return grown, WeightPlan((Enlarge(f"{morph.convolution}.weight", morph.kernel),))
        case Heads():
            raise AssertionError(f"{morph}: only a language model has heads")
        case _:
            assert_never(morph)


def _of_residuals(grown: Graph, names: list[str]) -> WeightPlan:
    """Return the plan for these nodes, added or enlarged: random weights inwards, zeros outwards, so that the sum stays equal.

    Gesmundo and Maile 2023, theorems for heads, hidden units and layers. The function stays equal to the bit where Net2Net's
    copies would change the rounding of sums.
    """
    plan: list[Instruction] = []
    for name in names:
        index = grown.index(name)
        op, features = grown.nodes[index].op, channels_of(grown.shapes[index])
        if isinstance(op, RmsNorm):
            plan.append(Fill(f"{name}.weight", (features,), 1.0))
        elif isinstance(op, Residual):
            plan += [
                Extend(
                    f"{name}.{tensor}.weight",
                    shape,
                    0.0 if tensor == op.PROJECTION else TOKEN_DEVIATION,
                    len(plan) + place,
                )
                for place, (tensor, shape) in enumerate(op.tensors(features).items())
            ]
    return WeightPlan(tuple(plan))


def _deepening(graph: Graph, morph: Deepen) -> WeightPlan:
    folder, channels = free_folder(graph, "deepen"), _channels(graph, morph.after)
    conv, norm = f"{folder}.conv", f"{folder}.norm"
    return WeightPlan(
        (
            Identity(f"{conv}.weight", (channels, channels, 3, 3)),
            # in evaluation the layer divides by √(running_var + ε), and this γ multiplies by it
            Fill(f"{norm}.weight", (channels,), (1.0 + BATCH_NORMALISATION_EPSILON) ** 0.5),
            ZeroTensor(f"{norm}.bias", (channels,)),
            ZeroTensor(f"{norm}.running_mean", (channels,)),
            Fill(f"{norm}.running_var", (channels,), 1.0),
        )
    )


def _branching(graph: Graph, morph: Skip) -> WeightPlan:
    folder = free_folder(graph, "skip")
    entering = _channels(graph, morph.source)
    joined = _channels(graph, morph.target)
    conv, norm = f"{folder}.conv", f"{folder}.norm"
    return WeightPlan(
        (
            RandomTensor(f"{conv}.weight", (joined, entering, 1, 1), fan_in=entering, ordinal=0),
            # only γ is zero, not the convolution, so that both receive gradients
            ZeroTensor(f"{norm}.weight", (joined,)),
            ZeroTensor(f"{norm}.bias", (joined,)),
            ZeroTensor(f"{norm}.running_mean", (joined,)),
            Fill(f"{norm}.running_var", (joined,), 1.0),
        )
    )


def _widening(graph: Graph, morph: Widen) -> WeightPlan:
    channel_axes = axes(graph)
    widened = channel_axes.segments[graph.index(morph.convolution)][0]
    axis = channel_axes.axes[widened]
    copied = copied_channels(axis.channels, morph.channels, morph.seed)
    times = [0] * axis.channels
    for channel in copied:
        times[channel] += 1
    indices: dict[tuple[int, ...], tuple[int, ...]] = {}
    counts: dict[tuple[int, ...], tuple[int, ...]] = {}
    for segments in {channel_axes.segments[carrier] for carrier in axis.carriers}:
        # after a Concat an output has several axes: this axis grows at each of its positions
        gathered: list[int] = []
        divided: list[int] = []
        begin = 0
        for segment in segments:
            channels = channel_axes.axes[segment].channels
            if segment == widened:
                gathered += [begin + channel for channel in copied]
                divided += [times[channel] for channel in copied]
            else:
                gathered += range(begin, begin + channels)
                divided += [1] * channels
            begin += channels
        indices[segments], counts[segments] = tuple(gathered), tuple(divided)

    plan: list[Instruction] = []
    for carrier in axis.carriers:
        node, gathered_by = graph.nodes[carrier], indices[channel_axes.segments[carrier]]
        match node.op:
            case Convolution():
                plan.append(Gather(f"{node.name}.weight", 0, gathered_by))
            case BatchNormalisation():
                plan += [
                    Gather(f"{node.name}.{tensor}", 0, gathered_by)
                    for tensor in ("weight", "bias", "running_mean", "running_var")
                ]
            case _:
                pass  # no weights: its channels grow with what it reads
    for reader in axis.readers:
        node = graph.nodes[reader]
        entering = channel_axes.segments[node.inputs[0]]
        plan.append(Gather(f"{node.name}.weight", 1, indices[entering]))
        # divided by the number of copies, so that they sum to the original channel
        plan.append(Divide(f"{node.name}.weight", 1, counts[entering]))
    return WeightPlan(tuple(plan))


def copied_channels(channels: int, wider: int, seed: int) -> tuple[int, ...]:
    """Return for each of `wider` channels the index of the old channel that it copies. `channels`: number of old channels.

    The first `channels` entries are 0, 1, 2 and so on. The others are drawn with `seed`. Every old channel is drawn once
    before any is drawn twice, which keeps the divisors of the weights small.
    """
    # only random(): Python guarantees its values for a seed
    draw = random.Random(seed).random
    copied = list(range(channels))
    while len(copied) < wider:
        drawn = sorted((draw(), channel) for channel in range(channels))
        copied += [channel for _, channel in drawn[: wider - len(copied)]]
    return tuple(copied)


def _channels(graph: Graph, name: str) -> int:
    shape = graph.shapes[graph.index(name)]
    assert isinstance(shape, Map)
    return shape.channels
