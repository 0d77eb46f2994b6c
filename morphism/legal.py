"""Which morphs fit a budget, by the change each would make to the cost: no candidate is built.

A morph that adds weights which no pixel reaches is never among them (`sites.useful_kernels`): it would be work for nothing.

The changes rest on one property of `cost.layer_cost`: forward operations and parameters of a layer grow linearly in the
channels that leave it and linearly in those that enter it. A test holds them to the cost of the graphs really grown.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from morphism.axes import Axes, Axis, axes
from morphism.cost import Cost, LayerCost, cost, held, layer_cost, layer_costs, training_memory
from morphism.graph import Graph
from morphism.morphs import Deepen, Kernel, Morph, Skip, Widen
from morphism.ops import Add, BatchNormalisation, Convolution, Dense, Dropout, MaxPooling, Relu
from morphism.shapes import Map, Shape
from morphism.sites import (
    deepen_sites,
    is_useful_depth,
    kernel_sites,
    most_channels,
    shape_numbers,
    skip_sites,
    skip_stride,
    useful_kernels,
)

WIDENINGS = ((5, 4), (3, 2), (2, 1))
"""How much wider a widen may make an axis: times 1.25, 1.5 and 2."""

_EVEN_CHANNELS = 8  # wider axes are rounded up to a multiple, as tensor cores like them, from twice as many on


@dataclass(frozen=True, slots=True)
class Budget:
    """What a grown network may cost. None is no limit."""

    forward_flops: int | None
    """Per image."""
    parameters: int | None
    memory_bytes: int | None
    """For training at `batch` images, on one accelerator, by `Cost.training_memory`."""
    batch: int = 32
    bytes_per_element: int = 4
    """Of an activation: 4 for FP32, 2 for FP16 and BF16."""

    @classmethod
    def of(
        cls,
        graph: Graph,
        factor: float = 4.0,
        memory_bytes: int | None = None,
        batch: int = 32,
        bytes_per_element: int = 4,
    ) -> "Budget":
        """`factor` times the forward operations and the parameters of a starting graph."""
        start = cost(graph)
        return cls(
            int(factor * start.forward_flops), int(factor * start.parameters), memory_bytes, batch, bytes_per_element
        )

    def allows(self, cost: Cost) -> bool:
        """Whether a graph of that cost is within the budget, its limits included."""
        return (
            (self.forward_flops is None or cost.forward_flops <= self.forward_flops)
            and (self.parameters is None or cost.parameters <= self.parameters)
            and (
                self.memory_bytes is None
                or cost.training_memory(self.batch, self.bytes_per_element) <= self.memory_bytes
            )
        )


class Change(NamedTuple):
    """What a morph adds to the fields of `Cost` of the same names."""

    forward_flops: int
    parameters: int
    held_elements: int = 0
    index_elements: int = 0
    largest_elements: int = 0


KINDS_OF_MORPH: Final = (Deepen, Widen, Skip, Kernel)
"""In the order in which `legal` lists them."""


@dataclass(slots=True)
class _Listed:
    """What was listed of one graph under one budget. It stands on the graph and does not know it: that would be a cycle."""

    kinds: tuple[type[Morph], ...] | None = None
    of: dict[type[Morph], tuple[Morph, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choices:
    """The morphs that leave a graph within a budget, each kind listed when it is first asked for: `choices` makes it.

    Who draws one morph needs to know which kinds there are and to see one of them whole, not all.
    """

    graph: Graph
    budget: Budget
    _listed: _Listed = field(repr=False)

    def kinds(self) -> tuple[type[Morph], ...]:
        """The kinds of which at least one morph is legal, in the order of KINDS_OF_MORPH."""
        if self._listed.kinds is None:
            self._listed.kinds = tuple([kind for kind in KINDS_OF_MORPH if any(True for _ in self._fitting(kind))])
        return self._listed.kinds

    def is_empty(self) -> bool:
        """Whether no morph of any kind is legal: the graph cannot grow. Ends at the first that is found."""
        if self._listed.kinds is not None:
            return not self._listed.kinds
        return not any(True for kind in KINDS_OF_MORPH for _ in self._fitting(kind))

    def of(self, kind: type[Morph]) -> tuple[Morph, ...]:
        """The legal morphs of one kind, in the order of the nodes."""
        listed = self._listed.of
        if kind not in listed:
            listed[kind] = tuple(self._fitting(kind))
        return listed[kind]

    def _fitting(self, kind: type[Morph]) -> Iterator[Morph]:
        now, budget = cost(self.graph), self.budget
        if not budget.allows(now):
            return
        # what is left to spend
        flops = math.inf if budget.forward_flops is None else budget.forward_flops - now.forward_flops
        parameters = math.inf if budget.parameters is None else budget.parameters - now.parameters
        batch, size = budget.batch, budget.bytes_per_element
        memory = math.inf if budget.memory_bytes is None else budget.memory_bytes - now.training_memory(batch, size)
        for morph, change in _CHANGES[kind](self.graph):
            # memory is linear in what it is made of, so that the change in memory is the memory of the change
            if (
                change[0] <= flops
                and change[1] <= parameters
                and (memory is math.inf or training_memory(batch, size, *change[1:]) <= memory)
            ):
                yield morph


def choices(graph: Graph, budget: Budget) -> Choices:
    """The morphs to choose from; what is listed of them is remembered on the graph."""
    memory: dict[Budget, _Listed] = graph.__dict__.setdefault("morphism.legal.choices", {})
    return Choices(graph, budget, memory.setdefault(budget, _Listed()))


def legal(graph: Graph, budget: Budget) -> tuple[Morph, ...]:
    """Every morph that leaves the graph within the budget: deepen, widen, skip, kernel, each in the order of the nodes.

    Widen is offered once for an axis, by its first convolution, in the sizes of WIDENINGS and with seed 0.
    """
    found = choices(graph, budget)
    return tuple([morph for kind in KINDS_OF_MORPH for morph in found.of(kind)])


def changes(graph: Graph) -> Iterator[tuple[Morph, Change]]:
    """Every morph that `legal` could offer, whatever the budget, with the change it makes to the cost."""
    for kind in KINDS_OF_MORPH:
        yield from _CHANGES[kind](graph)


def _deepenings(graph: Graph) -> Iterator[tuple[Morph, Change]]:
    for index in deepen_sites(graph):
        shape = graph.shapes[index]
        assert isinstance(shape, Map)
        if not is_useful_depth(shape):
            continue
        yield Deepen(graph.nodes[index].name), _unit(shape)


@lru_cache(maxsize=1024)
def _unit(shape: Map) -> Change:
    """A 3×3 convolution, batch normalisation and ReLU: held are the convolution's output and the ReLU's."""
    return _added(
        layer_cost(Convolution(shape.channels, 3, padding=1), (shape,), shape),
        layer_cost(BatchNormalisation(), (shape,), shape),
        layer_cost(Relu(), (shape,), shape),
        held_elements=2 * shape.elements,
    )


def _skips(graph: Graph) -> Iterator[tuple[Morph, Change]]:
    nodes, shapes, is_held, alike = graph.nodes, graph.shapes, held(graph), shape_numbers(graph)
    known: dict[tuple[int, int, bool], Change] = {}
    for source, target in skip_sites(graph):
        key = (alike[source], alike[target], is_held[source])
        change = known.get(key)
        if change is None:
            entering, joined = shapes[source], shapes[target]
            assert isinstance(entering, Map) and isinstance(joined, Map)
            change = _branch(entering, joined)
            if not is_held[source]:
                # a pooling that only sums read: the new convolution needs it in the backward pass
                change = change._replace(held_elements=change.held_elements + entering.elements)
            known[key] = change
        yield Skip(nodes[source].name, nodes[target].name), change


@lru_cache(maxsize=4096)
def _branch(entering: Map, joined: Map) -> Change:
    """A 1×1 convolution, batch normalisation and sum: held is the convolution's output.

    The sum takes over the readers of what it is added to, and with them whether it is held.
    """
    stride = skip_stride(entering, joined)
    assert stride is not None
    return _added(
        layer_cost(Convolution(joined.channels, 1, stride=stride), (entering,), joined),
        layer_cost(BatchNormalisation(), (joined,), joined),
        layer_cost(Add(), (joined, joined), joined),
        held_elements=joined.elements,
    )


def _added(*layers: LayerCost, held_elements: int) -> Change:
    return Change(
        sum(layer.forward_flops for layer in layers), sum(layer.parameters for layer in layers), held_elements
    )


def _kernels(graph: Graph) -> Iterator[tuple[Morph, Change]]:
    layers = layer_costs(graph)
    for index in kernel_sites(graph):
        op, layer = graph.nodes[index].op, layers[index]
        assert isinstance(op, Convolution)
        area = op.kernel * op.kernel
        for kernel in useful_kernels(graph, index):
            more = kernel * kernel - area
            yield (
                Kernel(graph.nodes[index].name, kernel),
                Change(layer.forward_flops // area * more, layer.parameters // area * more),
            )


def _widenings(graph: Graph) -> Iterator[tuple[Morph, Change]]:
    found = axes(graph)
    first = [
        (axis.producers[0], number) for number, axis in enumerate(found.axes) if axis.producers and axis.pinned is None
    ]
    for producer, number in sorted(first):
        axis = found.axes[number]
        growth, most = _growth(graph, found, number, axis), most_channels(graph, number)
        for channels in wider(axis.channels):
            if channels <= most:
                yield Widen(graph.nodes[producer].name, channels), growth.change(channels - axis.channels)


def wider(channels: int) -> list[int]:
    """The sizes that so many channels may grow to, in order."""
    sizes = []
    for multiplier, divisor in WIDENINGS:
        size = -(-channels * multiplier // divisor)
        if channels >= 2 * _EVEN_CHANNELS:
            size = -(-size // _EVEN_CHANNELS) * _EVEN_CHANNELS
        sizes.append(max(size, channels + 1))
    return sorted(set(sizes))


@dataclass(slots=True)
class _Growth:
    """How the cost changes with the channels of one axis: quadratically where a layer both reads and makes it."""

    forward_flops: tuple[int, int]
    parameters: tuple[int, int]
    held_elements: int
    index_elements: int
    largest_elements: int
    outputs: list[tuple[int, int]]
    """For each node that carries the axis its elements, and its elements for each channel more."""

    def change(self, more: int) -> Change:
        largest = self.largest_elements
        for elements, slope in self.outputs:
            if elements + slope * more > largest:
                largest = elements + slope * more
        return Change(
            self.forward_flops[0] * more + self.forward_flops[1] * more * more,
            self.parameters[0] * more + self.parameters[1] * more * more,
            self.held_elements * more,
            self.index_elements * more,
            largest - self.largest_elements,
        )


def _growth(graph: Graph, found: Axes, number: int, axis: Axis) -> _Growth:
    layers, is_held, segments = layer_costs(graph), held(graph), found.segments
    flops = flops_squared = parameters = parameters_squared = held_slope = index_slope = 0
    outputs: list[tuple[int, int]] = []
    for index in dict.fromkeys((*axis.carriers, *axis.readers)):
        node, layer, shape = graph.nodes[index], layers[index], graph.shapes[index]
        op = node.op
        # how often the axis stands in what leaves the layer: more than once only after a Concat of it with itself
        leaving = segments[index].count(number)
        mixes = isinstance(op, Dense) or (isinstance(op, Convolution) and op.groups == 1)
        entering = segments[node.inputs[0]].count(number) if mixes else 0
        if mixes:
            before, after = _channels(graph.shapes[node.inputs[0]]), _channels(shape)
            slope = entering * after + leaving * before
            # the cost of one pair of channels, one that enters and one that leaves
            pair_flops = layer.forward_flops // (before * after)
            pair_parameters = 1 if isinstance(op, Dense) else layer.parameters // (before * after)
            flops += pair_flops * slope
            flops_squared += pair_flops * entering * leaving
            parameters += pair_parameters * slope
            parameters_squared += pair_parameters * entering * leaving
        else:
            channels = _channels(shape)
            flops += layer.forward_flops // channels * leaving
            parameters += layer.parameters // channels * leaving
        if leaving:
            slope = shape.elements // _channels(shape) * leaving
            outputs.append((shape.elements, slope))
            held_slope += slope * (is_held[index] + isinstance(op, Dropout))
            index_slope += slope * isinstance(op, MaxPooling)
    largest = cost(graph).largest_elements
    return _Growth(
        (flops, flops_squared),
        (parameters, parameters_squared),
        held_slope,
        index_slope,
        largest,
        outputs,
    )


def _channels(shape: Shape) -> int:
    return shape.channels if isinstance(shape, Map) else shape.features


_CHANGES: Final[Mapping[type[Morph], Callable[[Graph], Iterator[tuple[Morph, Change]]]]] = {
    Deepen: _deepenings,
    Widen: _widenings,
    Skip: _skips,
    Kernel: _kernels,
}
