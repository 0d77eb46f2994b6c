"""A tuned kernel size as morphs: the network really changes.

Every convolution with an odd kernel from 3 on, but the one that reads the image, is enlarged to the tuned size where it is
smaller, or as far as every weight still reaches a pixel; none ever shrinks. A network whose kernels differ is of the size
that most of them have or would be enlarged to (`own_size`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from morphism import Convolution, Graph, Kernel, useful_kernels
from morphism.graph import once_per_graph

SMALLEST: Final = 3
LARGEST: Final = 7
STEP: Final = 2


@once_per_graph
def tunable(graph: Graph) -> Mapping[int, Convolution]:
    """The convolutions whose kernels are tuned, by the index of their nodes."""
    return MappingProxyType(
        {
            index: node.op
            for index, (node, reads_image) in enumerate(zip(graph.nodes, graph.reads_image, strict=True))
            if isinstance(node.op, Convolution) and node.op.kernel >= 3 and node.op.kernel % 2 and not reads_image
        }
    )


def sizes_of(graph: Graph) -> range:
    """The sizes that there are, odd from 3 to LARGEST; none where no convolution is tunable."""
    return range(SMALLEST, LARGEST + 1, STEP) if tunable(graph) else range(0)


@once_per_graph
def own_size(graph: Graph) -> int | None:
    """The size that a network has: the one to which the least would have to change; None where nothing is tunable.

    Each convolution is held against the size as far as its maps let it go. 5×5 in 12 of 14 convolutions and 3×3 in two is 5;
    so is 5×5 wherever maps are large enough, and 3×3 on maps of 2×2. Of two that are as near the smaller is taken.
    """
    kernels = [(kernel, most) for _, kernel, most in _room(graph)]
    return min(
        sizes_of(graph),
        key=lambda size: (sum([abs(kernel - min(size, most)) for kernel, most in kernels]), size),
        default=None,
    )


def enlarging(graph: Graph, size: int) -> tuple[Kernel, ...]:
    """The morphs that bring every smaller tunable kernel to that size, or as near as its maps let it, node by node."""
    return tuple([Kernel(name, min(size, most)) for name, kernel, most in _room(graph) if kernel < min(size, most)])


@once_per_graph
def _room(graph: Graph) -> tuple[tuple[str, int, int], ...]:
    """Of each tunable convolution its name, its kernel, and the largest that it may come to have."""
    return tuple([(graph.nodes[index].name, op.kernel, _largest(graph, index)) for index, op in tunable(graph).items()])


def _largest(graph: Graph, index: int) -> int:
    """The largest kernel that a convolution may come to have; its own where that is larger already."""
    op = graph.nodes[index].op
    assert isinstance(op, Convolution)
    useful = useful_kernels(graph, index)
    return useful[-1] if useful else op.kernel
