"""Network morphism guided by Bayesian optimisation: it proposes the random child with the highest upper confidence bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, groupby, islice
from math import fsum
from random import Random
from typing import Final

import numpy as np

from morphism import Morph
from searchers.gaussian import Posterior, posterior
from searchers.growth import chance, child, copies_drawn, drawn, grown_from_any
from searchers.history import History, Request

_DECIMALS: Final = 9  # floating point differs in the last bits between processors: differences below 1e-9 are ties


@dataclass(frozen=True, slots=True)
class Morphing:
    parents: int
    """Number of parents drawn for a proposal. Better parents are drawn more often."""
    candidates: int
    """Children drawn for a proposal, over all parents."""
    morphs: int
    """Largest number of morphs of a child. The number is drawn from 1 to this value."""
    beta: float
    """Standard deviations added to the mean. 0 is pure exploitation."""
    name: str = "morphism"

    def propose(self, history: History, request: Request) -> tuple[int | None, tuple[Morph, ...]]:
        """If n other proposals are being computed, one of the first n + 1 children is drawn."""
        random = chance(self.name, request.seed, request.number)
        candidates = self._candidates(history, random)
        # concurrent proposals rank nearly alike: each draws one of the first ranks, as many as there are proposals
        place = int(random.random() * min(1 + history.open_requests(request.number), len(candidates)))
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
        candidates: dict[tuple[int | None, tuple[Morph, ...]], None] = {}
        for number in range(self.candidates if growing else 0):
            parent = growing[number % len(growing)]
            count = 1 + int(random.random() * self.morphs)
            # each morph is legal on the parent; `child` checks their sequence
            morphs = dict.fromkeys([drawn(choices[parent], random) for _ in range(count)])
            candidates[parent, tuple(morphs)] = None
        return list(candidates)

    def _parents(self, history: History, random: Random) -> list[int | None]:
        """Draw parents without replacement. The weight halves with every quarter of the sorted list."""
        waiting = list(history.parents())
        if not waiting:
            return [None]
        half = max(1.0, len(waiting) / 4)
        weights = [2.0 ** (-rank / half) for rank in range(len(waiting))]
        chosen: list[int | None] = []
        while waiting and len(chosen) < self.parents:
            left = random.random() * fsum(weights)
            index = 0
            while index < len(weights) - 1 and left >= weights[index]:
                left -= weights[index]
                index += 1
            chosen.append(waiting.pop(index))
            del weights[index]
        return chosen


def belief(history: History) -> Posterior:
    """Finished trials set the mean. Trials in flight and failed trials only lower the variance."""
    finished, without_result = history.finished_seen(), history.without_result_seen()
    descriptors = history.descriptors((*finished, *without_result))
    accuracies = np.array([history.accuracies[number] for number in finished], dtype=np.float64)
    return posterior(descriptors[: len(finished)], accuracies, descriptors[len(finished) :])


def _ranked(
    history: History, candidates: list[tuple[int | None, tuple[Morph, ...]]], beta: float, request: Request
) -> Iterator[tuple[int | None, tuple[Morph, ...]]]:
    """Highest bound first. Ties are broken by a hash of parent, morphs and request."""
    if not candidates:
        return
    outlines = [history.places.grown(history.outline(parent), morphs) for parent, morphs in candidates]
    # candidates of equal growth have equal bounds
    alike = {outline.growth: outline for outline in outlines}
    bounds = belief(history).upper_bound(history.places.descriptors(list(alike.values())), beta)
    score_of = {growth: -round(float(bound), _DECIMALS) for growth, bound in zip(alike, bounds, strict=True)}
    scores = [score_of[outline.growth] for outline in outlines]
    # the parent's fingerprint and the morphs determine the child's fingerprint without building it; seed and number separate
    # requests with the same history
    salt = f"{request.seed} {request.number}"

    def tie(index: int) -> bytes:
        parent, morphs = candidates[index]
        return blake2b(f"{salt} {history.fingerprint(parent)} {morphs!r}".encode(), digest_size=8).digest()

    # lazy: mostly the first candidate is used
    for _, tied in groupby(sorted(range(len(candidates)), key=scores.__getitem__), key=scores.__getitem__):
        yield from [candidates[index] for index in sorted(tied, key=tie)]
