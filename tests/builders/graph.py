"""Hypothesis strategies for graphs, morphs and budgets, for the tests of every floor."""

from hypothesis import strategies as st

from morphism import (
    Add,
    Attention,
    AveragePooling,
    BatchNormalisation,
    Budget,
    Concat,
    Convolution,
    Dense,
    Dropout,
    GatedMlp,
    GlobalAveragePooling,
    Graph,
    Input,
    Lineage,
    Map,
    MaxPooling,
    Morph,
    Node,
    Op,
    Relu,
    Softmax,
    TokenInput,
    apply,
    legal,
)
from morphism.shapes import output_shape
from morphism.transformer import language_model

PLAIN: tuple[Op, ...] = (Relu(), BatchNormalisation(), Dropout(0.5), Dropout(0.0))
NO_LIMIT = Budget(forward_flops=None, parameters=None, memory_bytes=None)


@st.composite
def graphs(draw: st.DrawFn, *, is_grouped: bool = True, most_layers: int = 10) -> Graph:
    """Small legal networks of every operation: units, residuals, concatenations, poolings, dropout.

    `is_grouped`: whether depthwise and grouped convolutions may occur.
    """
    building = _Building(draw(st.integers(1, 4)), draw(st.integers(4, 9)), draw(st.integers(4, 9)))
    building.convolution(draw(st.sampled_from((2, 4, 6))), draw(st.sampled_from((1, 3, 5))), 1)
    building.add(BatchNormalisation(), Relu())
    for _ in range(draw(st.integers(0, most_layers))):
        kinds = ["unit", "bare", "join", "pool", "plain"] + (["groups"] if is_grouped else [])
        match draw(st.sampled_from(kinds)):
            case "unit":
                kernel, stride = draw(st.sampled_from((1, 3, 5))), draw(st.sampled_from((1, 1, 2)))
                building.convolution(draw(st.sampled_from((2, 3, 4, 6))), kernel, stride)
                building.add(BatchNormalisation(), Relu())
            case "bare":
                building.convolution(draw(st.sampled_from((2, 4, 6))), draw(st.sampled_from((1, 2, 3))), 1)
            case "join":
                building.join(draw)
            case "pool":
                kernel = draw(st.integers(2, 3))
                stride = draw(st.integers(1, 2))
                poolings: tuple[Op, Op] = MaxPooling(kernel, stride, 1), AveragePooling(kernel, stride, 1)
                building.add(draw(st.sampled_from(poolings)))
            case "plain":
                building.add(draw(st.sampled_from(PLAIN)))
            case "groups":
                channels = building.shape.channels
                of = draw(st.sampled_from([groups for groups in range(1, channels + 1) if channels % groups == 0]))
                building.add(Convolution(channels, 3, padding=1, groups=of), BatchNormalisation())
    return building.classified(draw(st.integers(2, 4)))


@st.composite
def token_graphs(draw: st.DrawFn, *, least_blocks: int = 1) -> Graph:
    """Small language models."""
    return language_model(
        TokenInput(draw(st.integers(2, 9)), draw(st.integers(1, 7))),
        draw(st.integers(1, 9)),
        draw(st.integers(least_blocks, 3)),
        Attention(draw(st.integers(1, 3)), draw(st.sampled_from((2, 4, 6)))),
        GatedMlp(draw(st.integers(1, 20))),
    )


@st.composite
def grown(draw: st.DrawFn, start: Graph, *, most_morphs: int = 6, budget: Budget | None = None) -> Lineage:
    """Lineages from a start: up to `most_morphs` legal morphs, the four kinds as likely as each other."""
    graph, lineage = start, Lineage(start)
    limit = Budget.of(start, factor=16) if budget is None else budget
    for _ in range(draw(st.integers(0, most_morphs))):
        morph = draw(morphs(graph, limit))
        if morph is None:
            break
        graph, _plan = apply(graph, morph)
        lineage = lineage.then(morph)
    return lineage


def morphs(graph: Graph, budget: Budget = NO_LIMIT) -> st.SearchStrategy[Morph | None]:
    """Draw a kind of legal morph and then a morph of it, since most legal morphs are skips. None if none is legal."""
    by_kind: dict[type[Morph], list[Morph]] = {}
    for morph in legal(graph, budget):
        by_kind.setdefault(type(morph), []).append(morph)
    if not by_kind:
        return st.none()
    return st.one_of([st.sampled_from(alike) for alike in by_kind.values()])


class _Building:
    """An unfinished graph. Every layer reads the previous one, so that each output has a reader."""

    def __init__(self, channels: int, height: int, width: int) -> None:
        self._nodes = [Node("image", Input(channels, height, width))]
        self._shapes: list[Map] = [Map(channels, height, width)]

    @property
    def shape(self) -> Map:
        return self._shapes[-1]

    def add(self, *ops: Op) -> None:
        for op in ops:
            self._add(op, len(self._nodes) - 1)

    def _add(self, op: Op, *inputs: int) -> None:
        shape = output_shape(op, tuple(self._shapes[entering] for entering in inputs))
        assert isinstance(shape, Map)
        self._nodes.append(Node(f"layer{len(self._nodes)}.{type(op).__name__.lower()}", op, inputs))
        self._shapes.append(shape)

    def convolution(self, channels: int, kernel: int, stride: int) -> None:
        kernel = kernel if kernel % 2 or min(self.shape.height, self.shape.width) >= kernel else 1
        self.add(Convolution(channels, kernel, stride, (kernel - 1) // 2))

    def join(self, draw: st.DrawFn) -> None:
        last = self.shape
        alike = [index for index, shape in enumerate(self._shapes) if shape == last]
        sized = [
            index
            for index, shape in enumerate(self._shapes)
            if (shape.height, shape.width) == (last.height, last.width) and shape.channels + last.channels <= 12
        ]
        here = len(self._nodes) - 1
        is_sum: bool = not sized or draw(st.booleans())
        self._add(Add() if is_sum else Concat(), here, draw(st.sampled_from(alike if is_sum else sized)))
        is_activated: bool = draw(st.booleans())
        if is_activated:
            self.add(Relu())

    def classified(self, classes: int) -> Graph:
        here = len(self._nodes)
        head = (
            Node("head.pool", GlobalAveragePooling(), (here - 1,)),
            Node("head.dense", Dense(classes), (here,)),
            Node("head.softmax", Softmax(), (here + 1,)),
        )
        return Graph((*self._nodes, *head))
