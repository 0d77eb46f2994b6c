"""Applying a morph: the grown graph, and what becomes of the weights.

In evaluation mode the grown network computes what its parent did. Nodes that a morph adds are named after it and a
number that is free ('deepen3.conv'), so that the same morphs on the same graph give the same names.
"""

import random
from collections.abc import Iterable
from typing import assert_never

from morphism.axes import axes, is_depthwise
from morphism.graph import Graph, Node
from morphism.morphs import Deepen, Kernel, Morph, Skip, Widen
from morphism.ops import (
    BATCH_NORMALISATION_EPSILON,
    Add,
    BatchNormalisation,
    Convolution,
    Op,
    Relu,
)
from morphism.plan import Divide, Enlarge, Fill, Fresh, Gather, Identity, Instruction, WeightPlan, Zero
from morphism.shapes import Map
from morphism.sites import (
    LONGEST_SKIP,
    branches,
    deepen_sites,
    depths,
    kernel_sites,
    larger_kernels,
    most_channels,
    skip_sources,
    skip_stride,
    skip_targets,
    why_not_widened,
    widen_sites,
)


class IllegalMorph(ValueError):
    """A morph that cannot be applied to this graph; the message names the offence and what is legal here."""


def apply(graph: Graph, morph: Morph) -> tuple[Graph, WeightPlan]:
    """The graph after the morph, and the plan that makes its weights of the parent's.

    Raises IllegalMorph. Structure alone decides: what a budget allows is `legal`'s to say.
    """
    match morph:
        case Deepen():
            return _deepened(graph, morph)
        case Widen():
            return _widened(graph, morph)
        case Skip():
            return _skipped(graph, morph)
        case Kernel():
            return _enlarged(graph, morph)
        case _:
            assert_never(morph)


def _deepened(graph: Graph, morph: Deepen) -> tuple[Graph, WeightPlan]:
    after = _found(graph, "deepen after", morph.after, deepen_sites(graph), "it is no ReLU on maps")
    channels = _map(graph, after).channels
    folder = _free(graph, "deepen")
    conv, norm = f"{folder}.conv", f"{folder}.norm"
    grown = _spliced(
        graph,
        after,
        Node(conv, Convolution(channels, 3, padding=1), (after,)),
        Node(norm, BatchNormalisation(), (after + 1,)),
        Node(f"{folder}.relu", Relu(), (after + 2,)),
    )
    return grown, WeightPlan(
        (
            Identity(f"{conv}.weight", (channels, channels, 3, 3)),
            # in evaluation the layer divides by √(running_var + ε): this γ takes just that back
            Fill(f"{norm}.weight", (channels,), (1.0 + BATCH_NORMALISATION_EPSILON) ** 0.5),
            Zero(f"{norm}.bias", (channels,)),
            Zero(f"{norm}.running_mean", (channels,)),
            Fill(f"{norm}.running_var", (channels,), 1.0),
        )
    )


def _skipped(graph: Graph, morph: Skip) -> tuple[Graph, WeightPlan]:
    offence = "it is no activation (a ReLU or a pooling that gives maps)"
    source = _found(graph, "skip from", morph.source, skip_sources(graph), offence)
    offence = "it is no pre-activation (a batch normalisation, sum or convolution that a ReLU reads)"
    target = _found(graph, "skip to", morph.target, skip_targets(graph), offence)
    entering, joined = _map(graph, source), _map(graph, target)
    words = f"cannot skip from {morph.source!r} to {morph.target!r}: "
    if source >= target:
        raise IllegalMorph(f"{words}a skip leads forward; take a source before the target")
    span = depths(graph)[target] - depths(graph)[source] + 1
    if not 1 <= span <= LONGEST_SKIP:
        raise IllegalMorph(f"{words}it spans {span} blocks; legal here: 1 to {LONGEST_SKIP}")
    if source in branches(graph).get(target, frozenset()):
        raise IllegalMorph(f"{words}such a branch is there already; take another source or target")
    stride = skip_stride(entering, joined)
    if stride is None:
        raise IllegalMorph(f"{words}no stride brings maps of {entering} to {joined}; take maps that shrink evenly")
    folder = _free(graph, "skip")
    conv, norm = f"{folder}.conv", f"{folder}.norm"
    grown = _spliced(
        graph,
        target,
        Node(conv, Convolution(joined.channels, 1, stride=stride), (source,)),
        Node(norm, BatchNormalisation(), (target + 1,)),
        Node(f"{folder}.add", Add(), (target, target + 2)),
    )
    channels = (joined.channels,)
    return grown, WeightPlan(
        (
            Fresh(f"{conv}.weight", (joined.channels, entering.channels, 1, 1), fan_in=entering.channels, ordinal=0),
            # γ alone is zero behind a convolution that is not, so that γ learns at once, and then the convolution
            Zero(f"{norm}.weight", channels),
            Zero(f"{norm}.bias", channels),
            Zero(f"{norm}.running_mean", channels),
            Fill(f"{norm}.running_var", channels, 1.0),
        )
    )


