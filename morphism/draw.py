"""Drawing of a network as SVG: one column of boxes, one for each group of fused layers, and arcs for other connections."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from html import escape

from morphism import ops
from morphism.cost import cost
from morphism.graph import Graph
from morphism.ops import Add, BatchNormalisation, Convolution, Relu

# all in pixels
_BOX, _HEIGHT, _ROW = 230, 38, 54
_LEFT, _TOP = 86, 92
_NARROWEST = 560

_STYLE = """
text { font: 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1b2733; }
.title { font-size: 18px; font-weight: 600; } .small { font-size: 10px; fill: #5a6b7b; }
.size { font-size: 12px; font-weight: 600; fill: #5a6b7b; }
.band { fill: #f3f6f9; } .edge { fill: none; stroke: #7b8b9a; stroke-width: 1.4; }
.new-edge { stroke: #d9480f; stroke-width: 1.8; } .tip { fill: #7b8b9a; } .new-tip { fill: #d9480f; }
rect.unit { stroke: #8fa3b5; fill: #ffffff; } rect.conv { fill: #dcebfa; stroke: #6f9fce; }
rect.sum { fill: #eef0f2; } rect.pool { fill: #dff3e4; stroke: #7dbb8f; } rect.dense { fill: #ece3f8; stroke: #a288cf; }
rect.attention { fill: #fdf0cf; stroke: #cda75a; }
rect.new { fill: #ffe3cc; stroke: #d9480f; stroke-width: 2; }
"""

_SHOWN: dict[type[ops.Op], tuple[str, str]] = {
    ops.Input: ("plain", "image"),
    ops.Convolution: ("conv", "conv {0.kernel}×{0.kernel} /{0.stride} · {0.out_channels}"),
    ops.BatchNormalisation: ("plain", "bn"),
    ops.Relu: ("plain", "relu"),
    ops.Add: ("sum", "add"),
    ops.Concat: ("sum", "concat"),
    ops.MaxPooling: ("pool", "max-pool {0.kernel}×{0.kernel} /{0.stride}"),
    ops.AveragePooling: ("pool", "average-pool {0.kernel}×{0.kernel} /{0.stride}"),
    ops.GlobalAveragePooling: ("pool", "global average-pool"),
    ops.Dense: ("dense", "dense · {0.out_features}"),
    ops.Dropout: ("plain", "dropout {0.probability:g}"),
    ops.Softmax: ("plain", "softmax"),
    ops.TokenInput: ("plain", "tokens · {0.vocabulary}"),
    ops.Embedding: ("dense", "embedding · {0.features}"),
    ops.RmsNorm: ("plain", "rms norm"),
    ops.Attention: ("attention", "attention · {0.heads} heads of {0.head_features}"),
    ops.GatedMlp: ("dense", "gated mlp · {0.hidden}"),
}
"""Style class of a box and text of an operation, by the kind of operation."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Nodes of a graph that are drawn as one box.

    A box is a convolution with normalisation and ReLU, a sum with its ReLU, or a single node. Fused nodes have no other
    readers.
    """

    nodes: tuple[int, ...]
    """Indices of the nodes in the graph."""
    inputs: tuple[int, ...]
    """Indices of the units that the first node reads, without repetition."""


def units(graph: Graph) -> tuple[Unit, ...]:
    """Return the boxes of a drawing, from top to bottom. A box is a group of fused nodes, or one node.

    The inputs of a box are earlier boxes.
    """
    of: dict[int, int] = {}
    boxes: list[Unit] = []
    for index, node in enumerate(graph.nodes):
        if index in of:
            continue
        fused = [index]
        if isinstance(node.op, Convolution):
            _fuse(graph, fused, BatchNormalisation)
        if isinstance(node.op, Convolution | BatchNormalisation | Add):
            _fuse(graph, fused, Relu)
        of |= dict.fromkeys(fused, len(boxes))
        boxes.append(Unit(tuple(fused), tuple(dict.fromkeys([of[entering] for entering in node.inputs]))))
    return tuple(boxes)


def _fuse(graph: Graph, fused: list[int], kind: type[BatchNormalisation | Relu]) -> None:
    readers = graph.readers[fused[-1]]
    if len(readers) == 1 and isinstance(graph.nodes[readers[0]].op, kind):
        fused.append(readers[0])


def svg(graph: Graph, *, title: str = "", highlight: Collection[str] = ()) -> str:
    """Return a drawing of the graph as the text of an SVG document, on white.

    `title`: heading, 'network' if empty. `highlight`: names of the nodes in orange, for example added ones. Boxes show
    kernel, stride, channels and output maps. Bands show the size of the maps.
    """
    boxes = units(graph)
    new = [any(graph.nodes[node].name in highlight for node in unit.nodes) for unit in boxes]
    edges = [(source, target) for target, unit in enumerate(boxes) for source in unit.inputs]
    width = max(_NARROWEST, _LEFT + _BOX + 16 + max(_bulge(source, target) for source, target in edges))
    height = _TOP + _ROW * len(boxes) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img">',
        f"<title>{escape(title or 'network')}</title><style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_head(graph, title, is_highlighted=any(new)),
        *_bands(graph, boxes, width),
        *(_edge(source, target, is_new=new[source] or new[target]) for source, target in edges),
        *(_box(graph, unit, row, is_new=new[row]) for row, unit in enumerate(boxes)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _head(graph: Graph, title: str, *, is_highlighted: bool) -> Iterator[str]:
    counted = cost(graph)
    figures = (
        f"{len(graph.nodes)} nodes · {counted.parameters:,} parameters · "
        f"{counted.forward_flops:,} forward operations per image"
    ).replace(",", "\u202f")  # as aiperf/units.py groups digits
    yield f'<text class="title" x="16" y="30">{escape(title or "network")}</text>'
    yield f'<text class="small" x="16" y="48">{figures}</text>'
    yield '<text class="small" x="16" y="64">conv kernel /stride · channels; below: first node, output maps</text>'
    if is_highlighted:
        yield '<rect class="new" x="16" y="72" width="12" height="12" rx="3"/>'
        yield '<text class="small" x="34" y="82">added or changed by morphs</text>'


def _bands(graph: Graph, boxes: tuple[Unit, ...], width: int) -> Iterator[str]:
    shown, bands = "", 0
    for row, unit in enumerate(boxes):
        size = graph.shapes[unit.nodes[-1]].extent
        is_first = size != shown
        shown, bands = size, bands + is_first
        if bands % 2:
            yield f'<rect class="band" x="0" y="{_y(row) - 8}" width="{width}" height="{_ROW}"/>'
        if is_first:
            yield f'<text class="size" x="12" y="{_y(row) + 24}">{size}</text>'


def _bulge(source: int, target: int) -> int:
    """Return the width of an edge to the right of the boxes. 0 for neighbours."""
    return 0 if target == source + 1 else round(16 + 14 * float(target - source) ** 0.5)


def _edge(source: int, target: int, *, is_new: bool) -> str:
    if bulge := _bulge(source, target):
        x, begin, end = _LEFT + _BOX, _y(source) + _HEIGHT - 10, _y(target) + 10
        control = x + bulge * 4 // 3  # a cubic curve covers three quarters of the way to its control points
        path, tip = f"M {x} {begin} C {control} {begin} {control} {end} {x + 6} {end}", f"M {x} {end} l 7 -4 v 8 z"
    else:
        x, begin, end = _LEFT + _BOX // 2, _y(source) + _HEIGHT, _y(target)
        path, tip = f"M {x} {begin} V {end - 6}", f"M {x} {end} l -4 -7 h 8 z"
    line, head = ("edge new-edge", "new-tip") if is_new else ("edge", "tip")
    return f'<path class="{line}" d="{path}"/><path class="{head}" d="{tip}"/>'


def _box(graph: Graph, unit: Unit, row: int, *, is_new: bool) -> str:
    y, kind = _y(row), _SHOWN[type(graph.nodes[unit.nodes[0]].op)][0]
    radius = _HEIGHT // 2 if kind == "sum" else 5
    name = graph.nodes[unit.nodes[0]].name
    shown = name if len(name) <= 24 else f"…{name[-23:]}"
    names = escape(", ".join(graph.nodes[node].name for node in unit.nodes))
    label = escape(" · ".join(_text(graph.nodes[node].op) for node in unit.nodes))
    return (
        f'<g><title>{names}</title><rect class="unit {kind}{" new" if is_new else ""}" x="{_LEFT}" y="{y}" '
        f'width="{_BOX}" height="{_HEIGHT}" rx="{radius}"/>'
        f'<text x="{_LEFT + _BOX // 2}" y="{y + 16}" text-anchor="middle">{label}</text>'
        f'<text class="small" x="{_LEFT + 14}" y="{y + 31}">{escape(shown)}</text>'
        f'<text class="small" x="{_LEFT + _BOX - 14}" y="{y + 31}" text-anchor="end">{graph.shapes[unit.nodes[-1]]}</text></g>'
    )


def _text(op: ops.Op) -> str:
    groups = f" in {op.groups} groups" if isinstance(op, Convolution) and op.groups > 1 else ""
    return _SHOWN[type(op)][1].format(op) + groups


def _y(row: int) -> int:
    return _TOP + 8 + _ROW * row
