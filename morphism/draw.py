"""Drawing of a network as SVG, from top to bottom, with one box for each fused unit.

The longest path is in lane 0, branches are in lanes to its right. An edge over several layers without a unit is on a track to
its left.
"""

from collections.abc import Collection
from dataclasses import dataclass
from html import escape
from typing import assert_never

from morphism import ops
from morphism.axes import is_depthwise
from morphism.cost import cost
from morphism.graph import Graph
from morphism.ops import Add, BatchNormalisation, Convolution, Relu
from morphism.shapes import Map


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes drawn as one box: a convolution with normalisation and ReLU, or a sum with its ReLU, without other readers."""

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    """Input units of the first node, in its order."""
    layer: int
    lane: int


@dataclass(frozen=True, slots=True)
class EdgeTrack:
    """Long edge between two units of lane 0, drawn to their left."""

    source: int
    target: int
    track: int


@dataclass(frozen=True, slots=True)
class Layout:
    units: tuple[Unit, ...]
    tracks: tuple[EdgeTrack, ...]

    @property
    def layers(self) -> int:
        return 1 + max(unit.layer for unit in self.units)

    @property
    def lanes(self) -> int:
        return 1 + max(unit.lane for unit in self.units)


def layout(graph: Graph) -> Layout:
    """Return the layout of a graph. Equal graphs have equal layouts."""
    fused = _fused(graph)
    unit_of = {node: number for number, nodes in enumerate(fused) for node in nodes}
    inputs = [tuple([unit_of[entering] for entering in graph.nodes[nodes[0]].inputs]) for nodes in fused]
    layers: list[int] = []
    for entering in inputs:
        layers.append(1 + max([layers[unit] for unit in entering], default=-1))
    spine = {len(fused) - 1}
    at = len(fused) - 1
    while inputs[at]:
        at = max(inputs[at], key=lambda unit: layers[unit])
        spine.add(at)
    lanes = _lanes(inputs, layers, spine)
    long = [
        (layers[source], layers[target], source, target)
        for target in sorted(spine)
        for source in dict.fromkeys(inputs[target])
        if source in spine and layers[target] - layers[source] > 1
    ]
    # short edges first, so that they are nearest to the units
    long.sort(key=lambda edge: (edge[1] - edge[0], edge))
    tracks = _packed([(begin, end) for begin, end, _, _ in long])
    return Layout(
        tuple([Unit(*placed) for placed in zip(fused, inputs, layers, lanes, strict=True)]),
        tuple([EdgeTrack(source, target, track) for (_, _, source, target), track in zip(long, tracks, strict=True)]),
    )


def _fused(graph: Graph) -> list[tuple[int, ...]]:
    taken: set[int] = set()
    fused: list[tuple[int, ...]] = []
    for index, node in enumerate(graph.nodes):
        if index in taken:
            continue
        unit = [index]
        if isinstance(node.op, Convolution):
            _take(graph, unit, BatchNormalisation)
        if isinstance(node.op, Convolution | BatchNormalisation | Add):
            _take(graph, unit, Relu)
        taken.update(unit)
        fused.append(tuple(unit))
    return fused


def _take(graph: Graph, unit: list[int], kind: type[BatchNormalisation | Relu]) -> None:
    readers = graph.readers[unit[-1]]
    if len(readers) == 1 and isinstance(graph.nodes[readers[0]].op, kind):
        unit.append(readers[0])


def _lanes(inputs: list[tuple[int, ...]], layers: list[int], spine: set[int]) -> list[int]:
    chain_of: dict[int, int] = {}
    chains: list[list[int]] = []
    for unit, entering in enumerate(inputs):
        if unit in spine:
            continue
        for before in entering:
            if before in chain_of and chains[chain_of[before]][-1] == before:
                chain_of[unit] = chain_of[before]
                chains[chain_of[before]].append(unit)
                break
        else:
            chain_of[unit] = len(chains)
            chains.append([unit])
    # a chain uses its lane from the layer where it branches off to the layer where it joins
    begins = [min(layers[before] for before in inputs[chain[0]]) for chain in chains]
    ends = [layers[chain[-1]] for chain in chains]
    for unit, entering in enumerate(inputs):
        for before in entering:
            if before in chain_of:
                ends[chain_of[before]] = max(ends[chain_of[before]], layers[unit])
    packed = _packed(list(zip(begins, ends, strict=True)))
    return [0 if unit in spine else 1 + packed[chain_of[unit]] for unit in range(len(inputs))]


def _packed(intervals: list[tuple[int, int]]) -> list[int]:
    """Return for each interval the first row in which it overlaps no earlier interval. Ends may touch."""
    rows: list[list[tuple[int, int]]] = []
    placed = []
    for begin, end in intervals:
        free = [all(end <= other_begin or other_end <= begin for other_begin, other_end in others) for others in rows]
        row = free.index(True) if True in free else len(rows)
        if row == len(rows):
            rows.append([])
        rows[row].append((begin, end))
        placed.append(row)
    return placed


# all in pixels
_BOX, _HEIGHT, _ROW = 214, 38, 62
_LANE = _BOX + 36
_TRACK = 14
_LEFT, _TOP = 86, 92
_CORNER = 7

_STYLE = """
text { font: 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1b2733; }
.title { font-size: 18px; font-weight: 600; } .small { font-size: 10px; fill: #5a6b7b; }
.size { font-size: 12px; font-weight: 600; fill: #5a6b7b; }
.band { fill: #f3f6f9; } .edge { fill: none; stroke: #7b8b9a; stroke-width: 1.4; }
.new-edge { stroke: #d9480f; stroke-width: 1.8; } .tip { fill: #7b8b9a; } .new-tip { fill: #d9480f; }
rect.unit { stroke: #8fa3b5; fill: #ffffff; } rect.conv { fill: #dcebfa; stroke: #6f9fce; }
rect.sum { fill: #eef0f2; } rect.pool { fill: #dff3e4; stroke: #7dbb8f; } rect.dense { fill: #ece3f8; stroke: #a288cf; }
rect.new { fill: #ffe3cc; stroke: #d9480f; stroke-width: 2; }
"""


def svg(graph: Graph, *, title: str = "", highlight: Collection[str] = ()) -> str:
    """Return an SVG document of the graph on white, with the nodes named in `highlight` (for example added ones) in orange.

    Boxes show kernel, stride, channels and output maps. Bands show the size of the maps.
    """
    placed = layout(graph)
    tracks = 1 + max((track.track for track in placed.tracks), default=-1)
    left = _LEFT + _TRACK * (tracks + 1)
    width = max(left + _LANE * placed.lanes, 560)
    height = _TOP + _ROW * placed.layers + 12
    new = [any(graph.nodes[node].name in highlight for node in unit.nodes) for unit in placed.units]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img">',
        f"<title>{escape(title or 'network')}</title><style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_head(graph, title, is_highlighted=any(new)),
        *_bands(graph, placed, width),
        *_edges(placed, left, new),
        *(_box(graph, unit, left, is_new=is_new) for unit, is_new in zip(placed.units, new, strict=True)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _head(graph: Graph, title: str, *, is_highlighted: bool) -> list[str]:
    counted = cost(graph)
    figures = (
        f"{len(graph.nodes)} nodes · {counted.parameters:,} parameters · "
        f"{counted.forward_flops:,} forward operations per image"
    )
    head = [
        f'<text class="title" x="16" y="30">{escape(title or "network")}</text>',
        f'<text class="small" x="16" y="48">{figures}</text>',
        '<text class="small" x="16" y="64">conv kernel /stride · channels; below: first node, output maps</text>',
    ]
    if is_highlighted:
        head.append(
            '<rect class="new" x="16" y="72" width="12" height="12" rx="3"/>'
            '<text class="small" x="34" y="82">added or changed by morphs</text>'
        )
    return head


def _bands(graph: Graph, placed: Layout, width: int) -> list[str]:
    """Return background bands, one for each sequence of layers of lane 0 with maps of one size."""
    stretches: list[tuple[str, int, int]] = []
    for unit in sorted((unit for unit in placed.units if unit.lane == 0), key=lambda unit: unit.layer):
        shape = graph.shapes[unit.nodes[-1]]
        size = f"{shape.height}×{shape.width}" if isinstance(shape, Map) else "vector"
        if stretches and stretches[-1][0] == size:
            stretches[-1] = (size, stretches[-1][1], unit.layer)
        else:
            stretches.append((size, unit.layer, unit.layer))
    bands = []
    for number, (size, first, last) in enumerate(stretches):
        y = _y(first) - (_ROW - _HEIGHT) // 2
        if number % 2 == 0:
            bands.append(f'<rect class="band" x="0" y="{y}" width="{width}" height="{_ROW * (last - first + 1)}"/>')
        bands.append(f'<text class="size" x="12" y="{_y(first) + 24}">{size}</text>')
    return bands


def _edges(placed: Layout, left: int, new: list[bool]) -> list[str]:
    on_track = {(track.source, track.target): track.track for track in placed.tracks}
    edges = []
    for target, unit in enumerate(placed.units):
        for source in dict.fromkeys(unit.inputs):
            # an edge is new if it begins or ends a new branch, not if it only meets one
            is_new = (new[source] and placed.units[source].lane > 0) or (new[target] and unit.lane > 0)
            if (source, target) in on_track:
                edges.append(_beside(placed, source, target, left, on_track[source, target]))
            else:
                edges.append(_direct(placed.units[source], unit, left, is_new=is_new))
    return edges


def _beside(placed: Layout, source: int, target: int, left: int, track: int) -> str:
    x, begin = left - _TRACK * (track + 1), _y(placed.units[source].layer) + _HEIGHT - 8
    end, r = _y(placed.units[target].layer) + 10, _CORNER
    path = (
        f"M {left} {begin} H {x + r} Q {x} {begin} {x} {begin + r} V {end - r} Q {x} {end} {x + r} {end} H {left - 6}"
    )
    tip = f'<path class="tip" d="M {left} {end} l -7 -4 v 8 z"/>'
    return f'<path class="edge" d="{path}"/>{tip}'


def _direct(source: Unit, target: Unit, left: int, *, is_new: bool) -> str:
    begin, end = _y(source.layer) + _HEIGHT, _y(target.layer)
    from_x, to_x = _x(left, source) + _BOX // 2, _x(left, target) + _BOX // 2
    if source.lane == target.lane:
        path = f"M {from_x} {begin} V {end - 6}"
    else:
        # to the outer lane, down, and back in the gap above the target
        outer = max(from_x, to_x)
        if to_x == outer:
            from_x += 30
            path = f"M {from_x} {begin} V {begin + 9} H {outer} V {end - 6}"
        else:
            to_x += 30 + 16 * (source.lane - 1)
            path = f"M {outer} {begin} V {end - 13} H {to_x} V {end - 6}"
    line, tip = ("edge new-edge", "new-tip") if is_new else ("edge", "tip")
    return f'<path class="{line}" d="{path}"/><path class="{tip}" d="M {to_x} {end} l -4 -7 h 8 z"/>'


def _box(graph: Graph, unit: Unit, left: int, *, is_new: bool) -> str:
    x, y = _x(left, unit), _y(unit.layer)
    kind = _kind(graph, unit)
    radius = _HEIGHT // 2 if kind == "sum" else 5
    name = graph.nodes[unit.nodes[0]].name
    shown = name if len(name) <= 24 else f"…{name[-23:]}"
    names = escape(", ".join(graph.nodes[node].name for node in unit.nodes))
    return (
        f'<g><title>{names}</title><rect class="unit {kind}{" new" if is_new else ""}" x="{x}" y="{y}" '
        f'width="{_BOX}" height="{_HEIGHT}" rx="{radius}"/>'
        f'<text x="{x + _BOX // 2}" y="{y + 16}" text-anchor="middle">{escape(_label(graph, unit))}</text>'
        f'<text class="small" x="{x + 14}" y="{y + 31}">{escape(shown)}</text>'
        f'<text class="small" x="{x + _BOX - 14}" y="{y + 31}" text-anchor="end">{graph.shapes[unit.nodes[-1]]}</text></g>'
    )


def _label(graph: Graph, unit: Unit) -> str:
    return " · ".join(_word(graph, node) for node in unit.nodes)


def _word(graph: Graph, index: int) -> str:
    op = graph.nodes[index].op
    match op:
        case ops.Convolution():
            stride = f" /{op.stride}" if op.stride > 1 else ""
            groups = f" in {op.groups} groups" if op.groups > 1 else ""
            if is_depthwise(op, graph.shapes[graph.nodes[index].inputs[0]]):
                groups = " depthwise"
            return f"conv {op.kernel}×{op.kernel}{stride} · {op.out_channels}{groups}"
        case ops.BatchNormalisation():
            return "bn"
        case ops.Relu():
            return "relu"
        case ops.Add():
            return "add"
        case ops.Concat():
            return "concat"
        case ops.MaxPooling():
            return f"max-pool {op.kernel}×{op.kernel} /{op.stride}"
        case ops.AveragePooling():
            return f"average-pool {op.kernel}×{op.kernel} /{op.stride}"
        case ops.GlobalAveragePooling():
            return "global average-pool"
        case ops.Dense():
            return f"dense · {op.out_features}"
        case ops.Dropout():
            return f"dropout {op.probability:g}"
        case ops.Softmax():
            return "softmax"
        case ops.Input():
            return "image"
        case _:
            assert_never(op)


def _kind(graph: Graph, unit: Unit) -> str:
    match graph.nodes[unit.nodes[0]].op:
        case ops.Convolution():
            return "conv"
        case ops.Add() | ops.Concat():
            return "sum"
        case ops.MaxPooling() | ops.AveragePooling() | ops.GlobalAveragePooling():
            return "pool"
        case ops.Dense():
            return "dense"
        case _:
            return "plain"


def _x(left: int, unit: Unit) -> int:
    return left + _LANE * unit.lane


def _y(layer: int) -> int:
    return _TOP + (_ROW - _HEIGHT) // 2 + _ROW * layer
