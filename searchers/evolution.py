"""Evolution of networks ((μ + λ), with a tournament), and random search as the baseline of all searchers.

There are no generations, since workers never wait for each other: a steady state as in Real et al. 2019, with selection by
rank instead of age, because weights must be available.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from morphism import Morph
from searchers.growth import chance, copies_drawn, grown_at_random, grown_from_start
from searchers.history import History, Request


@dataclass(frozen=True, slots=True)
class Evolution:
    tournament: int
    """Parents drawn with replacement. The best one wins. 1 selects a random parent."""
    morphs: int
    """Largest number of morphs of a child. The number is drawn from 1 to this value."""
    name: str = "evolution"

    def propose(self, history: History, request: Request) -> tuple[int | None, tuple[Morph, ...]]:
        """If the winner has no new child, the other parents follow, then the starting network."""
        random = chance(self.name, request.seed, request.number)
        count = 1 + int(random.random() * self.morphs)
        best = history.parents()
        parents: list[int] = []
        if best:
            # sorted, best first: the smallest drawn index wins
            winner = best[min(int(random.random() * len(best)) for _ in range(self.tournament))]
            parents = [winner, *[other for other in best if other != winner]]
        return _grown(history, request, parents, count, random)


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """Searcher that grows a random trial or the starting graph at random. Results are ignored."""

    morphs: int
    """Largest number of morphs of a child. The number is drawn from 1 to this value."""
    name: str = "random"

    def propose(self, history: History, request: Request) -> tuple[int | None, tuple[Morph, ...]]:
        random = chance(self.name, request.seed, request.number)
        count = 1 + int(random.random() * self.morphs)
        index = int(random.random() * (history.inheritable() + 1))
        parents = [history.inheritable_at(index)] if index < history.inheritable() else []
        return _grown(history, request, parents, count, random)


def _grown(
    history: History, request: Request, parents: Sequence[int], count: int, random: Random
) -> tuple[int | None, tuple[Morph, ...]]:
    """The starting graph gets more than `count` morphs only if these give a known architecture."""
    for parent in parents:
        morphs = grown_at_random(history, parent, count, random)
        if morphs is not None:
            return parent, copies_drawn(morphs, request)
    morphs = grown_at_random(history, None, count, random) or grown_from_start(history, random)
    return None, copies_drawn(morphs, request)
