"""Growth of a new network (child) from a trained one (parent) by random morphs (changes that keep the network's function).

All searchers use it. A child is a parent and morphs. It is valid if the morphs are legal, the budget is kept and the
architecture is new. If a searcher finds no valid child of its parents, it grows the starting graph.
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
    """Error if the search finds no new architecture within the budget."""


def drawn(among: LegalMorphs, random: Random) -> Morph:
    """Return a random legal morph: first a kind is drawn, then a morph of this kind. There must be a legal one.

    `random`: generator, which is advanced. Without kinds skips would dominate: they are more than half of ResNet-50's morphs.
    """
    return one_of(among.of(one_of(among.kinds(), random)), random)


def one_of(things: Sequence[_Thing], random: Random) -> _Thing:
    """Return a random element of a sequence, which must not be empty. `random`: generator, which is advanced.

    Only `random.random()` is called, because Python guarantees its values for a seed.
    """
    return things[int(random.random() * len(things))]


def copies_drawn(morphs: Sequence[Morph], request: Request) -> tuple[Morph, ...]:
    """Return the morphs, with a new seed in each Widen (a morph that adds copies of channels). The seed draws the copies.

    It is derived from seed and number of the request and from the place of the morph.
    """
    return tuple(
        [
            replace(morph, seed=derived("copies", request.seed, request.number, place))
            if isinstance(morph, Widen)
            else morph
            for place, morph in enumerate(morphs)
        ]
    )


def child(history: History, parent: int | None, morphs: tuple[Morph, ...]) -> Graph | None:
    """Return the graph of trial `parent` (None: the starting graph) after `morphs`, if it is a valid proposal.

    None if the morphs do not fit together, the graph exceeds the budget, or another trial has this architecture.
    """
    try:
        graph = history.grown(parent, morphs)
    except IllegalMorph:
        return None  # legal on the parent, but not after the morphs before it
    # the cheaper check first; a single legal morph is within the budget, several may not be
    if history.is_taken(graph.fingerprint) or not history.space.budget.allows(cost(graph)):
        return None
    return graph


def grown_at_random(history: History, parent: int | None, count: int, random: Random) -> tuple[Morph, ...] | None:
    """Return up to `count` random morphs that give a new architecture from trial `parent` (None: the starting graph).

    Each morph is legal after the ones before it. There are fewer than `count` if the budget is exhausted. `random`:
    generator, which is advanced. None if the parent has no legal morph, or if 32 draws gave only known architectures.
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
    """Return (parent, morphs) of a new architecture: one morph of the best parent for which 32 draws give a new child.

    If there is no such parent, the result is (None, morphs of the starting graph, with fresh weights). A parent gets only
    one morph, since known children of one morph are cached. `random`: generator, which is advanced. Raise NothingToPropose
    if nothing is found.
    """
    for parent in history.parents():
        morphs = grown_at_random(history, parent, 1, random)
        if morphs is not None:
            return parent, morphs
    return None, grown_from_start(history, random)


def grown_from_start(history: History, random: Random) -> tuple[Morph, ...]:
    """Return morphs of the starting graph that give a new architecture.

    Up to 1, 2, 4, … 64 morphs are tried, in this order. `random`: generator, which is advanced. Raise NothingToPropose if none
    is found, which happens only with a very small budget.
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
        f"legal on it, {len(history.trials)} trials were proposed). Raise the budget (budget.factor)"
    )
