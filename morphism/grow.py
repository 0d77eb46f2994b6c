"""Growth of a network by morphs (changes that keep its function), without weights, and errors for illegal morphs.

Added nodes are named after the kind of morph and the first free number ('deepen3.conv'), because equal morphs on equal graphs
must give equal names. Only the site is checked, since a legal morph keeps a graph legal.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from morphism import sites
from morphism.axes import Axes, axes, is_depthwise
from morphism.cost import hand_on_sums, held
from morphism.graph import Graph, Node, hand_on, hand_on_nodes, known, remember
from morphism.morphs import Deepen, Heads, Kernel, Morph, Skip, Widen
from morphism.ops import Add, Attention, BatchNormalisation, Convolution, GatedMlp, Op, Relu, Residual
from morphism.shapes import Map, Shape, Vector
from morphism.transformer import block, residuals, sizes_at


class IllegalMorph(ValueError):
    """Error for a morph that cannot be applied to this graph. The message names the reason and the legal sites."""


def grow(graph: Graph, morph: Morph) -> Graph:
    """Return the graph after the morph, without weights. The seed of a Widen (a morph that adds channels) has no effect.

    Raise IllegalMorph if the morph does not fit the structure of the graph. Limits of the cost are not checked.
    """
    match morph:
        case Deepen():
            return _deepened(graph, morph)
        case Widen():
            return _widened(graph, morph)
        case Skip():
            return _skipped(graph, morph)
        case Kernel():
            return enlarge(graph, (morph,))
        case Heads():
            return _resized(graph, morph.attention, Attention, morph.heads)
        case _:
            assert_never(morph)


def enlarge(graph: Graph, kernels: Sequence[Kernel]) -> Graph:
    """Return the graph after several Kernel morphs (larger kernels of convolutions) in one step.

    `kernels`: at most one morph per convolution. Raise IllegalMorph if a convolution is unknown, cannot grow or cannot have
    that kernel.
    """
    changed: dict[int, Op] = {}
    for morph in kernels:
        offence = "only odd kernels from 3 on grow, up to 7, and not of a convolution that reads the image"
        index = _site(graph, "enlarge", morph.convolution, sites.kernel_sites(graph), offence)
        op = graph.nodes[index].op
        assert isinstance(op, Convolution) and index not in changed
        if morph.kernel not in sites.larger_kernels(op.kernel):
            raise IllegalMorph(
                f"cannot enlarge {morph.convolution!r} from kernel {op.kernel} to {morph.kernel!r}. "
                f"Legal sizes: {', '.join(map(str, sites.larger_kernels(op.kernel)))}"
            )
        # the padding grows with the kernel, so that the output maps keep their size
        padding = op.padding + (morph.kernel - op.kernel) // 2
        changed[index] = Convolution(op.out_channels, morph.kernel, op.stride, padding, op.groups)
    grown = _replaced(graph, changed, {})
    hand_on(graph, grown, (), (axes, sites.shape_numbers))
    return grown


def free_folder(graph: Graph, kind: str) -> str:
    """Return a common prefix for the names of added nodes: `kind` and the first unused number. 'deepen3' gives 'deepen3.relu'.

    `kind`: word for the kind of the change, 'deepen' or 'skip'.
    """
    number = 1
    while f"{kind}{number}" in graph.heads:
        number += 1
    return f"{kind}{number}"


def _deepened(graph: Graph, morph: Deepen) -> Graph:
    is_of_tokens = sites.is_of_tokens(graph)
    offence = "it is neither the embedding nor the last sum of a block" if is_of_tokens else "it is no ReLU on maps"
    after = _site(graph, "deepen after", morph.after, sites.deepen_sites(graph), offence)
    folder = free_folder(graph, "deepen")
    if (sizes := sizes_at(graph, after)) is not None:
        return _spliced(graph, after, graph.shapes[after], *block(folder, after, after + 1, *sizes))
    joined = _map(graph, after)
    return _spliced(
        graph,
        after,
        joined,
        Node(f"{folder}.conv", Convolution(joined.channels, 3, padding=1), (after,)),
        Node(f"{folder}.norm", BatchNormalisation(), (after + 1,)),
        Node(f"{folder}.relu", Relu(), (after + 2,)),
    )


def _skipped(graph: Graph, morph: Skip) -> Graph:
    offence = "it is no activation (a ReLU or a pooling that gives maps)"
    source = _site(graph, "skip from", morph.source, sites.skip_sources(graph), offence)
    offence = "it is no pre-activation (a batch normalisation, sum or convolution that a ReLU reads)"
    target = _site(graph, "skip to", morph.target, sites.skip_targets(graph), offence)
    entering, joined = _map(graph, source), _map(graph, target)
    refusal = f"cannot skip from {morph.source!r} to {morph.target!r}: "
    if source >= target:
        raise IllegalMorph(f"{refusal}a skip must lead forward. Choose a source before the target")
    span = sites.depths(graph)[target] - sites.depths(graph)[source] + 1
    if not 1 <= span <= sites.LONGEST_SKIP:
        raise IllegalMorph(f"{refusal}it spans {span} blocks. Legal are 1 to {sites.LONGEST_SKIP}")
    if source in sites.branches(graph).get(target, frozenset()):
        raise IllegalMorph(f"{refusal}this skip exists. Choose another source or target")
    stride = sites.skip_stride(entering, joined)
    if stride is None:
        raise IllegalMorph(
            f"{refusal}no stride reduces maps of {entering} to {joined}. Choose sizes with an integer ratio"
        )
    folder = free_folder(graph, "skip")
    return _spliced(
        graph,
        target,
        joined,
        Node(f"{folder}.conv", Convolution(joined.channels, 1, stride=stride), (source,)),
        Node(f"{folder}.norm", BatchNormalisation(), (target + 1,)),
        Node(f"{folder}.add", Add(), (target, target + 2)),
    )


def _widened(graph: Graph, morph: Widen) -> Graph:
    index = graph.indices.get(morph.convolution)
    if sites.is_of_tokens(graph):
        return _resized(graph, morph.convolution, GatedMlp, morph.channels)
    offence = "" if index is None else sites.why_not_widened(graph, index)
    if offence is not None:
        _site(graph, "widen", morph.convolution, sites.widen_sites(graph), offence)
    assert index is not None
    channel_axes = axes(graph)
    widened = channel_axes.segments[index][0]
    axis = channel_axes.axes[widened]
    most = sites.most_channels(graph, widened)
    if type(morph.channels) is not int or not axis.channels < morph.channels <= most:
        raise IllegalMorph(
            f"cannot widen {morph.convolution!r} from {axis.channels} channels to {morph.channels!r}. "
            f"Legal are {axis.channels + 1} to {most}"
        )
    changed: dict[int, Op] = {}
    shapes: dict[int, Shape] = {}
    for carrier in axis.carriers:
        op, shape = graph.nodes[carrier].op, graph.shapes[carrier]
        # after a Concat an output has several axes: this axis grows at each of its positions
        more = channel_axes.segments[carrier].count(widened) * (morph.channels - axis.channels)
        if isinstance(shape, Vector):
            shapes[carrier] = Vector(shape.features + more)
            continue
        assert isinstance(shape, Map)
        channels = shape.channels + more
        shapes[carrier] = Map(channels, shape.height, shape.width)
        if isinstance(op, Convolution):
            groups = channels if is_depthwise(op, graph.shapes[graph.nodes[carrier].inputs[0]]) else 1
            changed[carrier] = Convolution(channels, op.kernel, op.stride, op.padding, groups)
    grown = _replaced(graph, changed, shapes)
    wider = replace(axis, channels=morph.channels)
    every = (*channel_axes.axes[:widened], wider, *channel_axes.axes[widened + 1 :])
    remember(grown, axes, Axes(every, channel_axes.segments))
    hand_on(graph, grown, (), (sites.kernel_sites,))
    return grown


def _resized(graph: Graph, name: str, kind: type[Residual], size: int) -> Graph:
    """Return the graph with more heads of an Attention, or more hidden units of a GatedMlp."""
    index = _site(graph, "enlarge", name, sites.sites_of_size(graph, kind), f"it is no {kind.__name__}")
    op = graph.nodes[index].op
    assert isinstance(op, Residual)
    if type(size) is not int or not op.size < size <= op.largest_size:
        raise IllegalMorph(
            f"cannot enlarge {name!r} from size {op.size} to {size!r}. Legal are {op.size + 1} to {op.largest_size}"
        )
    grown = _replaced(graph, {index: op.of_size(size)}, {})
    hand_on(graph, grown, (), (axes, sites.shape_numbers))
    return grown


def _spliced(graph: Graph, after: int, shape: Shape, *added: Node) -> Graph:
    """Return the graph with nodes inserted after `after`. Its readers then read the last one. `shape`: output of each."""
    # later nodes move by `shift`, and so do the inputs of the readers of `after`
    shift = len(added)
    moved = [
        node.moved(tuple([entry + shift if entry >= after else entry for entry in node.inputs]))
        for node in graph.nodes[after + 1 :]
    ]
    grown = Graph.of_lawful(
        (*graph.nodes[: after + 1], *added, *moved),
        (*graph.shapes[: after + 1], *(shape,) * shift, *graph.shapes[after + 1 :]),
    )
    places = range(after + 1, after + 1 + shift)
    hand_on_nodes(graph, grown, places, at=after + 1, added=shift)
    hand_on_sums(graph, grown, places, added=shift)
    if (numbers := known(graph, sites.shape_numbers)) is not None:
        numbers = (*numbers[: after + 1], *(numbers[after],) * shift, *numbers[after + 1 :])
        remember(grown, sites.shape_numbers, numbers)
    return grown


def _replaced(graph: Graph, changed: dict[int, Op], shapes: dict[int, Shape]) -> Graph:
    nodes, leaving = list(graph.nodes), list(graph.shapes)
    for index, op in changed.items():
        nodes[index] = Node(nodes[index].name, op, nodes[index].inputs)
    for index, shape in shapes.items():
        leaving[index] = shape
    grown = Graph.of_lawful(tuple(nodes), tuple(leaving))
    hand_on(graph, grown, ("indices", "readers", "reads_image", "heads"), OF_STRUCTURE)
    affected = {*changed, *shapes, *[reader for index in shapes for reader in graph.readers[index]]}
    hand_on_nodes(graph, grown, affected)
    hand_on_sums(graph, grown, affected)
    return grown


OF_STRUCTURE = (
    held,
    residuals,
    sites.branches,
    sites.deepen_sites,
    sites.depths,
    sites.skip_sources,
    sites.skip_targets,
    sites.widen_sites,
)
"""Values that depend on names, inputs and kinds of operations only. A Widen and a Kernel change none of them."""


def _map(graph: Graph, index: int) -> Map:
    shape = graph.shapes[index]
    assert isinstance(shape, Map)
    return shape


def _site(graph: Graph, doing: str, name: str, legal: tuple[int, ...], offence: str) -> int:
    index = graph.indices.get(name)
    if index in legal:
        assert index is not None
        return index
    offence = offence if index is not None else "no node has this name"
    raise IllegalMorph(
        f"cannot {doing} {name!r}: {offence}. Legal nodes: {_listed(graph.nodes[s].name for s in legal)}"
    )


def _listed(names: Iterable[str], shown: int = 8) -> str:
    every = list(names)
    listed = ", ".join(map(repr, every[:shown])) or "nothing"
    return listed if len(every) <= shown else f"{listed} and {len(every) - shown} more"


GRAPHS_REMEMBERED = 512
"""Number of cached graphs. Proposals, checks and training use the same graphs. A ResNet-50 takes about 60 kB."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """A starting graph and the morphs applied to it, in order. Each morph names nodes of the graph after the earlier morphs."""

    start: Graph
    morphs: tuple[Morph, ...] = ()

    def then(self, morph: Morph) -> "Lineage":
        return Lineage(self.start, (*self.morphs, morph))


def rebuild(lineage: Lineage) -> Graph:
    """Return the graph after all morphs of a lineage (a starting graph and its morphs). Recent graphs are cached.

    Raise IllegalMorph if a morph does not fit the graph before it.
    """
    if not lineage.morphs:
        return lineage.start
    # the seed of a Widen affects only weights, not the graph
    morphs = tuple([replace(morph, seed=0) if isinstance(morph, Widen) else morph for morph in lineage.morphs])
    key = (lineage.start, morphs)
    if key in _rebuilt:
        _rebuilt.move_to_end(key)
        return _rebuilt[key]
    before = _rebuilt.get((lineage.start, morphs[:-1]))
    graph = _grown(lineage.start, morphs) if before is None else grow(before, morphs[-1])
    _rebuilt[key] = graph
    if len(_rebuilt) > GRAPHS_REMEMBERED:
        _rebuilt.popitem(last=False)
    return graph


def _grown(graph: Graph, morphs: tuple[Morph, ...]) -> Graph:
    kernels: dict[str, Kernel] = {}
    for morph in morphs:
        if isinstance(morph, Kernel) and morph.convolution not in kernels:
            kernels[morph.convolution] = morph
            continue
        if kernels:
            graph = enlarge(graph, tuple(kernels.values()))
            kernels = {}
        if isinstance(morph, Kernel):
            kernels[morph.convolution] = morph
        else:
            graph = grow(graph, morph)
    return enlarge(graph, tuple(kernels.values())) if kernels else graph


_rebuilt: OrderedDict[tuple[Graph, tuple[Morph, ...]], Graph] = OrderedDict()
