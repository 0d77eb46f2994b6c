"""Tuned kernel size of a network, as morphs that enlarge its convolutions. No kernel shrinks.

All convolutions with a smaller odd kernel of at least 3 are enlarged, except the one that reads the image, up to the size at
which every weight reaches a pixel.
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
    """Indices of convolutions with an odd kernel of at least 3, behind a layer with parameters."""
    return MappingProxyType(
        {
            index: node.op
            for index, (node, reads_image) in enumerate(zip(graph.nodes, graph.reads_image, strict=True))
            if isinstance(node.op, Convolution) and node.op.kernel >= 3 and node.op.kernel % 2 and not reads_image
        }
    )


def sizes_of(graph: Graph) -> range:
    """Edges in pixels that tuning can choose: 3, 5, 7. Empty if none can be tuned."""
    return range(SMALLEST, LARGEST + 1, STEP) if tunable(graph) else range(0)


@once_per_graph
def own_size(graph: Graph) -> int | None:
    """The one kernel size (edge in pixels) that describes a graph best. None if no convolution is tunable.

    It has the smallest sum of differences to the kernels of the tunable convolutions, each limited by its maps. A tie gives
    the smaller size.
    """
    kernels = [(kernel, most) for _, kernel, most in _room(graph)]
    return min(
        sizes_of(graph),
        key=lambda size: (sum([abs(kernel - min(size, most)) for kernel, most in kernels]), size),
        default=None,
    )


def enlarging(graph: Graph, size: int) -> tuple[Kernel, ...]:
    """Enlarge every smaller tunable kernel to `size` (edge in pixels), or to the limit of its maps."""
    return tuple([Kernel(name, min(size, most)) for name, kernel, most in _room(graph) if kernel < min(size, most)])


@once_per_graph
def _room(graph: Graph) -> tuple[tuple[str, int, int], ...]:
    """Return name, kernel and largest kernel of each tunable convolution."""
    return tuple([(graph.nodes[index].name, op.kernel, _largest(graph, index)) for index, op in tunable(graph).items()])


def _largest(graph: Graph, index: int) -> int:
    """Return the largest useful kernel size of a convolution, or its current kernel size if there is none."""
    op = graph.nodes[index].op
    assert isinstance(op, Convolution)
    useful = useful_kernels(graph, index)
    return useful[-1] if useful else op.kernel
