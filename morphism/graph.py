"""A network as an immutable graph in topological order, legal by construction.

It owns wiring, names, shapes and the fingerprint; it knows nothing of weights, cost or morphs.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import TypeVar, assert_never

from morphism.ops import (
    Add,
    AveragePooling,
    BatchNormalisation,
    Concat,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    IllegalGraph,
    Input,
    MaxPooling,
    Op,
    Relu,
    Softmax,
)
from morphism.shapes import Shape, output_shape

LARGEST_GRAPH = 10_000  # nodes
LONGEST_NAME = 120  # characters

_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")

# how a frozen dataclass is made without its __init__
_new, _set = object.__new__, object.__setattr__

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Node:
    """One operation, its name, and the indices of the earlier nodes that it reads.

    A name is lower case, its segments parted by dots: 'stage2.block1.conv1'. Its weights are '<name>.weight' and so on.
    """

    name: str
    op: Op
    inputs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or len(self.name) > LONGEST_NAME or not _NAME.fullmatch(self.name):
            shown = repr(self.name) if len(repr(self.name)) <= LONGEST_NAME else repr(self.name)[:40] + "…"
            raise IllegalGraph(
                f"node {shown}: a name is segments of lower-case letters, digits and '_', each begun by a letter, "
                f"parted by dots, {LONGEST_NAME} characters at most; rename it"
            )

    def moved(self, inputs: tuple[int, ...]) -> "Node":
        """The same node reading from other places; its name, checked before, is not checked again."""
        node = _new(Node)
        _set(node, "name", self.name)
        _set(node, "op", self.op)
        _set(node, "inputs", inputs)
        return node


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order: the image first, the softmax of a dense classifier last, none unread in between.

    Raises IllegalGraph, naming the node, the law and the remedy. Graphs are equal when their nodes are, names included;
    `fingerprint` compares without names. No name may be a leading part of another ('a' and 'a.b'), so that names form
    a tree whose leaves are the nodes.
    """

    nodes: tuple[Node, ...]
    shapes: tuple[Shape, ...] = field(init=False, repr=False, compare=False)
    """The shape that leaves each node, for one image."""

    def __post_init__(self) -> None:
        _check_ends(self.nodes)
        _check_names(self.nodes)
        object.__setattr__(self, "shapes", _checked_shapes(self.nodes))

    @classmethod
    def of_lawful(cls, nodes: tuple[Node, ...], shapes: tuple[Shape, ...]) -> "Graph":
        """A graph of nodes that are known to keep every law, with the shapes that leave them: nothing is checked.

        For `morphism.grow` alone, which makes one lawful graph of another; tests hold the two ways to one result.
        """
        graph = _new(cls)
        _set(graph, "nodes", nodes)
        _set(graph, "shapes", shapes)
        return graph

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[type["Graph"], tuple[tuple[Node, ...]]]:
        # what is derived is derived again where it arrives
        return Graph, (self.nodes,)

    @cached_property
    def indices(self) -> dict[str, int]:
        """The index of each node by its name."""
        return {node.name: index for index, node in enumerate(self.nodes)}

    def index(self, name: str) -> int:
        """The index of the node of that name; KeyError where there is none."""
        return self.indices[name]

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each node the indices of the nodes that read it, in order; one that reads it twice stands twice."""
        readers: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for entering in node.inputs:
                readers[entering].append(index)
        return tuple(map(tuple, readers))

    @cached_property
    def reads_image(self) -> tuple[bool, ...]:
        """Whether each node reads nothing but the image, through layers that have no parameters or none at all.

        Such a layer needs no gradient towards its input, for there is nothing behind it to learn.
        """
        learns_behind: list[bool] = []  # whether the node or anything it stands on has parameters
        reads_image: list[bool] = []
        for node in self.nodes:
            behind = False
            for entering in node.inputs:
                behind = behind or learns_behind[entering]
            reads_image.append(not behind)
            learns_behind.append(behind or isinstance(node.op, Convolution | BatchNormalisation | Dense))
        return tuple(reads_image)

    @cached_property
    def heads(self) -> frozenset[str]:
        """The first segment of every name; a morph's own nodes are named outside them."""
        return frozenset([node.name.partition(".")[0] for node in self.nodes])

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that two graphs share exactly when they are node for node the same but for names.

        Operations with all their numbers, the image's size, order and wiring count; the same network with its nodes
        in another topological order has another fingerprint.
        """
        return hashlib.blake2b(
            ";".join(
                [_code(node.op) + "".join([f"<{entering}" for entering in node.inputs]) for node in self.nodes]
            ).encode("ascii"),
            digest_size=16,
        ).hexdigest()


def once_per_graph(derive: Callable[[Graph], Result]) -> Callable[[Graph], Result]:
    """Remembers on the graph itself what a function derives from it: graphs never change."""
    key = _key(derive)

    @wraps(derive)
    def remembered(graph: Graph) -> Result:
        memory = graph.__dict__
        if key not in memory:
            memory[key] = derive(graph)
        result: Result = memory[key]
        return result

    return remembered


def known(graph: Graph, derive: Callable[[Graph], Result]) -> Result | None:
    """What a function that is called once per graph derived from this one; None where it was not asked yet."""
    found: Result | None = graph.__dict__.get(_key(derive))
    return found


def remember(graph: Graph, derive: Callable[[Graph], Result], result: Result) -> None:
    """Spares a function that is called once per graph the work: `result` is what it would derive from this one."""
    graph.__dict__[_key(derive)] = result


def _key(derive: Callable[[Graph], object]) -> str:
    return f"{derive.__module__}.{derive.__qualname__}"


def _check_ends(nodes: tuple[Node, ...]) -> None:
    if not 4 <= len(nodes) <= LARGEST_GRAPH:
        raise IllegalGraph(
            f"a graph has from 4 to {LARGEST_GRAPH} nodes (image, pooling, dense and softmax are the least), "
            f"not {len(nodes)}"
        )
    first, last = nodes[0], nodes[-1]
    if not isinstance(first.op, Input):
        raise IllegalGraph(f"node {first.name!r}: the first node is the Input, not {type(first.op).__name__}; begin so")
    if not isinstance(last.op, Softmax):
        raise IllegalGraph(f"node {last.name!r}: the last node is the Softmax, not {type(last.op).__name__}; end so")


def _check_names(nodes: tuple[Node, ...]) -> None:
    names = {node.name for node in nodes}
    if len(names) != len(nodes):
        seen: set[str] = set()
        for node in nodes:
            if node.name in seen:
                raise IllegalGraph(
                    f"node {node.name!r}: names are unique, this one stands twice; rename one of the two"
                )
            seen.add(node.name)
    # each folder once, not each leading part of each name: blocks hold many nodes
    folders = {name.rpartition(".")[0] for name in names}
    for folder in folders:
        while folder:
            if folder in names:
                within = min(name for name in names if name.startswith(folder + "."))
                raise IllegalGraph(
                    f"node {folder!r}: no name is a leading part of another, as it is of {within!r}; rename one"
                )
            folder = folder.rpartition(".")[0]


def _checked_shapes(nodes: tuple[Node, ...]) -> tuple[Shape, ...]:
    shapes: list[Shape] = []
    read: set[int] = set()
    last = len(nodes) - 1
    for index, node in enumerate(nodes):
        op = node.op
        for entering in node.inputs:
            if type(entering) is not int or not 0 <= entering < index:
                raise IllegalGraph(
                    f"node {node.name!r}: a node reads earlier nodes, by index from 0 to {index - 1}, "
                    f"not {entering!r}; put what it reads before it"
                )
        read.update(node.inputs)
        if isinstance(op, Input) and index:
            raise IllegalGraph(f"node {node.name!r}: only the first node is an Input; remove this one")
        if isinstance(op, Softmax):
            if index != last:
                raise IllegalGraph(f"node {node.name!r}: only the last node is a Softmax; remove this one")
            if len(node.inputs) == 1 and not isinstance(nodes[node.inputs[0]].op, Dense):
                raise IllegalGraph(
                    f"node {node.name!r}: the softmax reads the dense classifier, not {nodes[node.inputs[0]].name!r}; "
                    "put a Dense with one output a class between them"
                )
        try:
            shapes.append(output_shape(op, tuple([shapes[entering] for entering in node.inputs])))
        except IllegalGraph as offence:
            raise IllegalGraph(f"node {node.name!r}: {offence}") from None
    if len(read) != last:
        unread = next(index for index in range(last) if index not in read)
        raise IllegalGraph(
            f"node {nodes[unread].name!r}: every node but the last is read by another; remove it or wire it in"
        )
    return tuple(shapes)


def _code(op: Op) -> str:
    """The operation with all its numbers; no two different operations share one."""
    match op:
        case BatchNormalisation():
            return "n"
        case Relu():
            return "r"
        case Convolution():
            return f"c{op.out_channels},{op.kernel},{op.stride},{op.padding},{op.groups}"
        case Add():
            return "+"
        case Concat():
            return "&"
        case MaxPooling():
            return f"m{op.kernel},{op.stride},{op.padding}"
        case AveragePooling():
            return f"a{op.kernel},{op.stride},{op.padding}"
        case GlobalAveragePooling():
            return "g"
        case Dense():
            return f"d{op.out_features}"
        case Dropout():
            return f"o{op.probability.hex()}"
        case Softmax():
            return "s"
        case Input():
            return f"i{op.channels},{op.height},{op.width}"
        case _:
            assert_never(op)
