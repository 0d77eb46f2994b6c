"""Growing a child from a parent: what every searcher shares, whatever makes it choose.

A child is a parent and morphs; it holds when they fit together, stay within the budget and make an architecture that was
never a trial. Where a searcher finds no such child among its parents, the search goes on from the starting graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeVar

from morphism import Choices, Graph, IllegalMorph, Morph, Widen, choices, cost, legal
from searchers.history import History, Request
from searchers.rng import derived

_TRIES: Final = 32
_MOST_MORPHS_FROM_START: Final = 64
_Thing = TypeVar("_Thing")


class NothingToPropose(RuntimeError):
    """No architecture within the budget is left that was not a trial before, as far as the search could see."""


def drawn(among: Choices, random: Random) -> Morph:
    """A morph of a kind drawn first: in ResNet-50 more than half of all morphs are skips, which would crowd out the rest."""
    return one_of(among.of(one_of(among.kinds(), random)), random)


def one_of(things: Sequence[_Thing], random: Random) -> _Thing:
    """One of these; uses random() alone, whose values for a seed Python promises never to change."""
    return things[int(random.random() * len(things))]


def copies_drawn(morphs: Sequence[Morph], request: Request) -> tuple[Morph, ...]:
    """The morphs as they are proposed: each widen draws its copies from a seed of this proposal's."""
    return tuple(
        [
            replace(morph, seed=derived("copies", request.seed, request.number, place))
            if isinstance(morph, Widen)
            else morph
            for place, morph in enumerate(morphs)
        ]
    )


def child(history: History, parent: int | None, morphs: tuple[Morph, ...]) -> Graph | None:
    """The child's graph; None where the morphs do not go together, exceed the budget or make a known architecture."""
    try:
        graph = history.grown(parent, morphs)
    except IllegalMorph:
        return None  # legal on the parent, but no longer after the morphs before it
    # the cheaper question first; a lone legal morph was held to the budget before, several were not
    if history.is_taken(graph.fingerprint) or not history.space.budget.allows(cost(graph)):
        return None
    return graph


def grown_at_random(history: History, parent: int | None, count: int, random: Random) -> tuple[Morph, ...] | None:
    """`count` morphs (fewer where the budget ends), each drawn from what is legal after the one before.

    None where the parent allows no morph, or _TRIES times came out as architectures that were trials before.
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
    """A parent and what is done to it, where all that was thought of is known: the best of which one morph is found that makes
    something new; where there is none, the starting graph with fresh weights.

    One morph, since children of one are remembered and need not be built. Raises NothingToPropose.
    """
    for parent in history.parents():
        morphs = grown_at_random(history, parent, 1, random)
        if morphs is not None:
            return parent, morphs
    return None, grown_from_start(history, random)


def grown_from_start(history: History, random: Random) -> tuple[Morph, ...]:
    """A child of the starting graph, with as many morphs as it takes to be new.

    Raises NothingToPropose where even the longest are known, which takes a budget that allows next to nothing.
    """
    count = 1
    while count <= _MOST_MORPHS_FROM_START:
        morphs = grown_at_random(history, None, count, random)
        if morphs is not None:
            return morphs
        count *= 2
    possible = legal(history.space.start, history.space.budget)
    raise NothingToPropose(
        f"the budget leaves no new architecture to grow from the starting graph ({len(possible)} morphs are "
        f"legal on it, {len(history.trials)} trials were proposed); raise the budget"
    )
