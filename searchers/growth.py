"""Growth of a child from a parent, shared by all searchers.

A child is a parent and morphs. It is valid if the morphs are legal, the budget is kept and the architecture is new. If a
searcher finds no valid child of its parents, it grows the starting graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeVar

from morphism import Graph, IllegalMorph, LegalMorphs, Morph, Widen, choices, cost, legal
from searchers.history import History, Request
from searchers.rng import derived

_TRIES: Final = 32
_MOST_MORPHS_FROM_START: Final = 64
_Thing = TypeVar("_Thing")


class NothingToPropose(RuntimeError):
    """Raised if the search finds no new architecture within the budget."""


def drawn(among: LegalMorphs, random: Random) -> Morph:
    """Draw a kind, then a morph of this kind, and return the morph. There must be a legal one.

    Without kinds skips would dominate: they are more than half of ResNet-50's morphs.
    """
    return one_of(among.of(one_of(among.kinds(), random)), random)


def one_of(things: Sequence[_Thing], random: Random) -> _Thing:
    """Return a random element of a sequence that is not empty. Only random() is used: its values are fixed for a seed."""
    return things[int(random.random() * len(things))]


def copies_drawn(morphs: Sequence[Morph], request: Request) -> tuple[Morph, ...]:
    """Return the morphs, each Widen with a seed derived from the request, which draws the channels that it copies."""
    return tuple(
        [
            replace(morph, seed=derived("copies", request.seed, request.number, place))
            if isinstance(morph, Widen)
            else morph
            for place, morph in enumerate(morphs)
        ]
    )


def child(history: History, parent: int | None, morphs: tuple[Morph, ...]) -> Graph | None:
    """Return the child's graph. None if the morphs are illegal together, exceed the budget or give a known architecture."""
    try:
        graph = history.grown(parent, morphs)
    except IllegalMorph:
        return None  # legal on the parent, but not after the morphs before it
    # the cheaper check first; a single legal morph is within the budget, several may not be
    if history.is_taken(graph.fingerprint) or not history.space.budget.allows(cost(graph)):
        return None
    return graph


def grown_at_random(history: History, parent: int | None, count: int, random: Random) -> tuple[Morph, ...] | None:
    """Return `count` random morphs, or fewer if the budget is exhausted. Each is legal after the ones before it.

    None if the parent has no legal morph, or if _TRIES draws gave only known architectures.
    """
    first = history.choices(parent)
    if not first.kinds():
        return None
    for _ in range(_TRIES):
        morphs = [drawn(first, random)]
        if count == 1 and history.is_known_child(parent, morphs[0]):
            continue
        graph = history.grown(parent, tuple(morphs))
        while len(morphs) < count and (further := choices(graph, history.space.budget)).kinds():
            morphs.append(drawn(further, random))
            graph = history.grown(parent, tuple(morphs))
        if not history.is_taken(graph.fingerprint):
            return tuple(morphs)
        if len(morphs) == 1:
            history.remember_child(parent, morphs[0])
    return None


def grown_from_any(history: History, random: Random) -> tuple[int | None, tuple[Morph, ...]]:
    """Return (parent, morphs): the best parent with one morph that gives a new architecture, otherwise (None, morphs).

    None is the starting graph with fresh weights.

    One morph, since known children of one morph are cached. Raises NothingToPropose.
    """
    for parent in history.parents():
        morphs = grown_at_random(history, parent, 1, random)
        if morphs is not None:
            return parent, morphs
    return None, grown_from_start(history, random)


def grown_from_start(history: History, random: Random) -> tuple[Morph, ...]:
    """Return morphs of the starting graph that give a new architecture, with as few morphs as possible.

    Raises NothingToPropose if none is found, which happens only with a very small budget.
    """
    count = 1
    while count <= _MOST_MORPHS_FROM_START:
        morphs = grown_at_random(history, None, count, random)
        if morphs is not None:
            return morphs
        count *= 2
    possible = legal(history.graph(None), history.space.budget)
    raise NothingToPropose(
        f"the budget leaves no new architecture to grow from the starting graph ({len(possible)} morphs are "
        f"legal on it, {len(history.trials)} trials were proposed). Raise the budget"
    )
