"""The tree of architectures, laid out: generations from left to right, children beside their parents.

A tree of more trials than can be told apart is pruned to the best ones and all their ancestors.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiperf.report.facts import Tree, TreeNode
from aiperf.report.fold import TrialResults

MOST_TRIALS = 150
"""Trees up to this size are shown whole."""
BEST_TRIALS = 60
"""Of larger ones, these with all their ancestors."""


def tree(trials: Mapping[int, TrialResults], best: int | None) -> Tree:
    """The layout: every leaf has a row of its own, a parent stands amid its children; no two nodes share a place."""
    kept = _kept(trials)
    children: dict[int | None, list[int]] = {}
    for number in kept:
        parent = trials[number].proposal.parent
        children.setdefault(parent if parent in trials else None, []).append(number)
    rows: dict[int | None, float] = {}
    next_row = 0
    order: list[int | None] = []
    # Depth first with an own stack: a lineage may be longer than Python's recursion limit.
    stack: list[tuple[int | None, bool]] = [(None, False)]
    while stack:
        node, is_done = stack.pop()
        below = children.get(node, [])
        if is_done:
            rows[node] = sum(rows[child] for child in (below[0], below[-1])) / 2
            continue
        order.append(node)
        if not below:
            rows[node] = float(next_row)
            next_row += 1
            continue
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(below))
    index = {node: place for place, node in enumerate(order)}
    nodes = []
    for node in order:
        trial = None if node is None else trials[node]
        parent = None if trial is None or trial.proposal.parent not in trials else trial.proposal.parent
        nodes.append(
            TreeNode(
                trial=node,
                parent=None if trial is None else index[parent],
                generation=0 if trial is None else trial.generation,
                row=rows[node],
                accuracy=None if trial is None else trial.accuracy,
                is_best=node is not None and node == best,
            )
        )
    return Tree(nodes=tuple(nodes), trials=len(trials), shown=len(kept))


def _kept(trials: Mapping[int, TrialResults]) -> list[int]:
    if len(trials) <= MOST_TRIALS:
        return sorted(trials)
    measured = [number for number, trial in trials.items() if trial.accuracy is not None]
    measured.sort(key=lambda number: (-(trials[number].accuracy or 0.0), number))
    kept: set[int] = set()
    for number in measured[:BEST_TRIALS]:
        ancestor: int | None = number
        while ancestor is not None and ancestor in trials and ancestor not in kept:
            kept.add(ancestor)
            ancestor = trials[ancestor].proposal.parent
    return sorted(kept)
