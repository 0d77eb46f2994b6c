"""A network's forward pass in training with its normalisations fused: the same straight line of Python with fewer calls.

This file owns what is joined: a batch normalisation with the addition and the ReLU that alone read it, and, where it is asked
for, a 1×1 convolution of stride 1 with the statistics of the normalisation that alone reads it. Graph, weights and count stay
as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from aiperf.train.fused import Fusion
from aiperf.train.module import SCOPE, Network, expression
from morphism import Add, BatchNormalisation, Convolution, Graph, Relu


@dataclass(frozen=True, slots=True)
class Joined:
    """A batch normalisation and what is done with it."""

    norm: int
    last: int
    """The node whose value the joined operation gives."""
    residual: int | None
    """What is added."""
    relu: bool
    pointwise: bool
    """Whether the convolution before it hands on its statistics."""


def joined(graph: Graph, fusion: Fusion) -> tuple[Joined, ...]:
    """All normalisations of a graph, each with what can be joined to it. An addition is joined to one of its summands."""
    found: list[Joined] = []
    taken: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if not isinstance(node.op, BatchNormalisation):
            continue
        last, residual, relu = index, None, False
        add = _only_reader(graph, index)
        if add is not None and isinstance(graph.nodes[add].op, Add) and add not in taken:
            others = [each for each in graph.nodes[add].inputs if each != index]
            last, residual = add, others[0]  # not itself: it is read once
            taken.add(add)
        after = _only_reader(graph, last)
        if after is not None and isinstance(graph.nodes[after].op, Relu):
            last, relu = after, True
        found.append(Joined(index, last, residual, relu, fusion == "conv" and _is_pointwise(graph, index)))
    return tuple(found)


def _only_reader(graph: Graph, index: int) -> int | None:
    readers = graph.readers[index]
    return readers[0] if len(readers) == 1 else None


def _is_pointwise(graph: Graph, norm: int) -> bool:
    before = graph.nodes[norm].inputs[0]
    op = graph.nodes[before].op
    return (
        isinstance(op, Convolution)
        and (op.kernel, op.stride, op.padding, op.groups) == (1, 1, 0, 1)
        and _only_reader(graph, before) == norm
    )


def source(graph: Graph, fusion: Fusion) -> str:
    """The Python text of the fused forward: `module.source` with the joined nodes as one line each."""
    return "\n".join(("def forward(self, v0):", *(f"    {line}" for line in _lines(graph, fusion)), ""))


def _lines(graph: Graph, fusion: Fusion) -> Iterator[str]:
    parts = joined(graph, fusion)
    ends = {part.last: part for part in parts}
    with_statistics = {graph.nodes[part.norm].inputs[0] for part in parts if part.pointwise}
    within = {node for part in parts for node in _members(graph, part)} - set(ends)
    written: list[tuple[str, tuple[int, ...]]] = []
    for index, node in enumerate(graph.nodes[1:-1], start=1):
        if index in within:
            continue
        if index in ends:
            part = ends[index]
            entering = graph.nodes[part.norm].inputs[0]
            residual = "None" if part.residual is None else f"v{part.residual}"
            statistics = f"s{entering}" if part.pointwise else "None"
            text = f"norm(v{entering}, {_layer(graph, part.norm)}, {residual}, {part.relu}, {statistics})"
            read: tuple[int, ...] = (entering,) if part.residual is None else (entering, part.residual)
            written.append((f"v{index} = {text}", read))
        elif index in with_statistics:
            (entering,) = node.inputs
            written.append((f"v{index}, s{index} = pointwise(v{entering}, {_layer(graph, index)})", (entering,)))
        else:
            written.append((f"v{index} = {expression(graph, index)}", tuple(node.inputs)))
    logits = graph.nodes[-1].inputs[0]
    last_read = {value: number for number, (_, read) in enumerate(written) for value in read if value != logits}
    for number, (text, read) in enumerate(written):
        yield text
        spent = [f"v{value}" for value in dict.fromkeys(read) if last_read.get(value) == number]
        if spent:
            yield f"del {', '.join(spent)}"
    yield f"return v{logits}"


def _members(graph: Graph, part: Joined) -> tuple[int, ...]:
    """Its nodes: the normalisation, the addition if any, the ReLU if any."""
    if part.relu and part.residual is not None:
        return part.norm, graph.nodes[part.last].inputs[0], part.last
    return part.norm, part.last


def _layer(graph: Graph, index: int) -> str:
    path = graph.nodes[index].name.split(".")
    return "self" + "".join(f"._modules[{segment!r}]" for segment in path)


def fused_line(
    graph: Graph, fusion: Fusion, norm: Callable[..., Any], pointwise: Callable[..., Any]
) -> Callable[[Network, Tensor], Tensor]:
    """The fused forward in training, called with the network and images; in evaluation the network's own is called.

    `norm` and `pointwise`: those of `norm.py`.
    """
    scope: dict[str, Any] = {**SCOPE, "norm": norm, "pointwise": pointwise}
    text = source(graph, fusion)
    exec(compile(text, f"<fused network {graph.fingerprint[:16]}>", "exec"), scope)  # quoted keys alone enter the text
    fused: Callable[[Network, Tensor], Tensor] = scope["forward"]

    def forward(network: Network, images: Tensor) -> Tensor:
        return fused(network, images) if network.training else Network.forward(network, images)

    return forward
