"""Search space of a run (starting network, budget, batch sizes), as recorded in the first line of its journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from aiperf.journal.events import Metric, RunStarted
from aiperf.rules.limits import STEPS
from morphism import Architecture, Budget, Detector, TokenNumbers, decode_architecture
from searchers.batch_sizes import BATCH_STEP, LEAST
from searchers.history import Space

_NUMBERS = ("default_batch_size", "smallest_batch_size", "largest_batch_size", "tuning_from_round")


def metric_of(network: Architecture) -> Metric:
    """Return the metric of a network's quality.

    'map50' (mean average precision) for a detector, 'next_token' (accuracy) for a language model, else 'top1' (accuracy).
    """
    if isinstance(network, Detector):
        return "map50"
    return "next_token" if isinstance(network.shapes[0], TokenNumbers) else "top1"


def planned(
    config: Mapping[str, Any],
    network: Architecture,
    training_images: int,
    ranks: int,
    memory_bytes: int | None,
    batch_step: int = BATCH_STEP,
) -> Space:
    """Return the search space that the options of a run give for its start, its data set and its workers.

    `memory_bytes`: memory of one rank. Raise ValueError if no space exists, KeyError if `config` lacks an option.
    """
    budget, batch = config["budget"], config["batch"]
    allowed = None if memory_bytes is None else int(budget["memory_share"] * memory_bytes)
    default, largest = bounds(batch["default"], batch["smallest"], batch["largest"], training_images, ranks)
    return Space(
        start=network,
        budget=Budget.of(network, factor=budget["factor"], memory_bytes=allowed, batch=budget["batch"]),
        default_batch_size=default,
        smallest_batch_size=batch["smallest"],
        largest_batch_size=largest,
        tuning_from_round=config["schedule"]["warmup_rounds"] + 1,
        batch_step=batch_step,
    )


def bounds(
    default: int, smallest: int | None, largest: int | None, training_images: int, ranks: int
) -> tuple[int, int]:
    """Return (batch before tuning, largest batch that may be proposed), in images per rank (training process) and step.

    >>> bounds(448, None, None, 1_281_167, 8), bounds(64, 64, 128, 1437, 2), bounds(64, 64, 128, 1437, 16)
    ((448, 8007), (64, 128), (64, 89))
    """
    most = training_images // ranks
    return min(default, most), min(largest, most) if largest else max(smallest or LEAST, most // STEPS)


def recorded(space: Space) -> dict[str, Any]:
    """Return the budget and the limits of the search space for the first line. `space_of` reads them."""
    step = {} if space.batch_step == LEAST else {"batch_step": space.batch_step}
    return {"budget": asdict(space.budget), **{name: getattr(space, name) for name in _NUMBERS}, **step}


def step_of_release(space: Mapping[str, Any]) -> int:
    """Return the batch step by which a recorded search space was planned. Earlier journals record none."""
    return BATCH_STEP if "batch_step" in space else LEAST


def space_of(started: RunStarted) -> Space:
    """Return the search space in the first line. Raise KeyError, TypeError, ValueError or DamagedGraphFile if it is damaged."""
    config: dict[str, Any] = started.config["space"]
    numbers = {name: config[name] for name in _NUMBERS}
    return Space(
        decode_architecture(json.dumps(started.start_graph)),
        Budget(**config["budget"]),
        **numbers,
        learns_from_untuned=started.proposal_rules <= 4,
        batch_step=config.get("batch_step", LEAST),
    )
