"""A tuned kernel size as morphs: the network really changes.

Every convolution with an odd kernel from 3 on, but the one that reads the image, is enlarged to the tuned size where it is
smaller; none ever shrinks.
"""

from __future__ import annotations

from typing import Final

from morphism import Convolution, Graph, Kernel

LARGEST: Final = 7
STEP: Final = 2


def tunable(graph: Graph) -> dict[int, Convolution]:
    """The convolutions whose kernels are tuned, by the index of their nodes."""
    return {
        index: node.op
        for index, (node, reads_image) in enumerate(zip(graph.nodes, graph.reads_image, strict=True))
        if isinstance(node.op, Convolution) and node.op.kernel >= 3 and node.op.kernel % 2 and not reads_image
    }


def smallest(graph: Graph) -> int | None:
    """The parent's size, where tuning begins: the smallest tunable kernel up to LARGEST; None where there is none."""
    sizes = [op.kernel for op in tunable(graph).values() if op.kernel <= LARGEST]
    return min(sizes) if sizes else None


def enlarging(graph: Graph, size: int) -> tuple[Kernel, ...]:
    """The morphs that bring every smaller tunable kernel to that size, in the order of the nodes."""
    return tuple([Kernel(graph.nodes[index].name, size) for index, op in tunable(graph).items() if op.kernel < size])
