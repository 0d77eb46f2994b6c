"""Search space of a run (starting network, budget, batch sizes), as recorded in the first line of its journal."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from aiperf.journal.events import Metric, RunStarted
from morphism import Architecture, Budget, Detector, decode_architecture
from searchers.history import Space

_NUMBERS = ("default_batch_size", "smallest_batch_size", "largest_batch_size", "tuning_from_round")


def metric_of(network: Architecture) -> Metric:
    """Return the metric of a network's quality: 'map50' (mean average precision) for a detector, else 'top1' (accuracy)."""
    return "map50" if isinstance(network, Detector) else "top1"


def recorded(space: Space) -> dict[str, Any]:
    """Return the budget and the limits of the search space for the first line. `space_of` reads them."""
    return {"budget": asdict(space.budget), **{name: getattr(space, name) for name in _NUMBERS}}


def space_of(started: RunStarted) -> Space:
    """Return the search space in the first line. Raise KeyError, TypeError, ValueError or DamagedGraphFile if it is damaged."""
    config: dict[str, Any] = started.config["space"]
    numbers = {name: config[name] for name in _NUMBERS}
    return Space(decode_architecture(json.dumps(started.start_graph)), Budget(**config["budget"]), **numbers)
