"""Best network of a run, rebuilt from the changes of all its ancestors, and the layout of the tree of networks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiperf.report.facts import ArchitectureTree, BestArchitecture, TreeNode
from aiperf.report.fold import Collected, CollectedTrial
from morphism import Architecture, Graph, IllegalGraph, IllegalMorph, decode_architecture, decode_morph, rebuilt
from morphism.codec import DamagedGraphFile, decode, encode
from morphism.morphs import DamagedMorph


def best_architecture(run: Collected) -> BestArchitecture | None:
    """Return the network with the best measured accuracy of a run. None before the first evaluation."""
    if run.best is None:
        return None
    morphs = _lineage(run, run.best)
    try:
        first, best = _rebuilt(run, morphs)
    except _UNREADABLE as error:
        return BestArchitecture(run.best, morphs, None, str(error), ())
    if not (isinstance(first, Graph) and isinstance(best, Graph)):
        return BestArchitecture(run.best, morphs, None, "a detector is no graph", ())
    before = {node.name: node.op for node in first.nodes}
    added = tuple(node.name for node in best.nodes if before.get(node.name) != node.op)
    return BestArchitecture(run.best, morphs, json.loads(encode(best)), None, added)


def graphs_of_trials(run: Collected, numbers: Iterable[int]) -> dict[int, Graph]:
    """Networks of trials by number, without object detection and without those that this release cannot rebuild."""
    known: dict[int | None, Architecture] = {}

    def network(number: int | None) -> Architecture:
        if number not in known:
            if number is None:
                known[None] = decode_architecture(json.dumps(run.started.start_graph))
            else:
                proposal = run.trials[number].proposal
                known[number] = rebuilt(network(proposal.parent), [decode_morph(morph) for morph in proposal.morphs])
        return known[number]

    graphs = {}
    for number in numbers:
        with suppress(*_UNREADABLE):
            if isinstance(read := network(number), Graph):
                graphs[number] = read
    return graphs


_UNREADABLE = (DamagedGraphFile, DamagedMorph, IllegalGraph, IllegalMorph)


def _rebuilt(run: Collected, morphs: Sequence[dict[str, Any]]) -> tuple[Architecture, Architecture]:
    first = decode_architecture(json.dumps(run.started.start_graph))
    return first, rebuilt(first, [decode_morph(morph) for morph in morphs])


def _lineage(run: Collected, number: int | None) -> tuple[dict[str, Any], ...]:
    steps: list[list[dict[str, Any]]] = []
    while number is not None:
        proposal = run.trials[number].proposal
        steps.append(proposal.morphs)
        number = proposal.parent
    return tuple(morph for step in reversed(steps) for morph in step)


def starting_network(graph: dict[str, Any]) -> Architecture | None:
    """Decode the starting network of a run, given as the JSON object in its journal. None if this release cannot read it."""
    try:
        return decode_architecture(json.dumps(graph))
    except (DamagedGraphFile, IllegalGraph):
        return None


def start_fingerprint(graph: dict[str, Any]) -> str | None:
    """Fingerprint of the starting network. None if this release cannot read it."""
    read = starting_network(graph)
    return None if read is None else read.fingerprint


def graph_of(architecture: BestArchitecture) -> Graph | None:
    """Return the best network as a graph of layers. None for a detector, or if it could not be rebuilt."""
    return None if architecture.graph is None else decode(json.dumps(architecture.graph))


MOST_TREE_TRIALS = 150
"""Maximum number of trials in an unpruned tree."""
BEST_TRIALS = 60
"""Number of best trials in a pruned tree. Their ancestors come in addition."""


def tree(trials: Mapping[int, CollectedTrial], best: int | None) -> ArchitectureTree:
    """Tree of trials with a position of each node for drawing. `best`: number of the trial to mark, or None."""
    kept = _shown(trials)
    children: dict[int | None, list[int]] = {}
    for number in kept:
        parent = trials[number].proposal.parent
        children.setdefault(parent if parent in trials else None, []).append(number)
    rows: dict[int | None, float] = {}
    next_row = 0
    order: list[int | None] = []
    # Depth first with an explicit stack: a lineage may be longer than Python's recursion limit.
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
    return ArchitectureTree(nodes=tuple(nodes), trials=len(trials), shown=len(kept))


def _shown(trials: Mapping[int, CollectedTrial]) -> list[int]:
    if len(trials) <= MOST_TREE_TRIALS:
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
