"""Neural network as an immutable graph of layers in topological order, without weights. The constructor checks all rules."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable
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
    """One operation of a network, its name, and the indices of its input nodes, which come earlier in the graph.

    A name has lower-case segments separated by dots: 'stage2.block1.conv1'. Its weights are '<name>.weight' and so on. Raise
    IllegalGraph for a malformed name.
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
        """Return a copy of the node with other inputs.

        `inputs`: indices of the input nodes in the graph. Nothing is checked.
        """
        node = _new(Node)
        _set(node, "name", self.name)
        _set(node, "op", self.op)
        _set(node, "inputs", inputs)
        return node


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order. The first node is the image or the sequence, the last one the softmax of a dense classifier.

    The output of every other node is an input of at least one node. Equal graphs have equal nodes, including names.
    `fingerprint` compares without names. No name is a prefix of another ('a' and 'a.b'), because names form a tree with nodes
    as leaves. Raise IllegalGraph, with the node, the rule and the fix, if a rule is broken.
    """

    nodes: tuple[Node, ...]
    shapes: tuple[Shape, ...] = field(init=False, repr=False, compare=False)
    """Output shape of each node, for one sample."""

    def __post_init__(self) -> None:
        _check_ends(self.nodes)
        _check_names(self.nodes)
        object.__setattr__(self, "shapes", _checked_shapes(self.nodes))

    @classmethod
    def of_lawful(cls, nodes: tuple[Node, ...], shapes: tuple[Shape, ...]) -> "Graph":
        """Return a graph of nodes that are known to be legal. Nothing is checked.

        `shapes`: output shape of each node, for one image. Only for `morphism.grow`, which derives a legal graph from
        another. Tests compare both constructors.
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
        """Index of each node by the name of the node."""
        return {node.name: index for index, node in enumerate(self.nodes)}

    def index(self, name: str) -> int:
        """Return the index of the node with this name. Raise KeyError if no node has it."""
        return self.indices[name]

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each node, in order: the indices of the nodes that have its output as input, ascending.

        A node that has this output as input twice is listed twice.
        """
        readers: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for entering in node.inputs:
                readers[entering].append(index)
        return tuple(map(tuple, readers))

    @cached_property
    def reads_image(self) -> tuple[bool, ...]:
        """For each node, in order: True if no node between the image and it has parameters.

        Training needs no gradient of the input of such a node.
        """
        learns_behind: list[bool] = []  # True if the node or an ancestor has parameters
        reads_image: list[bool] = []
        for node in self.nodes:
            behind = False
            for entering in node.inputs:
                behind = behind or learns_behind[entering]
            reads_image.append(not behind)
            learns_behind.append(behind or isinstance(node.op, ops.Learning))
        return tuple(reads_image)

    @cached_property
    def heads(self) -> frozenset[str]:
        """First segments of the names of all nodes, such as 'stage2' of 'stage2.block1.conv1'.

        A morph (a change that grows the network) names its nodes with a first segment that is not in use.
        """
        return frozenset([node.name.partition(".")[0] for node in self.nodes])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the network without its names, as 32 hexadecimal digits.

        The fingerprint depends on operations with all their numbers, the image's size, and the order and inputs of the nodes.
        The same network in another topological order has another fingerprint.
        """
        return hashlib.blake2b(
            ";".join(
                [
                    f"{code}<{node.inputs[0]}"
                    if len(node.inputs) == 1
                    else code + "".join([f"<{entering}" for entering in node.inputs])
                    for code, node in zip(_codes(self), self.nodes, strict=True)
                ]
            ).encode("ascii"),
            digest_size=16,
        ).hexdigest()


def once_per_graph(derive: Callable[[Graph], Result]) -> Callable[[Graph], Result]:
    """Decorate a function of a graph with a cache. The first call for a graph stores the result in the graph.

    `derive`: a function of a graph and of nothing else. Later calls for the same graph object return the stored result.
    """
    key = _key(derive)

    @wraps(derive)
    def remembered(graph: Graph) -> Result:
        memory = graph.__dict__
        if key not in memory:
            memory[key] = derive(graph)
        result: Result = memory[key]
        return result

    return remembered


