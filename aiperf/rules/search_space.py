"""Search space of a run, as recorded in the first line of its journal."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from aiperf.journal.events import Metric, RunStarted
from morphism import Architecture, Budget, Detector, decode_architecture
from searchers.history import Space

STEPS = 20
"""Minimum steps of an epoch, so that a large batch leaves enough updates."""


_NUMBERS = ("default_batch_size", "smallest_batch_size", "largest_batch_size", "tuning_from_round")


def metric_of(network: Architecture) -> Metric:
    """Return the metric of a network's quality: 'map50' for a detector, 'top1' otherwise."""
    return "map50" if isinstance(network, Detector) else "top1"


def recorded(space: Space) -> dict[str, Any]:
    """Return the part of the first line that `space_of` reads, in addition to the starting graph."""
    return {"budget": asdict(space.budget), **{name: getattr(space, name) for name in _NUMBERS}}


def space_of(started: RunStarted) -> Space:
    """Return the search space of a run from its first line: starting network, budget and limits."""
    config: dict[str, Any] = started.config["space"]
    numbers = {name: config[name] for name in _NUMBERS}
    return Space(decode_architecture(json.dumps(started.start_graph)), Budget(**config["budget"]), **numbers)
