"""Bytes per image that an eager training step moves between an accelerator and its memory, and the resulting rate limit.

    python -m benchmarks.memory_traffic [--network resnet50_v1_5] [--bytes 2] [--bandwidth 4.8e12]

Computed from the graph: each tensor that a kernel reads or writes counts its elements × bytes once. Weights are not counted,
since a batch shares them. The kernels are PyTorch's eager ones: statistics, normalization, ReLU and addition each have their
own, forward and backward.

The rate is an upper limit, not a forecast: it ignores arithmetic, launches and caches.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from aiperf.system.peaks import table
from morphism import (
    Add,
    AveragePooling,
    BatchNormalisation,
    Concat,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Graph,
    Input,
    Map,
    MaxPooling,
    Relu,
    cost,
    start,
)


@dataclass(frozen=True, slots=True)
class Moved:
    """Elements per image that one kernel moves."""

    kind: str
    forward: int = 0
    backward: int = 0


def elements(graph: Graph, index: int) -> int:
    shape = graph.shapes[index]
    return shape.channels * shape.height * shape.width if isinstance(shape, Map) else shape.features


def traffic(graph: Graph) -> dict[str, Moved]:
    """Return the elements per image by kind of layer."""
    moved = list(_layers(graph))
    return {
        kind: Moved(
            kind,
            sum(each.forward for each in moved if each.kind == kind),
            sum(each.backward for each in moved if each.kind == kind),
        )
        for kind in dict.fromkeys(each.kind for each in moved)
    }


def bytes_per_image(graph: Graph, element_bytes: int) -> int:
    return element_bytes * sum(each.forward + each.backward for each in traffic(graph).values())


def _layers(graph: Graph) -> Iterator[Moved]:
    for index, node in enumerate(graph.nodes[1:-1], start=1):
        out, entering = elements(graph, index), sum(elements(graph, each) for each in node.inputs)
        match node.op:
            case BatchNormalisation():
                # forward: statistics, normalisation. backward: sums, gradient
                yield Moved("batch normalisation", out + 2 * out, 2 * out + 3 * out)
            case Relu():
                yield Moved("ReLU", 2 * out, 3 * out)
            case Add():
                yield Moved("addition", 3 * out, 0)
            case Convolution():
                # input of both gradients, without the unused gradient of the image
                to_input = 0 if node.inputs[0] == 0 else out + entering
                yield Moved("convolution", entering + out, to_input + entering + out)
            case Dense():
                yield Moved("dense", entering + out, 2 * (entering + out))
            case MaxPooling():
                # an 8-byte index per output, next to elements of 2 bytes
                yield Moved("pooling", entering + out + 4 * out, out + 4 * out + entering)
            case AveragePooling() | GlobalAveragePooling() | Concat() | Dropout():
                yield Moved("pooling", entering + out, entering + out)
            case Input():
                raise AssertionError("an input can only be the first node")
            case _:
                raise AssertionError(f"unknown traffic of {node.op!r}")
    # a value with several readers has several gradients, which are summed one by one
    readers = Counter(each for node in graph.nodes for each in dict.fromkeys(node.inputs))
    for index, count in readers.items():
        if count > 1 and index > 0:
            yield Moved("sums of gradients", 0, 3 * (count - 1) * elements(graph, index))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50_v1_5")
    parser.add_argument("--bytes", type=int, default=2, help="of an element (2: BF16, FP16)")
    parser.add_argument("--bandwidth", type=float, default=4.8e12, help="bytes a second (4.8e12: H200)")
    parser.add_argument("--flops", type=float, default=989.5e12, help="dense peak, for the other ceiling (H200, BF16)")
    arguments = parser.parse_args()
    graph = start(arguments.network)
    whole = bytes_per_image(graph, arguments.bytes)
    print(f"{arguments.network}, {arguments.bytes} bytes an element\n\n| | MB an image |\n| --- | ---: |")
    for kind, each in traffic(graph).items():
        print(f"| {kind} | {(each.forward + each.backward) * arguments.bytes / 1e6:.0f} |")
    print(f"| all | {whole / 1e6:.0f} |")
    counted = cost(graph)
    flops = counted.tensor_forward_flops + counted.tensor_backward_flops
    print(
        f"\nimages/s at {arguments.bandwidth / 1e12:g} TB/s: {arguments.bandwidth / whole:,.0f}; at 85 %: "
        f"{0.85 * arguments.bandwidth / whole:,.0f}; by arithmetic alone ({flops / 1e9:.1f} GFLOP an image): "
        f"{arguments.flops / flops:,.0f}"
    )
    print("\n| accelerator | images/s by bandwidth alone |\n| --- | ---: |")
    for row in table():
        print(f"| {row.example} | {row.memory_bytes_per_second / whole:,.0f} |")


if __name__ == "__main__":
    main()
