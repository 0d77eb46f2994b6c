"""Channel axes of a network: groups of nodes that must have equal numbers of channels.

Widening one convolution widens all nodes of its axis. An axis can be pinned: it cannot grow.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from morphism import ops
from morphism.graph import Graph, once_per_graph
from morphism.shapes import Map, Shape

Segments: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """Channel axis: channels that several nodes share. They grow in all of these nodes or in none."""

    channels: int
    """Number of channels."""
    producers: tuple[int, ...]
    """Indices of the ungrouped convolutions with these output channels, sorted."""
    carriers: tuple[int, ...]
    """Indices of all nodes whose output has these channels, producers included, sorted."""
    readers: tuple[int, ...]
    """Indices of the ungrouped convolutions and dense layers with this axis in their input, sorted."""
    pinned: str | None
    """Reason why the axis cannot grow. None if it can."""


@dataclass(frozen=True, slots=True)
class Axes:
    """All channel axes of a graph, and the channel axes of each node's output."""

    axes: tuple[Axis, ...]
    segments: tuple[Segments, ...]
    """For each node: indices in `axes` for its output channels, in order. One index, or several after a Concat."""


def is_depthwise(op: ops.Convolution, entering: Shape) -> bool:
    """Return True if the convolution is depthwise: each output channel depends only on the input channel of the same number.

    `entering`: shape of the input of the convolution.
    """
    return isinstance(entering, Map) and 1 < op.groups == op.out_channels == entering.channels


@once_per_graph
def axes(graph: Graph) -> Axes:
    """Return the channel axes of a graph: the groups of nodes that must have equal numbers of channels."""
    shared = _Shared()
    segments: list[Segments] = []
    for node, shape in zip(graph.nodes, graph.shapes, strict=True):
        op = node.op
        match op:
            case (
                ops.BatchNormalisation()
                | ops.Relu()
                | ops.MaxPooling()
                | ops.AveragePooling()
                | ops.GlobalAveragePooling()
                | ops.Dropout()
                | ops.Softmax()
                | ops.RmsNorm()
                | ops.Attention()
                | ops.GatedMlp()
            ):
                entering_segments = segments[node.inputs[0]]
            case ops.Convolution() if op.groups == 1:
                entering_segments = (shared.new(op.out_channels),)
            case ops.Convolution():
                entering_segments = segments[node.inputs[0]]
                if not is_depthwise(op, graph.shapes[node.inputs[0]]):
                    why = f"the convolution {node.name!r} divides them into {op.groups} groups, which growth would tear"
                    shared.pin(entering_segments, why)
                    entering_segments = (shared.new(op.out_channels),)
                    shared.pin(entering_segments, why)
            case ops.Add():
                left, right = (segments[entering] for entering in node.inputs)
                entering_segments = left
                shared.join(left, right, f"{node.name!r} adds them to channels that are joined otherwise")
            case ops.Concat():
                entering_segments = sum((segments[entering] for entering in node.inputs), ())
            case ops.Input():
                entering_segments = (shared.new(shape.channels if isinstance(shape, Map) else 0),)
                shared.pin(entering_segments, "its channels are the image's")
            case ops.TokenInput() | ops.Embedding():
                entering_segments = (shared.new(op.features if isinstance(op, ops.Embedding) else 0),)
                shared.pin(entering_segments, "they are the features of the tokens")
            case ops.Dense():
                entering_segments = (shared.new(op.out_features),)
                shared.pin(entering_segments, f"they are the features of the dense layer {node.name!r}, not channels")
            case _:
                assert_never(op)
        segments.append(entering_segments)
    return _gathered(graph, shared, segments)


class _Shared:
    """Union-find over axes. A root stores the reason why its axis cannot grow."""

    def __init__(self) -> None:
        self.channels: list[int] = []
        self._parents: list[int] = []
        self._pinned: dict[int, str] = {}

    def new(self, channels: int) -> int:
        self.channels.append(channels)
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def root(self, axis: int) -> int:
        while self._parents[axis] != axis:
            self._parents[axis] = self._parents[self._parents[axis]]
            axis = self._parents[axis]
        return axis

    def pinned(self, axis: int) -> str | None:
        return self._pinned.get(self.root(axis))

    def pin(self, axes: Segments, why: str) -> None:
        for axis in axes:
            self._pinned.setdefault(self.root(axis), why)

    def join(self, left: Segments, right: Segments, why_not: str) -> None:
        if [self.channels[axis] for axis in left] != [self.channels[axis] for axis in right]:
            self.pin(left + right, why_not)
            return
        for one, other in zip(left, right, strict=True):
            kept, absorbed = sorted((self.root(one), self.root(other)))
            if kept != absorbed:
                self._parents[absorbed] = kept
                if absorbed in self._pinned:
                    self._pinned.setdefault(kept, self._pinned.pop(absorbed))


def _gathered(graph: Graph, shared: _Shared, segments_of: list[Segments]) -> Axes:
    roots = [axis for axis in range(len(shared.channels)) if shared.root(axis) == axis]
    numbers = {root: number for number, root in enumerate(roots)}
    resolved = [numbers[shared.root(axis)] for axis in range(len(shared.channels))]
    segments = [tuple([resolved[axis] for axis in node_axes]) for node_axes in segments_of]
    producers: list[list[int]] = [[] for _ in roots]
    carriers: list[list[int]] = [[] for _ in roots]
    readers: list[list[int]] = [[] for _ in roots]
    for index, node in enumerate(graph.nodes):
        op = node.op
        for axis in dict.fromkeys(segments[index]):
            carriers[axis].append(index)
        if isinstance(op, ops.Dense) or (isinstance(op, ops.Convolution) and op.groups == 1):
            for axis in dict.fromkeys(segments[node.inputs[0]]):
                readers[axis].append(index)
            if isinstance(op, ops.Convolution):
                producers[segments[index][0]].append(index)
    return Axes(
        tuple(
            [
                Axis(shared.channels[root], tuple(made), tuple(carried), tuple(read), shared.pinned(root))
                for root, made, carried, read in zip(roots, producers, carriers, readers, strict=True)
            ]
        ),
        tuple(segments),
    )
