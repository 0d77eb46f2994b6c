"""Lineage of a network: a starting graph and its morphs, from which the network can be rebuilt."""

from collections import OrderedDict
from dataclasses import dataclass, replace

from morphism.graph import Graph
from morphism.grow import enlarge, grow
from morphism.morphs import Kernel, Morph, Widen

GRAPHS_REMEMBERED = 512
"""Number of cached graphs. Proposals, checks and training use the same graphs. A ResNet-50 takes about 60 kB."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """A starting graph and morphs. Each morph names nodes of the graph after the earlier morphs."""

    start: Graph
    morphs: tuple[Morph, ...] = ()

    def then(self, morph: Morph) -> "Lineage":
        """Return the lineage with one more morph."""
        return Lineage(self.start, (*self.morphs, morph))


def rebuild(lineage: Lineage) -> Graph:
    """Return the graph at the end of a lineage. Raises IllegalMorph. The cache does not affect the result."""
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
