"""Network as an immutable graph in topological order. Its constructor checks all rules.

A graph has nodes, names, shapes and a fingerprint, but no weights.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import TypeVar, assert_never

from morphism import ops
from morphism.shapes import Shape, output_shape

LARGEST_GRAPH = 10_000  # nodes
LONGEST_NAME = 120  # characters

_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")

# how a frozen dataclass is made without its __init__
_new, _set = object.__new__, object.__setattr__

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Node:
    """One operation, its name, and the indices of its input nodes, all earlier.

    A name has lower-case segments separated by dots: 'stage2.block1.conv1'. Its weights are '<name>.weight' and so on.
    """

    name: str
    op: ops.Op
    inputs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or len(self.name) > LONGEST_NAME or not _NAME.fullmatch(self.name):
            shown = repr(self.name) if len(repr(self.name)) <= LONGEST_NAME else repr(self.name)[:40] + "…"
            raise ops.IllegalGraph(
                f"node {shown}: a name consists of segments of lower-case letters, digits and '_', separated by dots. Each "
                f"segment starts with a letter, and the name has at most {LONGEST_NAME} characters. Rename it"
            )

    def moved(self, inputs: tuple[int, ...]) -> "Node":
        """Return a copy of the node with other inputs (indices of nodes). Its name is not checked again."""
        node = _new(Node)
        _set(node, "name", self.name)
        _set(node, "op", self.op)
        _set(node, "inputs", inputs)
        return node


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order: first the image, last the softmax of a dense classifier. Every other node has a reader.

    Raises IllegalGraph with the node, the rule and the fix. Equal graphs have equal nodes, including names. `fingerprint`
    compares without names. No name is a prefix of another ('a' and 'a.b'), so that names form a tree with nodes as leaves.
    """

    nodes: tuple[Node, ...]
    shapes: tuple[Shape, ...] = field(init=False, repr=False, compare=False)
    """Output shape of each node, for one image."""

    def __post_init__(self) -> None:
        _check_ends(self.nodes)
        _check_names(self.nodes)
        object.__setattr__(self, "shapes", _checked_shapes(self.nodes))

    @classmethod
    def of_lawful(cls, nodes: tuple[Node, ...], shapes: tuple[Shape, ...]) -> "Graph":
        """Return a graph of nodes that are known to be legal, with their output shapes. Nothing is checked.

        Only for `morphism.grow`, which derives a legal graph from another. Tests compare both constructors.
        """
        graph = _new(cls)
        _set(graph, "nodes", nodes)
        _set(graph, "shapes", shapes)
        return graph

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[type["Graph"], tuple[tuple[Node, ...]]]:
        # derived values are computed again after unpickling
        return Graph, (self.nodes,)

    @cached_property
    def indices(self) -> dict[str, int]:
        """Indices of the nodes by name."""
        return {node.name: index for index, node in enumerate(self.nodes)}

    def index(self, name: str) -> int:
        """Return the index of the node with this name. Raises KeyError for an unknown name."""
        return self.indices[name]

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the nodes that read each node's output, sorted. A node that reads it twice is listed twice."""
        readers: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for entering in node.inputs:
                readers[entering].append(index)
        return tuple(map(tuple, readers))

    @cached_property
    def reads_image(self) -> tuple[bool, ...]:
        """True for each node without an earlier layer with parameters. Such a node needs no input gradient."""
        learns_behind: list[bool] = []  # True if the node or an ancestor has parameters
        reads_image: list[bool] = []
        for node in self.nodes:
            behind = False
            for entering in node.inputs:
                behind = behind or learns_behind[entering]
            reads_image.append(not behind)
            learns_behind.append(behind or isinstance(node.op, ops.Convolution | ops.BatchNormalisation | ops.Dense))
        return tuple(reads_image)

    @cached_property
    def heads(self) -> frozenset[str]:
        """First segments of all names. Nodes added by a morph have another first segment."""
        return frozenset([node.name.partition(".")[0] for node in self.nodes])

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that are equal for two graphs if their nodes are equal except for names.

        The fingerprint depends on operations with all their numbers, the image's size, and the order and inputs of the nodes.
        The same network in another topological order has another fingerprint.
        """
        return hashlib.blake2b(
            ";".join(
                [_code(node.op) + "".join([f"<{entering}" for entering in node.inputs]) for node in self.nodes]
            ).encode("ascii"),
            digest_size=16,
        ).hexdigest()


def once_per_graph(derive: Callable[[Graph], Result]) -> Callable[[Graph], Result]:
    """Return the function `derive` with a cache: its result is stored in the graph, which never changes. A decorator."""
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
    """Return the cached result of a `once_per_graph` function. None if it was not called yet."""
    found: Result | None = graph.__dict__.get(_key(derive))
    return found


def remember(graph: Graph, derive: Callable[[Graph], Result], result: Result) -> None:
    """Store the result of a `once_per_graph` function without calling it."""
    graph.__dict__[_key(derive)] = result


def _key(derive: Callable[[Graph], object]) -> str:
    return f"{derive.__module__}.{derive.__qualname__}"


def _check_ends(nodes: tuple[Node, ...]) -> None:
    if not 4 <= len(nodes) <= LARGEST_GRAPH:
        raise ops.IllegalGraph(
            f"a graph has from 4 to {LARGEST_GRAPH} nodes, at least image, pooling, dense, softmax. This one has {len(nodes)}"
        )
    first, last = nodes[0], nodes[-1]
    if not isinstance(first.op, ops.Input):
        raise ops.IllegalGraph(
            f"node {first.name!r}: the first node must be the Input. This one is {type(first.op).__name__}"
        )
    if not isinstance(last.op, ops.Softmax):
        raise ops.IllegalGraph(
            f"node {last.name!r}: the last node must be the Softmax. This one is {type(last.op).__name__}"
        )


def _check_names(nodes: tuple[Node, ...]) -> None:
    names = {node.name for node in nodes}
    if len(names) != len(nodes):
        seen: set[str] = set()
        for node in nodes:
            if node.name in seen:
                raise ops.IllegalGraph(
                    f"node {node.name!r}: names must be unique. Two nodes have this name: rename one"
                )
            seen.add(node.name)
    # each folder once, since a block has many nodes
    folders = {name.rpartition(".")[0] for name in names}
    for folder in folders:
        while folder:
            if folder in names:
                within = min(name for name in names if name.startswith(folder + "."))
                raise ops.IllegalGraph(
                    f"node {folder!r}: no name may be a prefix of another, such as {within!r}. Rename one"
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
                raise ops.IllegalGraph(
                    f"node {node.name!r}: inputs must be indices of earlier nodes, from 0 to {index - 1}. "
                    f"This node has {entering!r}: move that node before this one"
                )
        read.update(node.inputs)
        if isinstance(op, ops.Input) and index:
            raise ops.IllegalGraph(f"node {node.name!r}: only the first node may be an Input. Remove this one")
        if isinstance(op, ops.Softmax):
            if index != last:
                raise ops.IllegalGraph(f"node {node.name!r}: only the last node may be a Softmax. Remove this one")
            if len(node.inputs) == 1 and not isinstance(nodes[node.inputs[0]].op, ops.Dense):
                raise ops.IllegalGraph(
                    f"node {node.name!r}: the input of the Softmax must be a Dense. It is {nodes[node.inputs[0]].name!r}: "
                    "insert a Dense with one output per class"
                )
        try:
            shapes.append(output_shape(op, tuple([shapes[entering] for entering in node.inputs])))
        except ops.IllegalGraph as offence:
            raise ops.IllegalGraph(f"node {node.name!r}: {offence}") from None
    if len(read) != last:
        unread = next(index for index in range(last) if index not in read)
        raise ops.IllegalGraph(
            f"node {nodes[unread].name!r}: every node except the last must be an input of another. Remove it or connect it"
        )
    return tuple(shapes)


def _code(op: ops.Op) -> str:
    """Return an operation with all its numbers as text, different for every operation."""
    match op:
        case ops.BatchNormalisation():
            return "n"
        case ops.Relu():
            return "r"
        case ops.Convolution():
            return f"c{op.out_channels},{op.kernel},{op.stride},{op.padding},{op.groups}"
        case ops.Add():
            return "+"
        case ops.Concat():
            return "&"
        case ops.MaxPooling():
            return f"m{op.kernel},{op.stride},{op.padding}"
        case ops.AveragePooling():
            return f"a{op.kernel},{op.stride},{op.padding}"
        case ops.GlobalAveragePooling():
            return "g"
        case ops.Dense():
            return f"d{op.out_features}"
        case ops.Dropout():
            return f"o{op.probability.hex()}"
        case ops.Softmax():
            return "s"
        case ops.Input():
            return f"i{op.channels},{op.height},{op.width}"
        case _:
            assert_never(op)
