"""Network morphism guided by Bayesian optimisation: the child with the highest upper confidence bound among many drawn.

A regression over what the history shows (searchers.history: at most 300 finished trials, 200 in flight, 50 failed) tells
what to expect of a child, from its descriptor alone; only the chosen one is built. A failed trial counts as one in flight
does: it lowers the curiosity about its neighbourhood, so that a failing region is not asked about for ever, and says nothing
of accuracy, since most failures are a machine's and not the architecture's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, groupby, islice
from random import Random
from typing import Final

import numpy as np

from morphism import Morph
from searchers.gaussian import Posterior, posterior
from searchers.growth import child, copies_drawn, drawn, grown_from_any
from searchers.history import History, Request
from searchers.rng import chance

_DECIMALS: Final = 9  # floating point differs in the last bits between processors: differences below 1e-9 are ties


@dataclass(frozen=True, slots=True)
class Morphing:
    """Draws candidates around some of the best parents and proposes the most promising."""

    parents: int
    """How many of the best parents are drawn for a proposal, the better the likelier."""
    candidates: int
    """Children drawn for a proposal, over all parents."""
    morphs: int
    """The most morphs of a child; from 1 to this many are drawn."""
    beta: float
    """Standard deviations added to the mean: 0 only exploits."""
    name: str = "morphism"

    def propose(self, history: History, request: Request) -> tuple[int | None, tuple[Morph, ...]]:
        """See searchers.history.Searcher; raises NothingToPropose."""
        random = chance(self.name, request.seed, request.number)
        candidates = self._candidates(history, random)
        # those who ask at this moment rank nearly alike, and cannot know of each other: each draws one of as many
        place = int(random.random() * min(1 + history.open_requests(besides=request.number), len(candidates)))
        ranked = _ranked(history, candidates, self.beta, request)
        passed = list(islice(ranked, place))
        for parent, morphs in chain(ranked, passed):
            chosen = copies_drawn(morphs, request)
            if child(history, parent, chosen) is not None:
                return parent, chosen
        found, morphs = grown_from_any(history, random)
        return found, copies_drawn(morphs, request)

    def _candidates(self, history: History, random: Random) -> list[tuple[int | None, tuple[Morph, ...]]]:
        parents = self._parents(history, random)
        choices = {parent: history.choices(parent) for parent in parents}
        growing = [parent for parent in parents if choices[parent].kinds()]
        found: dict[tuple[int | None, tuple[Morph, ...]], None] = {}
        for number in range(self.candidates if growing else 0):
            parent = growing[number % len(growing)]
            count = 1 + int(random.random() * self.morphs)
            # all are legal on the parent; whether they are in a row shows when the child is built
            morphs = dict.fromkeys([drawn(choices[parent], random) for _ in range(count)])
            found[parent, tuple(morphs)] = None
        return list(found)

    def _parents(self, history: History, random: Random) -> list[int | None]:
        """Drawn without replacement; the weight halves every quarter of the list."""
        waiting = list(history.parents())
        if not waiting:
            return [None]
        half = max(1.0, len(waiting) / 4)
        weights = [2.0 ** (-rank / half) for rank in range(len(waiting))]
        chosen: list[int | None] = []
        while waiting and len(chosen) < self.parents:
            left = random.random() * sum(weights)
            index = 0
            while index < len(weights) - 1 and left >= weights[index]:
                left -= weights[index]
                index += 1
            chosen.append(waiting.pop(index))
            del weights[index]
        return chosen


def belief(history: History) -> Posterior:
    """The regression on what the history shows to guided search."""
    finished, without_result = history.finished_seen(), history.without_result_seen()
    descriptors = history.descriptors((*finished, *without_result))
    accuracies = np.array([history.accuracies[number] for number in finished], dtype=np.float64)
    return posterior(descriptors[: len(finished)], accuracies, descriptors[len(finished) :])


def _ranked(
    history: History, candidates: list[tuple[int | None, tuple[Morph, ...]]], beta: float, request: Request
) -> Iterator[tuple[int | None, tuple[Morph, ...]]]:
    """The candidates, most promising first; ties by what was done to which architecture, and for each request otherwise."""
    if not candidates:
        return
    outlines = [history.places.grown(history.outline(parent), morphs) for parent, morphs in candidates]
    # many grow alike, and are expected to do alike
    alike = {outline.growth: outline for outline in outlines}
    bounds = belief(history).upper_bound(history.places.descriptors(list(alike.values())), beta)
    score_of = {growth: -round(float(bound), _DECIMALS) for growth, bound in zip(alike, bounds, strict=True)}
    scores = [score_of[outline.growth] for outline in outlines]
    # parent's fingerprint and morphs fix the child's fingerprint, and spare building each child to break ties by it; seed and
    # number let two who ask with one history, an empty one above all, choose differently
    asked = f"{request.seed} {request.number}"

    def tie(index: int) -> bytes:
        parent, morphs = candidates[index]
        return blake2b(f"{asked} {history.fingerprint(parent)} {morphs!r}".encode(), digest_size=8).digest()

    # no more ties are broken than are asked about: the first child is mostly taken
    for _, tied in groupby(sorted(range(len(candidates)), key=scores.__getitem__), key=scores.__getitem__):
        yield from [candidates[index] for index in sorted(tied, key=tie)]
