"""(μ + λ) evolution: the best trials are the parents, a tournament among them chooses one, morphs are the mutation.

μ is the PARENTS best trials whose weights can be inherited, λ whatever the workers finish: there are no generations, since
workers never wait for each other (a steady state, as in Real et al. 2019, with selection by rank in place of age, because a
parent whose weights are gone cannot be inherited from). Equal results keep a firm order, failed trials never become parents.
"""

from __future__ import annotations

from dataclasses import dataclass

from morphism import Morph
from searchers.growth import copies_drawn, grown_at_random, grown_from_start
from searchers.history import History, Request
from searchers.rng import chance


@dataclass(frozen=True, slots=True)
class Evolution:
    """Grows the winner of a tournament at random."""

    tournament: int
    """Trials drawn from the parents, with replacement; the best of them wins. 1 draws a parent blindly."""
    morphs: int
    """The most morphs of a child; from 1 to this many are drawn."""
    name: str = "evolution"

    def propose(self, history: History, request: Request) -> tuple[int | None, tuple[Morph, ...]]:
        """See searchers.history.Searcher; raises NothingToPropose."""
        random = chance(self.name, request.seed, request.number)
        count = 1 + int(random.random() * self.morphs)
        parents = history.parents()
        if parents:
            # parents stand best first, so the lowest index drawn is the tournament's winner
            winner = parents[min(int(random.random() * len(parents)) for _ in range(self.tournament))]
            for parent in (winner, *[other for other in parents if other != winner]):
                morphs = grown_at_random(history, parent, count, random)
                if morphs is not None:
                    return parent, copies_drawn(morphs, request)
        morphs = grown_at_random(history, None, count, random) or grown_from_start(history, random)
        return None, copies_drawn(morphs, request)
