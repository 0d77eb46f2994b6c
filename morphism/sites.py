"""Where a morph may be applied, whatever it costs: the laws of structure that `grow` enforces and `legal` lists by.

One law only `legal` lists by: every weight that a morph adds reaches a pixel. A graph that breaks it is a graph all the
same, and journals from before the law hold some, so that `grow` makes them again; `unreached` names their convolutions.

Deepen: after a ReLU on maps. Widen: an ungrouped convolution whose channels nothing pins. Skip: from an activation
(ReLU or pooling) to a pre-activation (what a ReLU reads), over a bounded number of blocks. Kernel: an odd kernel from
3 on, not of a convolution that reads the image.
"""

from collections.abc import Iterator

from morphism.axes import axes
from morphism.graph import LARGEST_GRAPH, Graph, once_per_graph
from morphism.ops import (
    LARGEST_CHANNELS,
    LARGEST_KERNEL,
    Add,
    AveragePooling,
    BatchNormalisation,
    Convolution,
    MaxPooling,
    Relu,
)
from morphism.shapes import Map, Shape

LONGEST_SKIP = 6
"""The most blocks that a skip may span, where a block ends with a ReLU: two bottleneck blocks of ResNet-50."""

LARGEST_GROWN_KERNEL = 7


@once_per_graph
def deepen_sites(graph: Graph) -> tuple[int, ...]:
    """The ReLUs on maps."""
    return tuple(
        [
            index
            for index, node in enumerate(graph.nodes)
            if isinstance(node.op, Relu) and isinstance(graph.shapes[index], Map) and _has_room(graph)
        ]
    )


def is_useful_depth(shape: Map) -> bool:
    """Whether every weight of a 3×3 convolution that keeps a map's size reaches a pixel: not where an edge is 1."""
    return min(shape.height, shape.width) > 1


def _has_room(graph: Graph) -> bool:
    return len(graph.nodes) + 3 <= LARGEST_GRAPH


@once_per_graph
def widen_sites(graph: Graph) -> tuple[int, ...]:
    """The ungrouped convolutions whose channels nothing pins, those that share an axis included."""
    found = axes(graph)
    return tuple(sorted([producer for axis in found.axes if axis.pinned is None for producer in axis.producers]))


@once_per_graph
def kernel_sites(graph: Graph) -> tuple[int, ...]:
    """The convolutions whose kernel may grow."""
    return tuple(
        [
            index
            for index, node in enumerate(graph.nodes)
            if isinstance(node.op, Convolution)
            and 3 <= node.op.kernel < LARGEST_GROWN_KERNEL
            and node.op.kernel % 2
            and not graph.reads_image[index]
        ]
    )


def larger_kernels(kernel: int) -> range:
    """The sizes that an odd kernel may grow to: odd, up to LARGEST_GROWN_KERNEL."""
    return range(kernel + 2, LARGEST_GROWN_KERNEL + 1, 2)


