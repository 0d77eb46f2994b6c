"""Rules of a graph: illegal graphs, and differences that a fingerprint shows."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import Phase, given, settings

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
    IllegalGraph,
    Input,
    Map,
    MaxPooling,
    Node,
    Op,
    Relu,
    Softmax,
    start,
)
from tests.builders.graph import graphs, token_graphs

IMAGE = Node("image", Input(3, 8, 8))


def closed(*body: Node) -> Graph:
    """The nodes between an image and a classifier that reads the last of them."""
    last = len(body)
    return Graph(
        (
            IMAGE,
            *body,
            Node("head.pool", GlobalAveragePooling(), (last,)),
            Node("head.dense", Dense(2), (last + 1,)),
            Node("head.softmax", Softmax(), (last + 2,)),
        )
    )


def conv(name: str, reads: int, channels: int = 4, kernel: int = 1, **more: int) -> Node:
    return Node(name, Convolution(channels, kernel, **more), (reads,))


ILLEGAL_BODIES: list[tuple[list[Node], str]] = [
    ([conv("a", 0), conv("a", 1)], "node 'a': names must be unique"),
    ([conv("a", 0), conv("a.b", 1)], "node 'a': no name may be a prefix of another, such as 'a.b'"),
    ([conv("a", 0), conv("b", 0)], "node 'a': every node except the last must be an input"),
    ([conv("a", 1)], "node 'a': inputs must be indices of earlier nodes, from 0 to 0. This node has 1"),
    ([conv("a", -1)], "node 'a': inputs must be indices of earlier nodes"),
    ([conv("a", 0), Node("b", Input(1, 2, 2))], "node 'b': only the first node may be an Input"),
    ([conv("a", 0, kernel=9)], "node 'a': a 9×9 window with padding 0 does not fit on maps of 3×8×8"),
    ([conv("a", 0, groups=2)], "node 'a': groups must divide the input channels"),
    (
        [conv("a", 0), Node("b", Add(), (0, 1))],
        "node 'b': the inputs of Add must be maps or tokens of one shape. These are 3×8×8",
    ),
    ([conv("a", 0), Node("b", Add(), (1, 1, 1))], "node 'b': Add has two inputs. This one has 3"),
    ([conv("a", 0, stride=2), Node("b", Concat(), (0, 1))], "node 'b': the inputs of Concat must have one height"),
    ([Node("a", Concat(), (0,))], "node 'a': Concat has at least two inputs"),
    ([Node("a", Relu(), (0, 0))], "node 'a': Relu must have one input. This one has 2"),
    (
        [Node("a", GlobalAveragePooling(), (0,)), conv("b", 1)],
        "node 'b': the input of Convolution must be maps",
    ),
    ([Node("a", Dense(3), (0,))], "node 'a': the input of Dense must be a vector or tokens. It is maps of 3×8×8"),
]


@pytest.mark.parametrize(("body", "offence"), ILLEGAL_BODIES)
def test_an_illegal_graph_cannot_be_constructed(body: list[Node], offence: str) -> None:
    with pytest.raises(IllegalGraph) as raised:
        closed(*body)

    assert offence in str(raised.value)
    assert ". " in str(raised.value)  # a second sentence has the value or the remedy


def test_a_graph_begins_with_the_image_and_ends_with_the_softmax() -> None:
    legal = closed(conv("a", 0))

    with pytest.raises(IllegalGraph, match="first node must be the Input or TokenInput"):
        Graph(legal.nodes[1:])
    with pytest.raises(IllegalGraph, match="last node must be the Softmax"):
        Graph(legal.nodes[:-1])
    with pytest.raises(IllegalGraph, match=r"the input of the Softmax must be a Dense. It is 'head.pool'"):
        Graph((*legal.nodes[:-2], replace(legal.nodes[-1], inputs=(2,))))
    with pytest.raises(IllegalGraph, match="from 4 to 10000 nodes"):
        Graph(())


@pytest.mark.parametrize("name", ["", "Conv", "a..b", ".a", "a.", "1a", "a b", "ä", "a" * 121, "a\n"])
def test_a_name_is_lower_case_segments_parted_by_dots(name: str) -> None:
    with pytest.raises(IllegalGraph, match="a name consists of segments of lower-case letters"):
        Node(name, Relu(), (0,))


@pytest.mark.parametrize("number", [0, -1, True, 1.0, float("nan"), "3", None, 65_537, 10**30])
def test_numbers_of_operations_are_whole_and_bounded(number: object) -> None:
    with pytest.raises(IllegalGraph, match="must be an integer from"):
        Convolution(number, 3)  # type: ignore[arg-type]
    with pytest.raises(IllegalGraph, match="must be an integer from"):
        Input(3, number, 8)  # type: ignore[arg-type]


@pytest.mark.parametrize("probability", [1.0, -0.1, float("nan"), float("inf"), 0, True])
def test_a_dropout_probability_is_a_float_below_one(probability: float) -> None:
    with pytest.raises(IllegalGraph, match="probability must be a float"):
        Dropout(probability)


def test_a_pooling_is_padded_by_half_its_window_at_most() -> None:
    assert MaxPooling(3, 2, 1).padding == 1
    with pytest.raises(IllegalGraph, match="padding must be an integer from 0 to 1"):
        AveragePooling(3, 2, 2)


def test_groups_divide_the_channels_that_leave() -> None:
    with pytest.raises(IllegalGraph, match="2 does not divide 3"):
        Convolution(3, 1, groups=2)


def test_a_graph_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        start("digits_small").nodes = ()  # type: ignore[misc]


@given(graphs())
@settings(deadline=None)
def test_a_fingerprint_ignores_names_and_equality_does_not(graph: Graph) -> None:
    renamed = Graph(tuple(replace(node, name=f"other{index}") for index, node in enumerate(graph.nodes)))

    assert renamed.fingerprint == graph.fingerprint
    assert renamed != graph
    assert Graph(graph.nodes) == graph and hash(Graph(graph.nodes)) == hash(graph)


def test_drawn_networks_contain_every_operation() -> None:
    drawn: set[type[Op]] = set()

    @settings(max_examples=100, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(graphs())
    def look(graph: Graph) -> None:
        drawn.update(type(node.op) for node in graph.nodes)

    @settings(max_examples=1, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(token_graphs())
    def look_at_tokens(graph: Graph) -> None:
        drawn.update(type(node.op) for node in graph.nodes)

    look()
    look_at_tokens()

    assert drawn == set(Op.__args__)


OPS: list[Op] = [
    Relu(),
    BatchNormalisation(),
    Dropout(0.5),
    Dropout(0.25),
    *(Convolution(3, kernel, padding=kernel // 2, groups=groups) for kernel in (1, 3) for groups in (1, 3)),
    MaxPooling(3, 1, 1),
    AveragePooling(3, 1, 1),
]


def test_fingerprint_depends_on_every_operation_number_and_edge() -> None:
    by_op = {closed(Node("a", op, (0,))).fingerprint for op in OPS}
    by_wire = {
        closed(conv("a", 0, 3), conv("b", 1, 3), Node("c", Add(), wires)).fingerprint
        for wires in ((2, 1), (2, 0), (1, 2), (2, 2))
    }
    by_image = {
        start("resnet20", image=image, channels=channels).fingerprint for image in (16, 32) for channels in (1, 3)
    }

    assert (len(by_op), len(by_wire), len(by_image)) == (len(OPS), 4, 4)


def test_fingerprints_equal_the_recorded_ones() -> None:
    # journals name architectures by them: a change here needs a new journal version
    assert start("resnet50_v1").fingerprint == "7ec37d5837b4732142682dab0f413144"
    assert closed(conv("a", 0)).fingerprint == "d6a9aa798145e7da1fe6d34d52e8f336"


@given(graphs())
@settings(deadline=None)
def test_a_graph_is_pickled_without_derived_values(graph: Graph) -> None:
    before = len(pickle.dumps(graph))
    assert graph.fingerprint and graph.readers and graph.reads_image

    assert pickle.loads(pickle.dumps(graph)) == graph
    assert len(pickle.dumps(graph)) == before


def test_shapes_follow_the_windows() -> None:
    graph = start("resnet50_v1")
    shape_of = {node.name: shape for node, shape in zip(graph.nodes, graph.shapes, strict=True)}

    assert shape_of["stem.conv"] == Map(64, 112, 112)
    assert shape_of["stem.pool"] == Map(64, 56, 56)
    assert shape_of["stage4.block3.relu"] == Map(2048, 7, 7)
    assert str(shape_of["head.pool"]) == "2048"
