"""Tuned kernel size as morphs of the network.

All convolutions with a smaller odd kernel of at least 3 are enlarged to the tuned size, except the one that reads the image.
The limit of a convolution is the size up to which every weight reaches a pixel. No kernel shrinks. `own_size` is the kernel
size of a network with different kernels.
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
    """Return the convolutions whose kernels can be tuned, by node index: odd, from 3 on, not reading the image."""
    return MappingProxyType(
        {
            index: node.op
            for index, (node, reads_image) in enumerate(zip(graph.nodes, graph.reads_image, strict=True))
            if isinstance(node.op, Convolution) and node.op.kernel >= 3 and node.op.kernel % 2 and not reads_image
        }
    )


def sizes_of(graph: Graph) -> range:
    """Return the kernel sizes that a graph can be tuned to: odd, from 3 to LARGEST. Empty if no convolution is tunable."""
    return range(SMALLEST, LARGEST + 1, STEP) if tunable(graph) else range(0)


@once_per_graph
def own_size(graph: Graph) -> int | None:
    """Return the kernel size with the smallest sum of differences to a graph's kernels. None if nothing is tunable.

    Each convolution is compared with the size, limited by its maps. Examples of size 5: 12 kernels of 5×5 and two of 3×3; 5×5
    everywhere except 3×3 on maps of 2×2. A tie gives the smaller size.
    """
    kernels = [(kernel, most) for _, kernel, most in _room(graph)]
    return min(
        sizes_of(graph),
        key=lambda size: (sum([abs(kernel - min(size, most)) for kernel, most in kernels]), size),
        default=None,
    )


def enlarging(graph: Graph, size: int) -> tuple[Kernel, ...]:
    """Return the morphs that enlarge every smaller tunable kernel to `size`, or to the limit of its maps."""
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
