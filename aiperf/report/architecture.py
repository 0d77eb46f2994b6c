"""The best architecture of a run, rebuilt from its lineage in the journal."""

from __future__ import annotations

import json
from typing import Any

from aiperf.report.facts import Architecture
from aiperf.report.fold import Collected
from morphism import Graph, IllegalGraph, IllegalMorph, Lineage, decode_morph, rebuild
from morphism.codec import DamagedGraphFile, decode, encode
from morphism.morphs import DamagedMorph


def best_architecture(run: Collected) -> Architecture | None:
    """The architecture with the best measured accuracy; None before the first evaluation.

    A graph that this release cannot rebuild (one of another format, from another release's run) is named as such, with the
    reason, and everything else of the report stands.
    """
    if run.best is None:
        return None
    morphs = _lineage(run, run.best)
    try:
        first = decode(json.dumps(run.started.start_graph))
        best = rebuild(Lineage(first, tuple(decode_morph(morph) for morph in morphs)))
    except (DamagedGraphFile, DamagedMorph, IllegalGraph, IllegalMorph) as error:
        return Architecture(trial=run.best, morphs=morphs, graph=None, why_not=str(error), added=())
    before = {node.name: node.op for node in first.nodes}
    added = tuple(node.name for node in best.nodes if before.get(node.name) != node.op)
    return Architecture(trial=run.best, morphs=morphs, graph=json.loads(encode(best)), why_not=None, added=added)


def _lineage(run: Collected, number: int | None) -> tuple[dict[str, Any], ...]:
    steps: list[list[dict[str, Any]]] = []
    while number is not None:
        proposal = run.trials[number].proposal
        steps.append(proposal.morphs)
        number = proposal.parent
    return tuple(morph for step in reversed(steps) for morph in step)


def starting_graph(graph: dict[str, Any]) -> Graph | None:
    """The starting graph in the journal; None where this release cannot read it."""
    try:
        return decode(json.dumps(graph))
    except (DamagedGraphFile, IllegalGraph):
        return None


def start_fingerprint(graph: dict[str, Any]) -> str | None:
    """Of the starting graph in the journal; None where this release cannot read it."""
    read = starting_graph(graph)
    return None if read is None else read.fingerprint


def graph_of(architecture: Architecture) -> Graph | None:
    """The graph again, to be drawn."""
    return None if architecture.graph is None else decode(json.dumps(architecture.graph))
