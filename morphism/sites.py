"""Sites of morphs (changes that grow a network): the nodes of a graph to which each kind of morph can be applied.

`grow` enforces these structural rules and `legal` uses them for its lists, with one more: every added weight reaches a pixel.
Journals from before that rule have graphs that break it (`unreached`).
Deepen: after a ReLU on maps, the embedding or the last sum of a transformer's block. Widen: an ungrouped convolution, if
nothing pins its channels, or a GatedMlp. Skip: from an activation to the input of a ReLU, over few blocks. Kernel: an odd
kernel from 3 on, not of a convolution that reads the image. Heads: an Attention.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from morphism import ops
from morphism.axes import axes
from morphism.graph import LARGEST_GRAPH, Graph, once_per_graph, once_per_node
from morphism.shapes import Map, Shape
from morphism.transformer import NODES_OF_BLOCK, ends_of_blocks, residuals, sizes_at

LONGEST_SKIP = 6
"""Largest span of a skip in blocks. A block ends with a ReLU. 6 is two bottleneck blocks of ResNet-50."""

LARGEST_GROWN_KERNEL = 7


@once_per_graph
def deepen_sites(graph: Graph) -> tuple[int, ...]:
    """Return the indices of the nodes after which a Deepen may add layers, ascending.

    They are ReLUs on feature maps, or the embedding and the ends of a transformer's blocks. Empty if the added nodes exceed
    LARGEST_GRAPH (10,000), the largest number of nodes.
    """
    if is_of_tokens(graph):
        if sizes_at(graph, 0) is None or len(graph.nodes) + NODES_OF_BLOCK > LARGEST_GRAPH:
            return ()
        embeddings = [index for index, node in enumerate(graph.nodes) if isinstance(node.op, ops.Embedding)]
        return tuple(sorted((*embeddings, *ends_of_blocks(graph))))
    if not _has_room(graph):
        return ()
    return tuple(
        [
            index
            for index, node in enumerate(graph.nodes)
            if isinstance(node.op, ops.Relu) and isinstance(graph.shapes[index], Map)
        ]
    )


def is_of_tokens(graph: Graph) -> bool:
    """Return True for a language model, whose input is a sequence of tokens."""
    return isinstance(graph.nodes[0].op, ops.TokenInput)


def sites_of_size(graph: Graph, kind: type[ops.Residual]) -> tuple[int, ...]:
    """Return the indices of the Attentions that can get more heads, or of the GatedMlps that can get more units, ascending."""
    return tuple([index for index in residuals(graph) if isinstance(graph.nodes[index].op, kind)])


def is_useful_depth(shape: Map) -> bool:
    """Return True if height and width of the maps are above 1.

    Every weight of a 3×3 convolution that keeps their size then reaches a pixel.
    """
    return min(shape.height, shape.width) > 1


def _has_room(graph: Graph) -> bool:
    return len(graph.nodes) + 3 <= LARGEST_GRAPH


@once_per_graph
def widen_sites(graph: Graph) -> tuple[int, ...]:
    """Return the indices of the convolutions that can get more channels, ascending.

    They have no groups, and no node of their channel axis (nodes with equal numbers of channels) prevents growth.
    """
    channel_axes = axes(graph)
    return tuple(sorted([producer for axis in channel_axes.axes if axis.pinned is None for producer in axis.producers]))


class Reach(NamedTuple):
    """Sizes of the kernel of a convolution, as edges in pixels."""

    kernel: int
    largest: int
    """Largest size up to LARGEST_GROWN_KERNEL (7) at which each weight reaches a pixel. `kernel` if no larger one does."""
    is_whole: bool
    """True if each weight reaches a pixel at some position."""


@once_per_node
def reaches(graph: Graph, index: int) -> Reach | None:
    """Return the reach of each node, in order. None if it is no convolution."""
    op = graph.nodes[index].op
    if not isinstance(op, ops.Convolution):
        return None
    larger = (size for size in reversed(larger_kernels(op.kernel)) if _reaches(graph, index, size))
    return Reach(op.kernel, next(larger, op.kernel), _reaches(graph, index, op.kernel))


@once_per_graph
def kernel_sites(graph: Graph) -> tuple[int, ...]:
    """Return the indices of the convolutions with a kernel that may grow, ascending.

    These are convolutions after another layer with parameters, with an odd kernel from 3 to below LARGEST_GROWN_KERNEL (7).
    """
    return tuple(
        [
            index
            for index, reach in enumerate(reaches(graph))
            if reach and 3 <= reach.kernel < LARGEST_GROWN_KERNEL and reach.kernel % 2 and not graph.reads_image[index]
        ]
    )


def larger_kernels(kernel: int) -> range:
    """Return the larger sizes to which an odd `kernel` (edge in pixels) may grow: odd, up to LARGEST_GROWN_KERNEL (7)."""
    return range(kernel + 2, LARGEST_GROWN_KERNEL + 1, 2)


def useful_kernels(graph: Graph, index: int) -> range:
    """Return the larger kernels (edges in pixels) of a convolution that have no weight without effect.

    Each weight must reach a pixel of the input maps. `index`: index of the convolution in the graph. At stride 1 these are
    kernels up to 2·map − 1, with map the shorter edge: 3 on maps of 2×2, 7 on maps of 4×4. The range is empty if none is
    larger.
    """
    reach = reaches(graph)[index]
    assert reach is not None, "the node is a convolution"
    return range(reach.kernel + 2, reach.largest + 1, 2)


@once_per_graph
def unreached(graph: Graph) -> dict[str, int]:
    """Return the convolutions with weights that reach no pixel at any position, by name of the node.

    The values are the edges of their kernels in pixels.
    """
    every = zip(graph.nodes, reaches(graph), strict=True)
    return {node.name: reach.kernel for node, reach in every if reach and not reach.is_whole}


def _reaches(graph: Graph, index: int, kernel: int) -> bool:
    """Return True if every row and column of a kernel, whose padding grows with it, meets a pixel at some position."""
    op, entering, leaving = graph.nodes[index].op, graph.shapes[graph.nodes[index].inputs[0]], graph.shapes[index]
    assert isinstance(op, ops.Convolution) and isinstance(entering, Map) and isinstance(leaving, Map)
    padding = op.padding + (kernel - op.kernel) // 2
    edges = ((entering.height, leaving.height), (entering.width, leaving.width))
    return all(_reaches_along(kernel, padding, op.stride, before, after) for before, after in edges)


@lru_cache(maxsize=4096)
def _reaches_along(kernel: int, padding: int, stride: int, before: int, after: int) -> bool:
    for row in range(kernel):
        # the first position at which the row is outside the padding: there or never it is on a pixel
        place = max(0, -(-(padding - row) // stride))
        if place >= after or place * stride - padding + row >= before:
            return False
    return True


def most_channels(graph: Graph, axis: int) -> int:
    """Return the largest number of channels to which a channel axis may grow.

    `axis`: index of the axis (a group of nodes with equal numbers of channels) in `axes(graph).axes`. The output of no node
    may exceed LARGEST_CHANNELS (65,536) channels.
    """
    channel_axes = axes(graph)
    most = ops.LARGEST_CHANNELS
    for carrier in channel_axes.axes[axis].carriers:
        segments = channel_axes.segments[carrier]
        if len(segments) > 1:
            others = sum([channel_axes.axes[segment].channels for segment in segments if segment != axis])
            most = min(most, (ops.LARGEST_CHANNELS - others) // segments.count(axis))
    return most


def why_not_widened(graph: Graph, index: int) -> str | None:
    """Return the reason why the node with this index cannot get more channels, as part of a sentence. None if it can."""
    op = graph.nodes[index].op
    if not isinstance(op, ops.Convolution):
        return f"it is no convolution but {type(op).__name__}"
    if op.groups != 1:
        return f"it has {op.groups} groups. A depthwise convolution is widened with the convolution before it"
    return axes(graph).axes[axes(graph).segments[index][0]].pinned


@once_per_graph
def depths(graph: Graph) -> tuple[int, ...]:
    """Return the depth of each node, in order: the largest number of ReLUs on a path from the image to it, itself included."""
    depths: list[int] = []
    for node in graph.nodes:
        depth = 0
        for entering in node.inputs:
            if depths[entering] > depth:
                depth = depths[entering]
        depths.append(depth + isinstance(node.op, ops.Relu))
    return tuple(depths)


@once_per_graph
def skip_sources(graph: Graph) -> tuple[int, ...]:
    """Return the indices of the nodes at which a Skip (an added branch) may begin, ascending.

    They are the ReLUs and poolings with feature maps as output.
    """
    return tuple(
        index
        for index, node in enumerate(graph.nodes)
        if isinstance(node.op, ops.Relu | ops.MaxPooling | ops.AveragePooling) and isinstance(graph.shapes[index], Map)
    )


@once_per_graph
def skip_targets(graph: Graph) -> tuple[int, ...]:
    """Return the indices of the nodes at which a Skip (an added branch) may end, ascending.

    They are the batch normalisations, sums and convolutions that a ReLU reads. Empty if three more nodes exceed LARGEST_GRAPH
    (10,000).
    """
    read = dict.fromkeys(node.inputs[0] for node in graph.nodes if isinstance(node.op, ops.Relu))
    return tuple(
        sorted(
            index
            for index in read
            if isinstance(graph.nodes[index].op, ops.BatchNormalisation | ops.Add | ops.Convolution)
            and _has_room(graph)
        )
    )


@once_per_graph
def branches(graph: Graph) -> dict[int, frozenset[int]]:
    """Return, by index of each Add (sum of two inputs), the indices of the nodes at which its branches begin.

    A branch is a 1×1 convolution and a batch normalisation. Branches of an Add that is an input of this Add are included.
    """
    branches: dict[int, frozenset[int]] = {}
    for index, node in enumerate(graph.nodes):
        if not isinstance(node.op, ops.Add):
            continue
        members: set[int] = set()
        for entering in node.inputs:
            members |= branches.get(entering, frozenset())
            if not isinstance(graph.nodes[entering].op, ops.BatchNormalisation):
                continue
            reader = graph.nodes[graph.nodes[entering].inputs[0]]
            if isinstance(reader.op, ops.Convolution) and reader.op.kernel == 1 and reader.op.groups == 1:
                members.add(reader.inputs[0])
        branches[index] = frozenset(members)
    return branches


def skip_stride(source: Map, target: Map) -> int | None:
    """Return the stride of a 1×1 convolution that reduces maps of the size of `source` to the size of `target`.

    None if no stride up to LARGEST_KERNEL (255) fits.
    """
    if target.height > source.height or target.width > source.width:
        return None
    stride = max((source.height - 1) // target.height, (source.width - 1) // target.width) + 1
    fits = (source.height - 1) // stride + 1 == target.height and (source.width - 1) // stride + 1 == target.width
    return stride if fits and stride <= ops.LARGEST_KERNEL else None


@once_per_graph
def shape_numbers(graph: Graph) -> tuple[int, ...]:
    """Return for each node, in order, a number for its output shape, from 0. Equal shapes have equal numbers."""
    numbers: dict[Shape, int] = {}
    return tuple([numbers.setdefault(shape, len(numbers)) for shape in graph.shapes])


def skip_sites(graph: Graph) -> Iterator[tuple[int, int]]:
    """Yield (index of the source, index of the target) of every legal Skip (an added branch), in the order of the targets."""
    depth, shapes, alike = depths(graph), graph.shapes, shape_numbers(graph)
    at_depth: dict[int, list[int]] = {}
    for source in skip_sources(graph):
        at_depth.setdefault(depth[source], []).append(source)
    existing = branches(graph)
    fits: dict[tuple[int, int], bool] = {}
    for target in skip_targets(graph):
        joined = existing.get(target, frozenset())
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