def _enlarged(graph: Graph, morph: Kernel) -> tuple[Graph, WeightPlan]:
    offence = "only odd kernels from 3 on grow, up to 7, and not of a convolution that reads the image"
    index = _found(graph, "enlarge", morph.convolution, kernel_sites(graph), offence)
    node = graph.nodes[index]
    op = node.op
    assert isinstance(op, Convolution)
    if morph.kernel not in larger_kernels(op.kernel):
        raise IllegalMorph(
            f"cannot enlarge {morph.convolution!r} from kernel {op.kernel} to {morph.kernel!r}; "
            f"legal here: {', '.join(map(str, larger_kernels(op.kernel)))}"
        )
    padding = op.padding + (morph.kernel - op.kernel) // 2
    larger = Convolution(op.out_channels, morph.kernel, op.stride, padding, op.groups)
    return _replaced(graph, {index: larger}), WeightPlan((Enlarge(f"{node.name}.weight", morph.kernel),))


def _widened(graph: Graph, morph: Widen) -> tuple[Graph, WeightPlan]:
    index = graph.indices.get(morph.convolution)
    offence = "" if index is None else why_not_widened(graph, index)
    if offence is not None:
        _found(graph, "widen", morph.convolution, widen_sites(graph), offence)
    assert index is not None
    found = axes(graph)
    widened = found.segments[index][0]
    axis = found.axes[widened]
    most = most_channels(graph, widened)
    if type(morph.channels) is not int or not axis.channels < morph.channels <= most:
        raise IllegalMorph(
            f"cannot widen {morph.convolution!r} from {axis.channels} channels to {morph.channels!r}; "
            f"legal here: {axis.channels + 1} to {most}"
        )
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

    ops: dict[int, Op] = {}
    plan: list[Instruction] = []
    for carrier in axis.carriers:
        node, gathered_by = graph.nodes[carrier], indices[found.segments[carrier]]
        match node.op:
            case Convolution() as op:
                channels = len(gathered_by)
                groups = channels if is_depthwise(op, graph.shapes[node.inputs[0]]) else 1
                ops[carrier] = Convolution(channels, op.kernel, op.stride, op.padding, groups)
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
    return _replaced(graph, ops), WeightPlan(tuple(plan))


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


def _spliced(graph: Graph, after: int, *added: Node) -> Graph:
    """The graph with nodes put right behind `after`, whose readers then read the last of them."""
    # whatever stood behind `after` moves on, and whoever read `after` reads what takes its place: the same shift
    shift = len(added)
    moved = [
        Node(node.name, node.op, tuple([entry + shift if entry >= after else entry for entry in node.inputs]))
        for node in graph.nodes[after + 1 :]
    ]
    return Graph((*graph.nodes[: after + 1], *added, *moved))


def _replaced(graph: Graph, ops: dict[int, Op]) -> Graph:
    return Graph(
        tuple(
            [
                Node(node.name, ops[index], node.inputs) if index in ops else node
                for index, node in enumerate(graph.nodes)
            ]
        )
    )


def _free(graph: Graph, kind: str) -> str:
    number = 1
    while f"{kind}{number}" in graph.heads:
        number += 1
    return f"{kind}{number}"


def _map(graph: Graph, index: int) -> Map:
    shape = graph.shapes[index]
    assert isinstance(shape, Map)
    return shape


def _found(graph: Graph, doing: str, name: str, sites: tuple[int, ...], offence: str) -> int:
    index = graph.indices.get(name)
    if index in sites:
        assert index is not None
        return index
    offence = offence if index is not None else "there is no such node"
    raise IllegalMorph(f"cannot {doing} {name!r}: {offence}; legal here: {_listed(graph.nodes[s].name for s in sites)}")


def _listed(names: Iterable[str], shown: int = 8) -> str:
    every = list(names)
    listed = ", ".join(map(repr, every[:shown])) or "nothing"
    return listed if len(every) <= shown else f"{listed} and {len(every) - shown} more"
