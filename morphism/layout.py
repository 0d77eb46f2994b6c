"""Layout of a network on a page: units in layers and lanes, drawn by `draw.py`.

The longest path is in lane 0, branches are in lanes to its right. An edge over several layers without a unit is on a track to
its left.
"""

from dataclasses import dataclass

from morphism.graph import Graph
from morphism.ops import Add, BatchNormalisation, Convolution, Relu


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