def once_per_node(derive: Callable[[Graph, int], Result]) -> Callable[[Graph], tuple[Result, ...]]:
    """Decorate a function of a graph and the index of a node with a cache of the results for all nodes, in their order.

    `derive`: a function of the node's operation, the shapes of its inputs and output, and `reads_image`, and of nothing else.
    A graph that grows from another receives the known results of the nodes that are the same (`hand_on_nodes`).
    """

    @once_per_graph
    @wraps(derive)
    def of_all(graph: Graph) -> tuple[Result, ...]:
        return tuple([derive(graph, index) for index in range(len(graph.nodes))])

    _OF_NODES[_key(of_all)] = derive
    return of_all


_OF_NODES: dict[str, Callable[[Graph, int], object]] = {}


def known(graph: Graph, derive: Callable[[Graph], Result]) -> Result | None:
    """Return the result of `derive` that is stored in the graph. None if none is stored yet.

    `derive`: a function decorated with `once_per_graph`. It is not called.
    """
    result: Result | None = graph.__dict__.get(_key(derive))
    return result


def remember(graph: Graph, derive: Callable[[Graph], Result], result: Result) -> None:
    """Store `result` in the graph as the result of `derive` for this graph. Later calls of `derive` return it.

    `derive`: a function decorated with `once_per_graph`. It is not called.
    """
    graph.__dict__[_key(derive)] = result


def hand_on(graph: Graph, grown: Graph, names: Iterable[str], derived: Iterable[Callable[[Graph], object]]) -> None:
    """Store the known results of `graph` in `grown`, for which they are equal.

    `names`: cached properties. `derived`: functions decorated with `once_per_graph`. Nothing is computed.
    """
    memory = graph.__dict__
    for key in (*names, *map(_key, derived)):
        if key in memory:
            grown.__dict__[key] = memory[key]


def hand_on_nodes(graph: Graph, grown: Graph, changed: Collection[int], *, at: int = 0, added: int = 0) -> None:
    """Store in `grown` the known results of `graph` for single nodes (`once_per_node`). Those of `changed` are derived anew.

    `changed`: indices of the nodes of `grown` with another operation, input shape or output shape. `at`: index of the first
    added node. `added`: number of added nodes, all of them in `changed`. All others of them depend on the first. Nothing is
    stored if no parameters precede the node before the added nodes.
    """
    memory, reads_image = graph.__dict__, graph.reads_image
    if added:
        # nodes added after the image have parameters, so that later layers need input gradients that the parent did not need
        if reads_image[at - 1]:
            return
        first = reads_image[grown.nodes[at].inputs[0]]
        grown.__dict__["reads_image"] = (*reads_image[:at], first, *(False,) * (added - 1), *reads_image[at:])
    for key, derive in _OF_NODES.items():
        if key in memory:
            results = [*memory[key][:at], *(None,) * added, *memory[key][at:]]
            for index in changed:
                results[index] = derive(grown, index)
            grown.__dict__[key] = tuple(results)


def _key(derive: Callable[[Graph], object]) -> str:
    return f"{derive.__module__}.{derive.__qualname__}"


def _check_ends(nodes: tuple[Node, ...]) -> None:
    if not 4 <= len(nodes) <= LARGEST_GRAPH:
        raise ops.IllegalGraph(
            f"a graph has from 4 to {LARGEST_GRAPH} nodes, at least image, pooling, dense, softmax. This one has {len(nodes)}: "
            "add or remove nodes"
        )
    first, last = nodes[0], nodes[-1]
    if not isinstance(first.op, ops.Input | ops.TokenInput):
        raise ops.IllegalGraph(
            f"node {first.name!r}: the first node must be the Input or TokenInput. This one is {type(first.op).__name__}: "
            "put the input first"
        )
    if not isinstance(last.op, ops.Softmax):
        raise ops.IllegalGraph(
            f"node {last.name!r}: the last node must be the Softmax. This one is {type(last.op).__name__}: end with a Softmax"
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
        if isinstance(op, ops.Input | ops.TokenInput) and index:
            raise ops.IllegalGraph(
                f"node {node.name!r}: only the first node may be an Input or TokenInput. Remove this one"
            )
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


@once_per_node
def _codes(graph: Graph, index: int) -> str:
    return _code(graph.nodes[index].op)


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
        case ops.TokenInput():
            return f"t{op.vocabulary},{op.length}"
        case ops.Embedding():
            return f"e{op.features}"
        case ops.RmsNorm():
            return "z"
        case ops.Attention():
            return f"h{op.heads},{op.head_features}"
        case ops.GatedMlp():
            return f"u{op.hidden}"
        case _:
            assert_never(op)
