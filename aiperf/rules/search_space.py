"""Search space of a run, as recorded in the first line of its journal."""

from __future__ import annotations

import json
from typing import Any

from aiperf.journal.events import Metric, RunStarted
from morphism import Architecture, Budget, Detector, decode_architecture
from searchers.history import Space

STEPS = 20
"""Minimum steps of an epoch, so that a large batch leaves enough updates."""


def metric_of(network: Architecture) -> Metric:
    """Return the metric in which a network's quality is measured."""
    return "map50" if isinstance(network, Detector) else "top1"


def recorded(space: Space) -> dict[str, Any]:
    """Return the part of the first line that `space_of` reads, in addition to the starting graph."""
    return {
        "budget": {name: getattr(space.budget, name) for name in Budget.__dataclass_fields__},
        "default_batch_size": space.default_batch_size,
        "smallest_batch_size": space.smallest_batch_size,
        "largest_batch_size": space.largest_batch_size,
        "tuning_from_round": space.tuning_from_round,
    }


def space_of(started: RunStarted) -> Space:
    """Return the space of a run from its journal."""
    config: dict[str, Any] = started.config["space"]
    return Space(
        start=decode_architecture(json.dumps(started.start_graph)),
        budget=Budget(**config["budget"]),
        default_batch_size=config["default_batch_size"],
        smallest_batch_size=config["smallest_batch_size"],
        largest_batch_size=config["largest_batch_size"],
        tuning_from_round=config["tuning_from_round"],
    )
