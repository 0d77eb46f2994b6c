"""Search of architectures and tuning of hyperparameters, as functions of the history of a run.

The entry point is `propose(searcher, history, request, tuner)`. Optuna, Ray and numpy are imported at their first use, since
the help of the command line needs only the configuration classes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from searchers.propose import RULES, Tuner, propose

if TYPE_CHECKING:
    from searchers.growth import NothingToPropose
    from searchers.history import (
        PARENTS,
        Cause,
        CeilingKnown,
        FailedTrial,
        Finished,
        History,
        Observation,
        OutOfMemoryPoint,
        Proposal,
        ReducedBatch,
        Request,
        Requested,
        RequestWithoutTrial,
        Searcher,
        Space,
        SpareBegan,
        TrialInFlight,
        UnknownTrial,
        WeightsDropped,
        WithdrawnTrial,
    )
    from searchers.searcher_config import (
        EvolutionConf,
        HpoConf,
        MorphismConf,
        OffConf,
        RandomConf,
        SearcherConf,
        TpeConf,
        UnusableConf,
    )

__all__ = [
    "PARENTS",
    "RULES",
    "Cause",
    "CeilingKnown",
    "EvolutionConf",
    "FailedTrial",
    "Finished",
    "History",
    "HpoConf",
    "MorphismConf",
    "NothingToPropose",
    "Observation",
    "OffConf",
    "OutOfMemoryPoint",
    "Proposal",
    "RandomConf",
    "ReducedBatch",
    "Request",
    "RequestWithoutTrial",
    "Requested",
    "Searcher",
    "SearcherConf",
    "Space",
    "SpareBegan",
    "TpeConf",
    "TrialInFlight",
    "Tuner",
    "UnknownTrial",
    "UnusableConf",
    "WeightsDropped",
    "WithdrawnTrial",
    "propose",
]

_HOMES = {
    "searchers.growth": ("NothingToPropose",),
    "searchers.history": (
        "PARENTS",
        "SpareBegan",
        "Cause",
        "CeilingKnown",
        "FailedTrial",
        "Finished",
        "History",
        "Observation",
        "OutOfMemoryPoint",
        "Proposal",
        "TrialInFlight",
        "Request",
        "Requested",
        "Searcher",
        "ReducedBatch",
        "Space",
        "UnknownTrial",
        "RequestWithoutTrial",
        "WeightsDropped",
        "WithdrawnTrial",
    ),
    "searchers.searcher_config": (
        "EvolutionConf",
        "HpoConf",
        "MorphismConf",
        "OffConf",
        "RandomConf",
        "SearcherConf",
        "TpeConf",
        "UnusableConf",
    ),
}
"""Modules of the names that are imported at their first use."""


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
