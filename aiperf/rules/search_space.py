"""What a run's searchers may propose, as its journal's first line records it."""

from __future__ import annotations

import json
from typing import Any

from aiperf.journal.events import RunStarted
from morphism import Budget, decode
from searchers.history import Space

STEPS = 20
"""An epoch has at least so many, so that a large batch does not end in a handful of updates."""


def recorded(space: Space) -> dict[str, Any]:
    """What the first line says besides the starting graph; `space_of` reads it."""
    return {
        "budget": {name: getattr(space.budget, name) for name in Budget.__dataclass_fields__},
        "default_batch_size": space.default_batch_size,
        "smallest_batch_size": space.smallest_batch_size,
        "largest_batch_size": space.largest_batch_size,
        "tuning_from_round": space.tuning_from_round,
    }


def space_of(started: RunStarted) -> Space:
    """The space of a run, from its journal alone."""
    config: dict[str, Any] = started.config["space"]
    return Space(
        start=decode(json.dumps(started.start_graph)),
        budget=Budget(**config["budget"]),
        default_batch_size=config["default_batch_size"],
        smallest_batch_size=config["smallest_batch_size"],
        largest_batch_size=config["largest_batch_size"],
        tuning_from_round=config["tuning_from_round"],
    )
