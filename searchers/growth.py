"""Growing a child from a parent: what every searcher shares, whatever makes it choose.

A child is a parent and morphs; it holds when they fit together, stay within the budget and make an architecture that was
never a trial. Where a searcher finds no such child among its parents, the search goes on from the starting graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeVar

from morphism import Deepen, Graph, IllegalMorph, Kernel, Morph, Skip, Widen, apply, cost, legal
from searchers.chance import derived
from searchers.history import History, Request

_KINDS: Final = (Deepen, Widen, Skip, Kernel)
_TRIES: Final = 32
_MOST_MORPHS_FROM_START: Final = 64
_Thing = TypeVar("_Thing")


class NothingToPropose(RuntimeError):
    """No architecture within the budget is left that was not a trial before, as far as the search could see."""


def by_kind(morphs: Sequence[Morph]) -> list[list[Morph]]:
    """The morphs parted by kind, without the kinds that have none."""
    return [found for kind in _KINDS if (found := [morph for morph in morphs if isinstance(morph, kind)])]


def drawn(kinds: Sequence[Sequence[Morph]], random: Random) -> Morph:
    """A morph of a kind drawn first: in ResNet-50 more than half of all morphs are skips, which would crowd out the rest."""
    return one_of(one_of(kinds, random), random)


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
    if history.was_proposed(graph.fingerprint) or not history.space.budget.allows(cost(graph)):
        return None
    return graph


def grown_at_random(history: History, parent: int | None, count: int, random: Random) -> tuple[Morph, ...] | None:
    """`count` morphs (fewer where the budget ends), each drawn from what is legal after the one before.

    None where the parent allows no morph, or _TRIES times came out as architectures that were trials before.
    """
    kinds = by_kind(history.legal(parent))
    if not kinds:
        return None
    for _ in range(_TRIES):
        morphs = [drawn(kinds, random)]
        if count == 1 and history.is_known_child(parent, morphs[0]):
            continue
        graph = history.grown(parent, tuple(morphs))
        while len(morphs) < count and (next_kinds := by_kind(legal(graph, history.space.budget))):
            morphs.append(drawn(next_kinds, random))
            graph, _ = apply(graph, morphs[-1])
        if not history.was_proposed(graph.fingerprint):
            return tuple(morphs)
        if len(morphs) == 1:
            history.remember_child(parent, morphs[0])
    return None


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
    raise NothingToPropose(
        f"the budget leaves no new architecture to grow from the starting graph ({len(history.legal(None))} morphs are "
        f"legal on it, {len(history.trials)} trials were proposed); raise the budget"
    )