def useful_kernels(graph: Graph, index: int) -> range:
    """Of the larger kernels of a convolution those of which every weight reaches a pixel of the maps that enter it.

    At stride 1 these are kernels up to 2·map − 1, where map is the shorter edge: 3 on maps of 2×2, 7 on maps of 4×4.
    """
    op = graph.nodes[index].op
    assert isinstance(op, Convolution)
    sizes = larger_kernels(op.kernel)
    for kernel in reversed(sizes):
        if _reaches(graph, index, kernel, op.padding + (kernel - op.kernel) // 2):
            return range(sizes.start, kernel + 1, 2)
    return range(sizes.start, sizes.start, 2)


@once_per_graph
def unreached(graph: Graph) -> dict[str, int]:
    """The convolutions with weights that reach no pixel at any place of the maps, by name, with their kernels."""
    return {
        node.name: node.op.kernel
        for index, node in enumerate(graph.nodes)
        if isinstance(node.op, Convolution) and not _reaches(graph, index, node.op.kernel, node.op.padding)
    }


def _reaches(graph: Graph, index: int, kernel: int, padding: int) -> bool:
    """Whether every row and column of a kernel meets a pixel at some place of the maps."""
    op, entering, leaving = graph.nodes[index].op, graph.shapes[graph.nodes[index].inputs[0]], graph.shapes[index]
    assert isinstance(op, Convolution) and isinstance(entering, Map) and isinstance(leaving, Map)
    for before, after in ((entering.height, leaving.height), (entering.width, leaving.width)):
        for row in range(kernel):
            # the first place at which the row has left the padding: it lies on a pixel there, or nowhere
            place = max(0, -(-(padding - row) // op.stride))
            if place >= after or place * op.stride - padding + row >= before:
                return False
    return True


def most_channels(graph: Graph, axis: int) -> int:
    """How many channels an axis may grow to before a layer that carries it, perhaps several times, has too many."""
    found = axes(graph)
    most = LARGEST_CHANNELS
    for carrier in found.axes[axis].carriers:
        segments = found.segments[carrier]
        if len(segments) > 1:
            others = sum([found.axes[segment].channels for segment in segments if segment != axis])
            most = min(most, (LARGEST_CHANNELS - others) // segments.count(axis))
    return most


def why_not_widened(graph: Graph, index: int) -> str | None:
    """Why the channels of a node cannot grow by a widen of it; None when they can."""
    op = graph.nodes[index].op
    if not isinstance(op, Convolution):
        return f"it is no convolution but {type(op).__name__}"
    if op.groups != 1:
        return f"it has {op.groups} groups; a depthwise one grows with the convolution that feeds it"
    return axes(graph).axes[axes(graph).segments[index][0]].pinned


@once_per_graph
def depths(graph: Graph) -> tuple[int, ...]:
    """For each node the most ReLUs on a way from the image to it, its own included: the number of its block."""
    depths: list[int] = []
    for node in graph.nodes:
        depth = 0
        for entering in node.inputs:
            if depths[entering] > depth:
                depth = depths[entering]
        depths.append(depth + isinstance(node.op, Relu))
    return tuple(depths)


@once_per_graph
def skip_sources(graph: Graph) -> tuple[int, ...]:
    """The activations: ReLUs and poolings that give maps."""
    return tuple(
        [
            index
            for index, node in enumerate(graph.nodes)
            if isinstance(node.op, Relu | MaxPooling | AveragePooling) and isinstance(graph.shapes[index], Map)
        ]
    )


@once_per_graph
def skip_targets(graph: Graph) -> tuple[int, ...]:
    """The pre-activations: batch normalisations, sums and convolutions that a ReLU reads."""
    read = dict.fromkeys(node.inputs[0] for node in graph.nodes if isinstance(node.op, Relu))
    return tuple(
        sorted(
            [
                index
                for index in read
                if isinstance(graph.nodes[index].op, BatchNormalisation | Add | Convolution) and _has_room(graph)
            ]
        )
    )


@once_per_graph
def branches(graph: Graph) -> dict[int, frozenset[int]]:
    """For each Add the nodes from which a 1×1 convolution and batch normalisation lead into it or what it adds."""
    branches: dict[int, frozenset[int]] = {}
    for index, node in enumerate(graph.nodes):
        if not isinstance(node.op, Add):
            continue
        found: set[int] = set()
        for entering in node.inputs:
            found |= branches.get(entering, frozenset())
            if not isinstance(graph.nodes[entering].op, BatchNormalisation):
                continue
            reader = graph.nodes[graph.nodes[entering].inputs[0]]
            if isinstance(reader.op, Convolution) and reader.op.kernel == 1 and reader.op.groups == 1:
                found.add(reader.inputs[0])
        branches[index] = frozenset(found)
    return branches


def skip_stride(source: Map, target: Map) -> int | None:
    """The stride with which an unpadded 1×1 convolution brings one map to the other's size; None when none does."""
    if target.height > source.height or target.width > source.width:
        return None
    stride = max((source.height - 1) // target.height, (source.width - 1) // target.width) + 1
    fits = (source.height - 1) // stride + 1 == target.height and (source.width - 1) // stride + 1 == target.width
    return stride if fits and stride <= LARGEST_KERNEL else None


@once_per_graph
def shape_numbers(graph: Graph) -> tuple[int, ...]:
    """For each node a number that it shares with all whose outputs have its shape: pairs of them are cheap to look up."""
    numbers: dict[Shape, int] = {}
    return tuple([numbers.setdefault(shape, len(numbers)) for shape in graph.shapes])


def skip_sites(graph: Graph) -> Iterator[tuple[int, int]]:
    """Every (source, target) between which a skip may be added, in the order of the targets."""
    depth, shapes, alike = depths(graph), graph.shapes, shape_numbers(graph)
    at_depth: dict[int, list[int]] = {}
    for source in skip_sources(graph):
        at_depth.setdefault(depth[source], []).append(source)
    there_already = branches(graph)
    fits: dict[tuple[int, int], bool] = {}
    for target in skip_targets(graph):
        joined = there_already.get(target, frozenset())
        for blocks in range(LONGEST_SKIP):
            for source in at_depth.get(depth[target] - blocks, ()):
                if source >= target or source in joined:
                    continue
                pair = (alike[source], alike[target])
                if pair not in fits:
                    entering, leaving = shapes[source], shapes[target]
                    assert isinstance(entering, Map) and isinstance(leaving, Map)
                    fits[pair] = skip_stride(entering, leaving) is not None
                if fits[pair]:
                    yield source, target
