"""Where a network comes from: a starting graph and the morphs that made it, enough to build it again exactly."""

from dataclasses import dataclass

from morphism.apply import apply
from morphism.graph import Graph
from morphism.morphs import Morph


@dataclass(frozen=True, slots=True)
class Lineage:
    """A starting graph and morphs, each naming nodes of the graph that those before it made."""

    start: Graph
    morphs: tuple[Morph, ...] = ()

    def then(self, morph: Morph) -> "Lineage":
        """The lineage of the child that `morph` makes."""
        return Lineage(self.start, (*self.morphs, morph))


def rebuild(lineage: Lineage) -> Graph:
    """The graph at the end of a lineage; raises IllegalMorph where a morph does not fit the graph before it."""
    graph = lineage.start
    for morph in lineage.morphs:
        graph, _ = apply(graph, morph)
    return graph
