"""Proposals of networks to train: an architecture from the searcher and hyperparameters from tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from searchers.history import History, Proposal, Request, Searcher
    from searchers.tpe import Tpe

RULES: Final = 5
"""Version of the rules of proposals (docs/searchers.md). It changes if an equal history gives another proposal."""
REPEATABLE_RULES: Final = (4, RULES)
"""Versions by which this release can resume a run and recompute its proposals."""


def propose(searcher: Searcher, history: History, request: Request, tuner: Tpe | None) -> Proposal:
    """Return a network to train next, with its batch size and kernel size. It depends on the arguments only.

    `tuner`: None for no tuning. Nothing is tuned for the starting network and before round `space.tuning_from_round`: the
    batch size is then the smaller of the default and the measured largest batch. Raise NothingToPropose if the search finds
    no new architecture within the budget, or if a network other than the starting network is requested for a detector.
    """
    from morphism import Graph
    from searchers.growth import NothingToPropose
    from searchers.history import Proposal  # imports numpy, which users of RULES do not need

    space = history.space
    is_start = request.starting_network or request.number == 0
    if not is_start and not isinstance(space.start, Graph):
        raise NothingToPropose("a detector is not searched: set limits.trials=1")
    parent, morphs = (None, ()) if is_start else searcher.propose(history, request)
    if tuner is None or is_start or request.round < space.tuning_from_round:
        batch_size = (
            space.default_batch_size if history.ceiling is None else min(space.default_batch_size, history.ceiling)
        )
        return Proposal(searcher.name, parent, morphs, batch_size, None)
    tuned = tuner.tune(history, request, history.graph(parent), history.grown(parent, morphs))
    return Proposal(
        searcher.name, parent, (*morphs, *tuned.morphs), tuned.batch_size, tuned.kernel_size, (), tuned.tuned_by
    )
