"""Pairing of nodes for exchanges: rounds of disjoint pairs, computed from the number of nodes."""

from __future__ import annotations

import random

MOST_FOR_ALL_PAIRS = 16
RANDOM_ROUNDS = 4
"""Random rounds in addition to the ring of neighbours, for more than MOST_FOR_ALL_PAIRS nodes. They reveal a slow switch
between nodes that are not neighbours."""

Round = tuple[tuple[int, int], ...]


def rounds(nodes: int, seed: int = 0) -> tuple[Round, ...]:
    """Return rounds of pairs of nodes 0 … nodes - 1. No node is twice in a round, no pair repeats, every node has a partner.

    Up to 16 nodes: all pairs by the circle method (Kirkman 1847), nodes - 1 rounds, or `nodes` rounds for an odd number. More
    nodes: the ring of neighbours in two or three rounds, then RANDOM_ROUNDS rounds of random pairs.
    """
    if nodes < 2:
        return ()
    if nodes <= MOST_FOR_ALL_PAIRS:
        return _all_pairs(nodes)
    ring = [tuple((i, (i + 1) % nodes) for i in range(start, nodes - 1 + start, 2)) for start in (0, 1)]
    if nodes % 2:
        ring = [ring[0], tuple((i, i + 1) for i in range(1, nodes - 1, 2)), ((nodes - 1, 0),)]
    drawn = random.Random(seed)
    known = {frozenset(pair) for each in ring for pair in each}
    for _ in range(RANDOM_ROUNDS):
        order = list(range(nodes))
        drawn.shuffle(order)
        pairs = zip(order[::2], order[1::2], strict=False)
        fresh = tuple((min(pair), max(pair)) for pair in pairs if frozenset(pair) not in known)
        known |= {frozenset(pair) for pair in fresh}
        ring.append(fresh)
    return tuple(ring)


def _all_pairs(nodes: int) -> tuple[Round, ...]:
    circle: list[int | None] = [*range(nodes), *([None] if nodes % 2 else [])]
    pairings: list[Round] = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        sides = zip(circle[:half], reversed(circle[half:]), strict=True)
        pairings.append(tuple((min(a, b), max(a, b)) for a, b in sides if a is not None and b is not None))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return tuple(pairings)
