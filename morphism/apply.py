"""Applying a morph: the grown graph, and what becomes of the weights.

In evaluation mode the grown network computes what its parent did. What the graph becomes is in `grow.py`; where no weights
are wanted, that alone is a good deal cheaper.
"""

import random
from typing import assert_never

from morphism.axes import axes
from morphism.graph import Graph
from morphism.grow import free_folder, grow
from morphism.morphs import Deepen, Kernel, Morph, Skip, Widen
from morphism.ops import BATCH_NORMALISATION_EPSILON, BatchNormalisation, Convolution
from morphism.shapes import Map
from morphism.weight_plan import Divide, Enlarge, Fill, Fresh, Gather, Identity, Instruction, WeightPlan, Zero


def apply(graph: Graph, morph: Morph) -> tuple[Graph, WeightPlan]:
    """The graph after the morph, and the plan that makes its weights of the parent's.

    Raises IllegalMorph. Structure alone decides: what a budget allows is `legal`'s to say.
    """
    grown = grow(graph, morph)
    match morph:
        case Deepen():
            return grown, _deepening(graph, morph)
        case Widen():
            return grown, _widening(graph, morph)
        case Skip():
            return grown, _branching(graph, morph)
        case Kernel():
            return grown, WeightPlan((Enlarge(f"{morph.convolution}.weight", morph.kernel),))
        case _:
            assert_never(morph)


def _deepening(graph: Graph, morph: Deepen) -> WeightPlan:
    folder, channels = free_folder(graph, "deepen"), _channels(graph, morph.after)
    conv, norm = f"{folder}.conv", f"{folder}.norm"
    return WeightPlan(
        (
            Identity(f"{conv}.weight", (channels, channels, 3, 3)),
            # in evaluation the layer divides by √(running_var + ε): this γ takes just that back
            Fill(f"{norm}.weight", (channels,), (1.0 + BATCH_NORMALISATION_EPSILON) ** 0.5),
            Zero(f"{norm}.bias", (channels,)),
            Zero(f"{norm}.running_mean", (channels,)),
            Fill(f"{norm}.running_var", (channels,), 1.0),
        )
    )


def _branching(graph: Graph, morph: Skip) -> WeightPlan:
    folder, entering, joined = (
        free_folder(graph, "skip"),
        _channels(graph, morph.source),
        _channels(graph, morph.target),
    )
    conv, norm = f"{folder}.conv", f"{folder}.norm"
    return WeightPlan(
        (
            Fresh(f"{conv}.weight", (joined, entering, 1, 1), fan_in=entering, ordinal=0),
            # γ alone is zero behind a convolution that is not, so that γ learns at once, and then the convolution
            Zero(f"{norm}.weight", (joined,)),
            Zero(f"{norm}.bias", (joined,)),
            Zero(f"{norm}.running_mean", (joined,)),
            Fill(f"{norm}.running_var", (joined,), 1.0),
        )
    )


def _widening(graph: Graph, morph: Widen) -> WeightPlan:
    found = axes(graph)
    widened = found.segments[graph.index(morph.convolution)][0]
    axis = found.axes[widened]
    copied = copied_channels(axis.channels, morph.channels, morph.seed)
    times = [0] * axis.channels
    for channel in copied:
        times[channel] += 1
    indices: dict[tuple[int, ...], tuple[int, ...]] = {}
    counts: dict[tuple[int, ...], tuple[int, ...]] = {}
    for segments in {found.segments[carrier] for carrier in axis.carriers}:
        # several axes may stand side by side here, after a Concat: this one grows wherever it stands
        gathered: list[int] = []
        divided: list[int] = []
        begin = 0
        for segment in segments:
            channels = found.axes[segment].channels
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
        node, gathered_by = graph.nodes[carrier], indices[found.segments[carrier]]
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
        entering = found.segments[node.inputs[0]]
        plan.append(Gather(f"{node.name}.weight", 1, indices[entering]))
        # divided by how often a channel was copied, so that the copies sum to the channel we began with
        plan.append(Divide(f"{node.name}.weight", 1, counts[entering]))
    return WeightPlan(tuple(plan))


def copied_channels(channels: int, wider: int, seed: int) -> tuple[int, ...]:
    """For each of `wider` channels the one of `channels` that it copies: first all in order, then drawn from `seed`.

    Every channel is drawn once before any is drawn again, so that no weight is divided by more than it need be.
    """
    # only random() is used, whose values for a seed Python promises never to change
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
