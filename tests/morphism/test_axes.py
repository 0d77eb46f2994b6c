"""Which channels grow together, and which cannot."""

from hypothesis import given, settings

from morphism import Add, BatchNormalisation, Concat, Convolution, Graph, Node, Relu, channels_of, start
from morphism.axes import Axis, axes
from tests.builders.graph import graphs
from tests.morphism.test_graph import closed, conv


def axis_of(graph: Graph, name: str) -> Axis:
    found = axes(graph)
    return found.axes[found.segments[graph.index(name)][0]]


def names(graph: Graph, nodes: tuple[int, ...]) -> set[str]:
    return {graph.nodes[node].name for node in nodes}


def test_summands_share_one_axis_through_a_whole_stage() -> None:
    graph = start("resnet18")

    shared = axis_of(graph, "stage2.block1.conv2")

    assert names(graph, shared.producers) == {
        "stage2.block1.conv2",
        "stage2.block1.conv_shortcut",
        "stage2.block2.conv2",
    }
    assert names(graph, shared.readers) == {
        "stage2.block2.conv1",
        "stage3.block1.conv1",
        "stage3.block1.conv_shortcut",
    }


def test_inside_a_block_a_convolution_has_an_axis_of_its_own() -> None:
    graph = start("resnet50_v1")

    own = axis_of(graph, "stage1.block1.conv1")

    assert names(graph, own.producers) == {"stage1.block1.conv1"}
    assert names(graph, own.readers) == {"stage1.block1.conv2"}


def test_a_depthwise_convolution_hands_the_axis_on() -> None:
    graph = closed(conv("a", 0), Node("b", Convolution(4, 3, padding=1, groups=4), (1,)), conv("c", 2))

    assert axis_of(graph, "a") == axis_of(graph, "b")
    assert names(graph, axis_of(graph, "a").producers) == {"a"}


def test_channels_in_groups_cannot_grow() -> None:
    graph = closed(conv("a", 0), Node("b", Convolution(4, 3, padding=1, groups=2), (1,)), conv("c", 2))

    for name in ("a", "b"):
        assert axis_of(graph, name).pinned == "the convolution 'b' divides them into 2 groups, which growth would tear"
    assert axis_of(graph, "c").pinned is None


def test_axes_of_image_and_classes_cannot_grow() -> None:
    graph = closed(conv("a", 0, 3), Node("b", Add(), (0, 1)))

    assert axis_of(graph, "image").pinned == axis_of(graph, "a").pinned == "its channels are the image's"
    assert axis_of(graph, "head.dense").pinned is not None


def test_joined_channels_keep_their_axes_side_by_side() -> None:
    graph = closed(
        conv("a", 0, 2), conv("b", 0, 3), Node("c", Concat(), (1, 2, 1)), Node("d", BatchNormalisation(), (3,))
    )
    found = axes(graph)
    a, b = (found.segments[graph.index(name)] for name in ("a", "b"))

    assert found.segments[graph.index("d")] == (*a, *b, *a)


def test_channels_added_to_channels_joined_otherwise_cannot_grow() -> None:
    graph = closed(
        conv("a", 0, 2), conv("b", 0, 2), Node("c", Concat(), (1, 2)), conv("d", 0, 4), Node("e", Add(), (3, 4))
    )

    assert {axis_of(graph, name).pinned for name in "abd"} == {"'e' adds them to channels that are joined otherwise"}


@given(graphs())
@settings(deadline=None)
def test_the_segments_of_a_node_are_its_channels(graph: Graph) -> None:
    found = axes(graph)

    for segments, shape in zip(found.segments, graph.shapes, strict=True):
        assert sum(found.axes[segment].channels for segment in segments) == channels_of(shape)


def test_a_relu_on_the_way_changes_nothing() -> None:
    graph = closed(conv("a", 0), Node("b", Relu(), (1,)))

    assert axis_of(graph, "a") == axis_of(graph, "b")
