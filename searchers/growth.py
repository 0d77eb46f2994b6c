"""Growth of a new network (child) from a trained one (parent): by random morphs, and to the tuned kernel size.

Random generators give the same numbers on every machine. The tuned size enlarges all convolutions with a smaller odd kernel of
at least 3, except the one that reads the image, up to the size at which every weight reaches a pixel. No kernel shrinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from random import Random
from typing import Final, TypeVar

from morphism import (
    Graph,
    IllegalMorph,
    Kernel,
    LegalMorphs,
    Morph,
    Widen,
    choices,
    cost,
    legal,
)
from morphism.graph import once_per_graph
from morphism.sites import reaches
from searchers.history import History, Request


def chance(*of: int | str) -> Random:
    """Return a random generator seeded by words and numbers. Equal arguments give equal sequences on every machine."""
    return Random(derived(*of))


def derived(*of: int | str) -> int:
    """Return an integer from 0 to 2³² − 1 that is a hash of all arguments."""
    return int.from_bytes(blake2b(repr(of).encode(), digest_size=4).digest())


_TRIES: Final = 32
_MOST_MORPHS_FROM_START: Final = 64
_Thing = TypeVar("_Thing")


class NothingToPropose(RuntimeError):
    """Error if the search finds no new architecture within the budget."""


def drawn(among: LegalMorphs, random: Random) -> Morph:
    """First a kind is drawn. Without kinds skips would dominate: they are more than half of ResNet-50's morphs."""
    return one_of(among.of(one_of(among.kinds(), random)), random)


def one_of(things: Sequence[_Thing], random: Random) -> _Thing:
    """Only `random.random()` is called, because Python guarantees its values for a seed."""
    return things[int(random.random() * len(things))]


def copies_drawn(morphs: Sequence[Morph], request: Request) -> tuple[Morph, ...]:
    """A new seed in each Widen draws the copies. It follows from the request and the place of the morph."""
    return tuple(
        replace(morph, seed=derived("copies", request.seed, request.number, place))
        if isinstance(morph, Widen)
        else morph
        for place, morph in enumerate(morphs)
    )


def child(history: History, parent: int | None, morphs: tuple[Morph, ...]) -> Graph | None:
    """None if the morphs do not fit together, the graph exceeds the budget, or another trial has this architecture."""
    try:
        graph = history.grown(parent, morphs)
    except IllegalMorph:
        return None  # legal on the parent, but not after the morphs before it
    # the cheaper check first; a single legal morph is within the budget, several may not be
    if history.is_taken(graph.fingerprint) or not history.space.budget.allows(cost(graph)):
        return None
    return graph


def grown_at_random(history: History, parent: int | None, count: int, random: Random) -> tuple[Morph, ...] | None:
    """Up to `count` morphs that give a new architecture. None without a legal morph, or if 32 draws gave only known ones."""
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
    """(parent, morphs): one morph of the best parent for which 32 draws give a new child, else of the starting graph.

    A parent gets only one morph, since known children of one morph are cached. Raise NothingToPropose if nothing is found.
    """
    for parent in history.parents():
        morphs = grown_at_random(history, parent, 1, random)
        if morphs is not None:
            return parent, morphs
    return None, grown_from_start(history, random)


def grown_from_start(history: History, random: Random) -> tuple[Morph, ...]:
    """Up to 1, 2, 4, … 64 morphs are tried. Raise NothingToPropose if none gives a new architecture."""
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


SMALLEST: Final = 3
LARGEST: Final = 7
STEP: Final = 2


@once_per_graph
def tunable(graph: Graph) -> tuple[tuple[str, int, int], ...]:
    """Name, kernel and largest useful one of convolutions with an odd kernel of at least 3, behind a layer with parameters."""
    return tuple(
        [
            (node.name, reach.kernel, reach.largest)
            for node, reach, reads_image in zip(graph.nodes, reaches(graph), graph.reads_image, strict=True)
            if reach and reach.kernel >= 3 and reach.kernel % 2 and not reads_image
        ]
    )


def sizes_of(graph: Graph) -> range:
    """Edges in pixels that tuning can choose: 3, 5, 7. Empty if none can be tuned."""
    return range(SMALLEST, LARGEST + 1, STEP) if tunable(graph) else range(0)


@once_per_graph
def own_size(graph: Graph) -> int | None:
    """The one kernel size (edge in pixels) that describes a graph best. None if no convolution is tunable.

    It has the smallest sum of differences to the kernels of the tunable convolutions, each limited by its maps. A tie gives
    the smaller size.
    """
    kernels = [(kernel, most) for _, kernel, most in tunable(graph)]
    return min(
        sizes_of(graph),
        key=lambda size: (sum([abs(kernel - min(size, most)) for kernel, most in kernels]), size),
        default=None,
    )


def enlarging(graph: Graph, size: int) -> tuple[Kernel, ...]:
    """Enlarge every smaller tunable kernel to `size` (edge in pixels), or to the limit of its maps."""
    return tuple([Kernel(name, min(size, most)) for name, kernel, most in tunable(graph) if kernel < min(size, most)])
