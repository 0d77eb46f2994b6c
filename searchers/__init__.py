"""What a run tries next: searchers of architectures and tuning of hyperparameters, as functions of the history.

`propose(searcher, history, request, tuner)` is the whole of it. Neither Optuna nor Ray is imported before it is needed.
"""

from searchers.growth import NothingToPropose
from searchers.history import (
    PARENTS,
    Began,
    Cause,
    CeilingKnown,
    Failed,
    Finished,
    History,
    Observation,
    Point,
    Proposal,
    Proposed,
    Request,
    Requested,
    Searcher,
    Shrunk,
    Space,
    UnknownTrial,
    Unproposed,
    WeightsDropped,
    Withdrawn,
)
from searchers.propose import RULES, Tuner, propose
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
    "Began",
    "Cause",
    "CeilingKnown",
    "EvolutionConf",
    "Failed",
    "Finished",
    "History",
    "HpoConf",
    "MorphismConf",
    "NothingToPropose",
    "Observation",
    "OffConf",
    "Point",
    "Proposal",
    "Proposed",
    "RandomConf",
    "Request",
    "Requested",
    "Searcher",
    "SearcherConf",
    "Shrunk",
    "Space",
    "TpeConf",
    "Tuner",
    "UnknownTrial",
    "Unproposed",
    "UnusableConf",
    "WeightsDropped",
    "Withdrawn",
    "propose",
]
