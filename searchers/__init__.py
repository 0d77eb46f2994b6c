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

_MODULES = ("searchers.searcher_config", "searchers.history", "searchers.growth")
"""Modules of the names above. They are imported at the first use of a name, the fastest import first."""


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for module in map(importlib.import_module, _MODULES):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
