"""Conversion of a graph to a torch module with generated, straight-line Python code for the forward pass.

No node is interpreted at run time. This file decides which operations may work in place.
"""

import linecache
from collections.abc import Callable, Iterator
from math import nan
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from morphism import Graph, Map, Vector, ops


def build(graph: Graph) -> "Network":
    """Return a torch module that computes the graph up to its logits, in float32 on torch's default device.

    Images (batch, channels, height, width) become logits (batch, classes). The softmax belongs to the loss. State-dict keys
    are "<node name>.<weight|bias|running_mean|running_var|…>". Weights are NaN until they are set, so that an uninitialised
    network cannot train unnoticed. Raise ValueError for a node name that torch uses itself ('half', 'training').
    """
    return Network(graph)


def source(graph: Graph) -> str:
    """Python source of the forward function, with `del` after a value's last use."""
    return "\n".join(("def forward(self, v0):", *(f"    {line}" for line in _lines(graph)), ""))


class Network(nn.Module):
    """Torch module that computes the network of a graph. It can be copied and pickled."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        for index, node in enumerate(graph.nodes):
            layer = _layer(graph, index)
            if layer is not None:
                _context(self, node.name.split("."), layer)
        self.straight_line = _compile(graph)
        """Function of this network's own that forward calls, with its own code object."""

    def forward(self, images: Tensor) -> Tensor:
        return self.straight_line(self, images)

    def __getstate__(self) -> dict[str, Any]:
        # a generated function cannot be pickled. It is generated again from the graph
        return {key: value for key, value in self.__dict__.items() if key != "straight_line"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.straight_line = _compile(self._graph)


class _UnsetConvolution(nn.Conv2d):
    # default initialization would take most of the time of building, and is overwritten
    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, nan)


class _UnsetDense(nn.Linear):
    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, nan)
        nn.init.constant_(self.bias, nan)


def _layer(graph: Graph, index: int) -> nn.Module | None:
    node = graph.nodes[index]
    match node.op:
        case ops.Convolution(out_channels, kernel, stride, padding, groups):
            channels = _channels(graph, index)
            return _UnsetConvolution(channels, out_channels, kernel, stride, padding, groups=groups, bias=False)
        case ops.BatchNormalisation():
            return nn.BatchNorm2d(
                _channels(graph, index), eps=ops.BATCH_NORMALISATION_EPSILON, momentum=ops.BATCH_NORMALISATION_MOMENTUM
            )
        case ops.Dense(out_features):
            return _UnsetDense(_channels(graph, index), out_features)
        case (
            ops.Input()
            | ops.Relu()
            | ops.Add()
            | ops.Concat()
            | ops.MaxPooling()
            | ops.AveragePooling()
            | ops.GlobalAveragePooling()
            | ops.Dropout()
            | ops.Softmax()
        ):
            return None
        case _:
            assert_never(node.op)


def _channels(graph: Graph, index: int) -> int:
    match graph.shapes[graph.nodes[index].inputs[0]]:
        case Map(channels):
            return channels
        case Vector(features):
            return features


def _context(parent: nn.Module, path: list[str], layer: nn.Module) -> None:
    for depth, segment in enumerate(path):
        if segment not in parent._modules:
            if hasattr(parent, segment):
                raise ValueError(
                    f"node {'.'.join(path)!r}: a part of a node's name becomes the name of a torch module, and every one of "
                    f"those has a {segment!r} already; rename the node"
                )
            parent.add_module(segment, layer if depth == len(path) - 1 else nn.Module())
        parent = parent.get_submodule(segment)


def _lines(graph: Graph) -> Iterator[str]:
    for index, node in enumerate(graph.nodes[1:-1], start=1):
        yield f"v{index} = {expression(graph, index)}"
        spent = [f"v{entering}" for entering in dict.fromkeys(node.inputs) if graph.readers[entering][-1] == index]
        if spent:
            yield f"del {', '.join(spent)}"
    yield f"return v{graph.nodes[-1].inputs[0]}"


def expression(graph: Graph, index: int) -> str:
    """Expression of a node in the forward function, over `self`, values `v<index>` and the names in `SCOPE`."""
    node = graph.nodes[index]
    first = f"v{node.inputs[0]}" if node.inputs else ""
    match node.op:
        case ops.Convolution() | ops.BatchNormalisation() | ops.Dense():
            path = "".join(f"._modules[{segment!r}]" for segment in node.name.split("."))
            return f"self{path}({first})"
        case ops.Relu():
            return f"{first}.relu_()" if _may_overwrite(graph, node.inputs[0]) else f"{first}.relu()"
        case ops.Add():
            # in place into a summand without other readers, like a hand-written `out += identity`
            left, right = node.inputs
            if _may_overwrite(graph, left):
                return f"v{left}.add_(v{right})"
            if _may_overwrite(graph, right):
                return f"v{right}.add_(v{left})"
            return f"v{left} + v{right}"
        case ops.Concat():
            return f"cat(({', '.join(f'v{entering}' for entering in node.inputs)}), 1)"
        case ops.MaxPooling(kernel, stride, padding):
            return f"max_pool2d({first}, {kernel!r}, {stride!r}, {padding!r})"
        case ops.AveragePooling(kernel, stride, padding):
            return f"avg_pool2d({first}, {kernel!r}, {stride!r}, {padding!r})"
        case ops.GlobalAveragePooling():
            return f"{first}.mean((2, 3))"
        case ops.Dropout(probability):
            return f"dropout({first}, {probability!r}, self.training)"
        case ops.Input() | ops.Softmax():
            raise AssertionError(f"{node.name!r}: an input is only ever the first node, a softmax the last")
        case _:
            assert_never(node.op)


def _may_overwrite(graph: Graph, index: int) -> bool:
    """Return whether the node's value is read once and is not kept by the node for its backward pass.

    A ReLU keeps its output. Dropout in evaluation mode returns its input. Pooling differs by backend, so its output is
    not overwritten.
    """
    return len(graph.readers[index]) == 1 and isinstance(
        graph.nodes[index].op, ops.Convolution | ops.BatchNormalisation | ops.Add | ops.Dense
    )


SCOPE: dict[str, Any] = {
    "cat": torch.cat,
    "max_pool2d": torch.max_pool2d,
    "avg_pool2d": nn.functional.avg_pool2d,
    "dropout": nn.functional.dropout,
}
"""Functions that expressions call."""


def _compile(graph: Graph) -> Callable[[Network, Tensor], Tensor]:
    text = source(graph)
    name = f"<network {graph.fingerprint[:16]}>"
    # so that a traceback shows the line that failed
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = dict(SCOPE)
    exec(compile(text, name, "exec"), scope)  # names enter the text only as quoted keys
    forward: Callable[[Network, Tensor], Tensor] = scope["forward"]
    return forward
