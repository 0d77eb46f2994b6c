"""Legal morphs (changes that grow a network) of a graph within a budget, without building candidates.

Forward operations and parameters of a layer (`cost.layer_cost`) are linear in its input and in its output channels, from which
the change of a morph follows. Morphs that add weights without effect are left out (`sites.useful_kernels`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from morphism import sites
from morphism.architecture import Architecture, cost_of
from morphism.axes import Axes, Axis, axes
from morphism.cost import Cost, LayerCost, cost, held, held_within, layer_cost, layer_costs, training_memory
from morphism.graph import Graph
from morphism.morphs import Deepen, Heads, Kernel, Morph, Skip, Widen
from morphism.ops import (
    Add,
    Attention,
    BatchNormalisation,
    Convolution,
    Dense,
    Dropout,
    GatedMlp,
    MaxPooling,
    Relu,
    Residual,
    RmsNorm,
)
from morphism.shapes import Map, Tokens, channels_of
from morphism.transformer import sizes_at

WIDENINGS = ((5, 4), (3, 2), (2, 1))
"""Factors of a widening: 1.25, 1.5 and 2."""

_EVEN_CHANNELS = 8  # from 16 channels on, sizes are rounded up to a multiple, which tensor cores prefer


@dataclass(frozen=True, slots=True)
class Budget:
    """Largest cost that a grown network may have. None is no limit."""

    forward_flops: int | None
    """Most floating-point operations of a forward pass in training, per image."""
    parameters: int | None
    memory_bytes: int | None
    """Training memory in bytes on one accelerator at `batch` images, by `Cost.training_memory`."""
    batch: int = 32
    bytes_per_element: int = 4
    """Size of an activation: 4 for FP32, 2 for FP16 and BF16."""

    @classmethod
    def of(
        cls,
        architecture: Architecture,
        factor: float = 4.0,
        memory_bytes: int | None = None,
        batch: int = 32,
        bytes_per_element: int = 4,
    ) -> "Budget":
        """Return a budget of `factor` times the forward operations and the parameters of a starting architecture.

        `memory_bytes`: limit of the training memory on one accelerator, None for no limit. `batch`: images per step for that
        limit. `bytes_per_element`: bytes of an activation.
        """
        start = cost_of(architecture)
        return cls(
            int(factor * start.forward_flops), int(factor * start.parameters), memory_bytes, batch, bytes_per_element
        )

    def allows(self, cost: Cost) -> bool:
        """Return True if operations, parameters and training memory of the cost are at most the limits of the budget."""
        return (
            (self.forward_flops is None or cost.forward_flops <= self.forward_flops)
            and (self.parameters is None or cost.parameters <= self.parameters)
            and (
                self.memory_bytes is None
                or cost.training_memory(self.batch, self.bytes_per_element) <= self.memory_bytes
            )
        )


class CostChange(NamedTuple):
    """Change of the cost by a morph, per image: each field of `Cost` after the morph minus the same field before it."""

    forward_flops: int
    parameters: int
    held_elements: int = 0
    index_elements: int = 0
    largest_elements: int = 0


KINDS_OF_MORPH: Final = (Deepen, Widen, Skip, Kernel, Heads)
"""Kinds in the order of `legal`."""


@dataclass(slots=True)
class _Listed:
    """Cached lists for one graph and budget. It is stored in the graph and does not refer to it, to avoid a cycle."""

    kinds: tuple[type[Morph], ...] | None = None
    of: dict[type[Morph], tuple[Morph, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LegalMorphs:
    """Legal morphs of a graph within a budget. Each kind is listed at its first use, since a draw needs only one kind."""

    graph: Graph
    budget: Budget
    _listed: _Listed = field(repr=False)

    def kinds(self) -> tuple[type[Morph], ...]:
        """Return the kinds of morphs (in the order of KINDS_OF_MORPH) with at least one legal morph."""
        if self._listed.kinds is None:
            self._listed.kinds = tuple([kind for kind in KINDS_OF_MORPH if any(True for _ in self._fitting(kind))])
        return self._listed.kinds

    def is_empty(self) -> bool:
        """Return True if no morph is legal. The search stops at the first legal morph, which is much faster than `kinds`."""
        if self._listed.kinds is not None:
            return not self._listed.kinds
        return not any(True for kind in KINDS_OF_MORPH for _ in self._fitting(kind))

    def of(self, kind: type[Morph]) -> tuple[Morph, ...]:
        """Return the legal morphs of the class `kind` (one of KINDS_OF_MORPH), in the order of the nodes.

        A Skip is listed at its target.
        """
        listed = self._listed.of
        if kind not in listed:
            listed[kind] = tuple(self._fitting(kind))
        return listed[kind]

    def _fitting(self, kind: type[Morph]) -> Iterator[Morph]:
        now, budget = cost(self.graph), self.budget
        if not budget.allows(now):
            return
        # remaining budget
        flops = math.inf if budget.forward_flops is None else budget.forward_flops - now.forward_flops
        parameters = math.inf if budget.parameters is None else budget.parameters - now.parameters
        batch, size = budget.batch, budget.bytes_per_element
        memory = math.inf if budget.memory_bytes is None else budget.memory_bytes - now.training_memory(batch, size)
        for morph, change in _CHANGES[kind](self.graph):
            # training_memory is linear: the change in memory is the memory of the change
            if (
                change[0] <= flops
                and change[1] <= parameters
                and (memory is math.inf or training_memory(batch, size, *change[1:], moments=now.moments) <= memory)
            ):
                yield morph


def choices(graph: Graph, budget: Budget) -> LegalMorphs:
    """Return the legal morphs of a graph within a budget, listed only when they are used. The lists are cached in the graph.

    There are none if the graph itself exceeds the budget.
    """
    memory: dict[Budget, _Listed] = graph.__dict__.setdefault("morphism.legal.choices", {})
    return LegalMorphs(graph, budget, memory.setdefault(budget, _Listed()))


def legal(graph: Graph, budget: Budget) -> tuple[Morph, ...]:
    """Return all legal morphs within the budget by KINDS_OF_MORPH, each in the order of the nodes (Skip: targets).

    A Widen is listed for each GatedMlp, or for the first convolution of each channel axis (a group of nodes with equal numbers
    of channels), once for each number of channels in `wider`, with seed 0. The result is empty if the graph itself exceeds the
    budget.
    """
    morphs = choices(graph, budget)
    return tuple([morph for kind in KINDS_OF_MORPH for morph in morphs.of(kind)])


def changes(graph: Graph) -> Iterator[tuple[Morph, CostChange]]:
    """Yield (morph, change of the cost per image) for every morph that is legal if the cost has no limit."""
    for kind in KINDS_OF_MORPH:
        yield from _CHANGES[kind](graph)


def _deepenings(graph: Graph) -> Iterator[tuple[Morph, CostChange]]:
    for index in sites.deepen_sites(graph):
        shape = graph.shapes[index]
        if isinstance(shape, Tokens):
            sizes = sizes_at(graph, index)
            assert sizes is not None
            yield Deepen(graph.nodes[index].name), _block(shape, *sizes)
            continue
        assert isinstance(shape, Map)
        if not sites.is_useful_depth(shape):
            continue
        yield Deepen(graph.nodes[index].name), _unit(shape)


@lru_cache(maxsize=1024)
def _block(shape: Tokens, attention: Attention, mlp: GatedMlp) -> CostChange:
    """Return the cost of a transformer's block. Outputs of its norms and sums are stored.

    Its last sum has the readers that the node before the block had, and the first norm reads that node: one more is stored.
    """
    norm, add = layer_cost(RmsNorm(), (shape,), shape), layer_cost(Add(), (shape, shape), shape)
    within = sum(held_within(op, shape) for op in (RmsNorm(), attention, RmsNorm(), mlp))
    residual = (layer_cost(op, (shape,), shape) for op in (attention, mlp))
    return _added(norm, norm, add, add, *residual, held_elements=4 * shape.elements + within)


@lru_cache(maxsize=1024)
def _unit(shape: Map) -> CostChange:
    """Return the cost of a 3×3 convolution, batch normalisation and ReLU. Outputs of convolution and ReLU are stored."""
    return _added(
        layer_cost(Convolution(shape.channels, 3, padding=1), (shape,), shape),
        layer_cost(BatchNormalisation(), (shape,), shape),
        layer_cost(Relu(), (shape,), shape),
        held_elements=2 * shape.elements,
    )


def _skips(graph: Graph) -> Iterator[tuple[Morph, CostChange]]:
    nodes, shapes, is_held, alike = graph.nodes, graph.shapes, held(graph), sites.shape_numbers(graph)
    known: dict[tuple[int, int, bool], CostChange] = {}
    for source, target in sites.skip_sites(graph):
        key = (alike[source], alike[target], is_held[source])
        change = known.get(key)
        if change is None:
            entering, joined = shapes[source], shapes[target]
            assert isinstance(entering, Map) and isinstance(joined, Map)
            change = _branch(entering, joined)
            if not is_held[source]:
                # output of a pooling that only sums read: the backward pass of the new convolution reads it
                change = change._replace(held_elements=change.held_elements + entering.elements)
            known[key] = change
        yield Skip(nodes[source].name, nodes[target].name), change


@lru_cache(maxsize=4096)
def _branch(entering: Map, joined: Map) -> CostChange:
    """Return the cost of a 1×1 convolution, batch normalisation and sum. The output of the convolution is stored.

    The sum replaces its target for all readers, so that its output is stored if the target's output was.
    """
    stride = sites.skip_stride(entering, joined)
    assert stride is not None
    return _added(
        layer_cost(Convolution(joined.channels, 1, stride=stride), (entering,), joined),
        layer_cost(BatchNormalisation(), (joined,), joined),
        layer_cost(Add(), (joined, joined), joined),
        held_elements=joined.elements,
    )


def _added(*layers: LayerCost, held_elements: int) -> CostChange:
    return CostChange(
        sum(layer.forward_flops for layer in layers), sum(layer.parameters for layer in layers), held_elements
    )


def _kernels(graph: Graph) -> Iterator[tuple[Morph, CostChange]]:
    layers = layer_costs(graph)
    for index in sites.kernel_sites(graph):
        op, layer = graph.nodes[index].op, layers[index]
        assert isinstance(op, Convolution)
        area = op.kernel * op.kernel
        for kernel in sites.useful_kernels(graph, index):
            more = kernel * kernel - area
            yield (
                Kernel(graph.nodes[index].name, kernel),
                CostChange(layer.forward_flops // area * more, layer.parameters // area * more),
            )


def _heads(graph: Graph) -> Iterator[tuple[Morph, CostChange]]:
    yield from _larger(graph, Attention, Heads)


def _larger(
    graph: Graph, kind: type[Residual], morph: Callable[[str, int], Morph]
) -> Iterator[tuple[Morph, CostChange]]:
    for index in sites.sites_of_size(graph, kind):
        op, shape = graph.nodes[index].op, graph.shapes[index]
        assert isinstance(op, Residual)
        layer, within = layer_costs(graph)[index], held_within(op, shape)
        for size in wider(op.size):
            if size <= op.largest_size:
                larger = op.of_size(size)
                grown = layer_cost(larger, (shape,), shape)
                yield (
                    morph(graph.nodes[index].name, size),
                    CostChange(
                        grown.forward_flops - layer.forward_flops,
                        grown.parameters - layer.parameters,
                        held_within(larger, shape) - within,
                    ),
                )


def _widenings(graph: Graph) -> Iterator[tuple[Morph, CostChange]]:
    yield from _larger(graph, GatedMlp, Widen)
    channel_axes = axes(graph)
    first = [
        (axis.producers[0], number)
        for number, axis in enumerate(channel_axes.axes)
        if axis.producers and axis.pinned is None
    ]
    for producer, number in sorted(first):
        axis = channel_axes.axes[number]
        growth, most = _growth(graph, channel_axes, number, axis), sites.most_channels(graph, number)
        for channels in wider(axis.channels):
            if channels <= most:
                yield Widen(graph.nodes[producer].name, channels), growth.change(channels - axis.channels)


def wider(channels: int) -> list[int]:
    """Return the numbers to which a Widen or Heads may increase `channels` (or units, or heads), ascending, without repetition.

    They are `channels` times 1.25, 1.5 and 2, rounded up. If `channels` is 16 or more, they are rounded up to multiples of 8.
    """
    sizes = []
    for multiplier, divisor in WIDENINGS:
        size = -(-channels * multiplier // divisor)
        if channels >= 2 * _EVEN_CHANNELS:
            size = -(-size // _EVEN_CHANNELS) * _EVEN_CHANNELS
        sizes.append(max(size, channels + 1))
    return sorted(set(sizes))


@dataclass(slots=True)
class _Growth:
    """Change of the cost per added channel of one axis. It is quadratic if a layer has the axis in input and output."""

    forward_flops: tuple[int, int]
    parameters: tuple[int, int]
    held_elements: int
    index_elements: int
    largest_elements: int
    outputs: list[tuple[int, int]]
    """For each carrier of the axis: its elements, and its additional elements per channel."""

    def change(self, more: int) -> CostChange:
        largest = self.largest_elements
        for elements, slope in self.outputs:
            if elements + slope * more > largest:
                largest = elements + slope * more
        return CostChange(
            self.forward_flops[0] * more + self.forward_flops[1] * more * more,
            self.parameters[0] * more + self.parameters[1] * more * more,
            self.held_elements * more,
            self.index_elements * more,
            largest - self.largest_elements,
        )


def _growth(graph: Graph, channel_axes: Axes, number: int, axis: Axis) -> _Growth:
    layers, is_held, segments = layer_costs(graph), held(graph), channel_axes.segments
    flops = flops_squared = parameters = parameters_squared = held_slope = index_slope = 0
    outputs: list[tuple[int, int]] = []
    for index in dict.fromkeys((*axis.carriers, *axis.readers)):
        node, layer, shape = graph.nodes[index], layers[index], graph.shapes[index]
        op = node.op
        # occurrences of the axis in the output: more than one only after a Concat with itself
        leaving = segments[index].count(number)
        mixes = isinstance(op, Dense) or (isinstance(op, Convolution) and op.groups == 1)
        entering = segments[node.inputs[0]].count(number) if mixes else 0
        if mixes:
            before, after = channels_of(graph.shapes[node.inputs[0]]), channels_of(shape)
            slope = entering * after + leaving * before
            # cost of one pair of an input channel and an output channel
            pair_flops = layer.forward_flops // (before * after)
            pair_parameters = 1 if isinstance(op, Dense) else layer.parameters // (before * after)
            flops += pair_flops * slope
            flops_squared += pair_flops * entering * leaving
            parameters += pair_parameters * slope
            parameters_squared += pair_parameters * entering * leaving
        else:
            channels = channels_of(shape)
            flops += layer.forward_flops // channels * leaving
            parameters += layer.parameters // channels * leaving
        if leaving:
            slope = shape.elements // channels_of(shape) * leaving
            outputs.append((shape.elements, slope))
            held_slope += slope * (is_held[index] + isinstance(op, Dropout))
            index_slope += slope * isinstance(op, MaxPooling)
    largest = cost(graph).largest_elements
    return _Growth((flops, flops_squared), (parameters, parameters_squared), held_slope, index_slope, largest, outputs)


_CHANGES: Final[Mapping[type[Morph], Callable[[Graph], Iterator[tuple[Morph, CostChange]]]]] = {
    Deepen: _deepenings,
    Widen: _widenings,
    Skip: _skips,
    Kernel: _kernels,
    Heads: _heads,
}
