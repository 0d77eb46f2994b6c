"""Bytes per image that an eager training step moves between an accelerator and its memory, and the resulting rate limit.

    python -m benchmarks.memory_traffic [--network resnet50_v1_5] [--bytes 2] [--bandwidth 4.8e12]

Computed from the graph: each tensor that a kernel reads or writes counts its elements × bytes once. Weights are not counted,
since a batch shares them. The kernels are PyTorch's eager ones: statistics, normalization, ReLU and addition each have their
own, forward and backward.

The rate is an upper limit, not a forecast: it ignores arithmetic, launches and caches.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from aiperf.system.peaks import table
from morphism import Graph, cost, start
from morphism.traffic import gradient_sums, layer_traffic

NAMES = {
    "batch_normalisation": "batch normalisation",
    "relu": "ReLU",
    "add": "addition",
    "gradient_sums": "sums of gradients",
    **dict.fromkeys(("max_pooling", "average_pooling", "concat", "dropout"), "pooling"),
}


@dataclass(frozen=True, slots=True)
class Moved:
    """Elements per image that one kernel moves."""

    kind: str
    forward: int = 0
    backward: int = 0


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
    for each in (*layer_traffic(graph)[1:-1], *gradient_sums(graph)):
        yield Moved(NAMES.get(each.kind, each.kind), each.forward, each.backward)


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
