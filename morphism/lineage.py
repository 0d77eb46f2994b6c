"""Where a network comes from: a starting graph and the morphs that made it, enough to build it again exactly."""

from collections import OrderedDict
from dataclasses import dataclass, replace

from morphism.graph import Graph
from morphism.grow import enlarge, grow
from morphism.morphs import Kernel, Morph, Widen

GRAPHS_REMEMBERED = 512
"""The last so many that were rebuilt: who proposes, who checks and who trains needs the same. Of ResNet-50 about 60 kB each."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """A starting graph and morphs, each naming nodes of the graph that those before it made."""

    start: Graph
    morphs: tuple[Morph, ...] = ()

    def then(self, morph: Morph) -> "Lineage":
        """The lineage of the child that `morph` makes."""
        return Lineage(self.start, (*self.morphs, morph))


def rebuild(lineage: Lineage) -> Graph:
    """The graph at the end of a lineage, remembered for a while; raises IllegalMorph where a morph does not fit.

    The same lineage gives the same graph wherever it is rebuilt: what is remembered saves the work and decides nothing.
    """
    if not lineage.morphs:
        return lineage.start
    # which channels a widen copies is a matter of weights: to the graph all its seeds are one
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
