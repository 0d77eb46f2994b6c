"""Bytes that a training step moves between an accelerator and its memory, an image, and the images a second that they allow.

    python -m benchmarks.memory_traffic [--network resnet50_v1_5] [--bytes 2] [--bandwidth 4.8e12]

Counted from the graph: each tensor that a kernel reads or writes is its elements × their bytes once; weights are not counted
(a batch shares them). Each way to run a network is a list of which kernels there are:

eager      PyTorch's own: statistics, normalisation, ReLU and addition are kernels of their own, forward and backward
norm       trainer.fused=norm: normalise + add + ReLU in one; x says what a ReLU let through; statistics by a pass of their own
conv       trainer.fused=conv: norm, and 1×1 convolutions of stride 1 give their statistics
all conv   as conv for every convolution, which needs a kernel for each (cuDNN's graph API has them; docs/speed.md)
prologue   all conv, and a normalisation + ReLU that one convolution alone reads is made as that convolution reads it, forward
           and for the weights' gradient; the gradient that enters it is masked, and its sums are made, where the
           convolution's backward pass writes it
limit      prologue, and more that no library has in one piece: a convolution's two gradients by one kernel, which makes the
           gradient of the normalisation behind it as it reads; gradients of a value that several read are added where the
           last is made

A ceiling, not a forecast: it leaves out arithmetic, launches, and what caches save.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from aiperf.system.peaks import table
from aiperf.train.fused.line import Joined, joined
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

WAYS = ("eager", "norm", "conv", "all conv", "prologue", "limit")
MAKES_IN_PLACE = ("prologue", "limit")


@dataclass(frozen=True, slots=True)
class Moved:
    """Elements that one kernel of one image moves."""

    kind: str
    forward: int = 0
    backward: int = 0


def elements(graph: Graph, index: int) -> int:
    shape = graph.shapes[index]
    return shape.channels * shape.height * shape.width if isinstance(shape, Map) else shape.features


def traffic(graph: Graph, way: str) -> dict[str, Moved]:
    """Elements an image, by kind of layer."""
    assert way in WAYS, way
    moved = list(_layers(graph, way))
    return {
        kind: Moved(
            kind,
            sum(each.forward for each in moved if each.kind == kind),
            sum(each.backward for each in moved if each.kind == kind),
        )
        for kind in dict.fromkeys(each.kind for each in moved)
    }


def bytes_per_image(graph: Graph, way: str, element_bytes: int) -> int:
    return element_bytes * sum(each.forward + each.backward for each in traffic(graph, way).values())


def _layers(graph: Graph, way: str) -> Iterator[Moved]:
    parts = {} if way == "eager" else {part.norm: part for part in joined(graph, "conv")}
    inside = {node for part in parts.values() for node in _inside(graph, part)}
    # made where a convolution reads them: they never lie in memory
    unmade = {part.last for part in parts.values() if way in MAKES_IN_PLACE and _is_prologue(graph, part)}
    for index, node in enumerate(graph.nodes[1:-1], start=1):
        out, entering = elements(graph, index), sum(elements(graph, each) for each in node.inputs)
        match node.op:
            case BatchNormalisation() if index in parts:
                yield _fused(graph, parts[index], way, is_made=parts[index].last not in unmade)
            case Relu() | Add() if index in inside:
                continue
            case BatchNormalisation():
                # statistics; normalise. Sums; gradient
                yield Moved("batch normalisation", out + 2 * out, 2 * out + 3 * out)
            case Relu():
                yield Moved("ReLU", 2 * out, 3 * out)
            case Add():
                yield Moved("addition", 3 * out, 0)
            case Convolution():
                # what its input's gradient and its weights' gradient read; nobody needs the image's gradient
                to_input = 0 if node.inputs[0] == 0 else out + entering
                if (
                    way == "limit"
                ):  # the gradient behind the normalisation, its input, the image side's value and gradient
                    to_input -= out
                    to_input += out if index in {graph.nodes[each].inputs[0] for each in parts} else 0
                yield Moved("convolution", entering + out, to_input + entering + out)
            case Dense():
                yield Moved("dense", entering + out, 2 * (entering + out))
            case MaxPooling():
                # an index of 8 bytes for each output, where an element has 2
                yield Moved("pooling", entering + out + 4 * out, out + 4 * out + entering)
            case AveragePooling() | GlobalAveragePooling() | Concat() | Dropout():
                yield Moved("pooling", entering + out, entering + out)
            case Input():
                raise AssertionError("an input is only ever first")
            case _:
                raise AssertionError(f"what {node.op!r} moves is not known")
    # a value that several read has several gradients, which are added one to the other
    readers = Counter(each for node in graph.nodes for each in dict.fromkeys(node.inputs))
    for index, count in readers.items():
        if count > 1 and index > 0:
            passes = 1 if way == "limit" else 3
            yield Moved("sums of gradients", 0, passes * (count - 1) * elements(graph, index))


def _fused(graph: Graph, part: Joined, way: str, *, is_made: bool) -> Moved:
    """Normalise + add + ReLU as one, whatever of them there is."""
    out, adds = elements(graph, part.norm), part.residual is not None
    has_statistics = part.pointwise if way == "conv" else way in ("all conv", *MAKES_IN_PLACE)
    read = 0 if has_statistics and _is_convolution(graph, part) else out
    if way == "limit":
        made = 0 if not is_made else read + out + (out if adds else 0) + out
        # sums where the gradient is written: of a value that lies in memory x and y are read for it, else x is read already
        return Moved("batch normalisation", made, 2 * out if is_made else 0)
    if not is_made:
        # forward nothing; backward: the sums are made where the gradient is written, which reads x; then dz and x make dx
        return Moved("batch normalisation", read, out + 3 * out)
    forward = read + out + (out if adds else 0) + out
    # sums read dy and x; with an addition also y, and write the residual's gradient; then dz and x make dx
    backward = 2 * out + (2 * out if adds and part.relu else 0) + 3 * out
    return Moved("batch normalisation", forward, backward)


def _is_convolution(graph: Graph, part: Joined) -> bool:
    return isinstance(graph.nodes[graph.nodes[part.norm].inputs[0]].op, Convolution)


def _is_prologue(graph: Graph, part: Joined) -> bool:
    """Whether one convolution alone reads it, and nothing is added."""
    readers = graph.readers[part.last]
    return part.residual is None and len(readers) == 1 and isinstance(graph.nodes[readers[0]].op, Convolution)


def _inside(graph: Graph, part: Joined) -> set[int]:
    members = {part.last}
    if part.relu and part.residual is not None:
        members.add(graph.nodes[part.last].inputs[0])
    return members - {part.norm}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50_v1_5")
    parser.add_argument("--bytes", type=int, default=2, help="of an element (2: BF16, FP16)")
    parser.add_argument("--bandwidth", type=float, default=4.8e12, help="bytes a second (4.8e12: H200)")
    parser.add_argument("--flops", type=float, default=989.5e12, help="dense peak, for the other ceiling (H200, BF16)")
    chosen = parser.parse_args()
    graph = start(chosen.network)
    print(f"{chosen.network}, {chosen.bytes} bytes an element, MB an image:\n")
    kinds = list(dict.fromkeys(kind for way in WAYS for kind in traffic(graph, way)))
    print(f"| | {' | '.join(WAYS)} |\n| --- |{' ---: |' * len(WAYS)}")
    for kind in kinds:
        cells = []
        for way in WAYS:
            each = traffic(graph, way).get(kind, Moved(kind))
            cells.append(f"{(each.forward + each.backward) * chosen.bytes / 1e6:.0f}")
        print(f"| {kind} | {' | '.join(cells)} |")
    whole = {way: bytes_per_image(graph, way, chosen.bytes) for way in WAYS}
    print(f"| all | {' | '.join(f'{each / 1e6:.0f}' for each in whole.values())} |")
    print(
        f"| images/s at {chosen.bandwidth / 1e12:g} TB/s | "
        + " | ".join(f"{chosen.bandwidth / each:,.0f}" for each in whole.values())
        + " |"
    )
    counted = cost(graph)
    flops = counted.tensor_forward_flops + counted.tensor_backward_flops
    print(f"| at 85 % of it | {' | '.join(f'{0.85 * chosen.bandwidth / each:,.0f}' for each in whole.values())} |")
    print(f"\nby arithmetic alone ({flops / 1e9:.1f} GFLOP an image): {chosen.flops / flops:,.0f} images/s")
    print(f"\n| images/s by bandwidth alone | {' | '.join(WAYS)} |\n| --- |{' ---: |' * len(WAYS)}")
    for row in table():
        limits = (f"{row.memory_bytes_per_second / each:,.0f}" for each in whole.values())
        print(f"| {row.example} | {' | '.join(limits)} |")


if __name__ == "__main__":
    main()
