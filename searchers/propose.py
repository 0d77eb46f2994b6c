"""A whole proposal: an architecture from the searcher, hyperparameters from tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from morphism import Graph, Morph
    from searchers.history import History, Proposal, Request, Searcher, TunedBy

RULES: Final = 4
"""Which proposal follows from which history, as a version: raised when an equal history gives another proposal.

docs/searchers.md lists them. A journal names those of its run, and is neither resumed nor made again by others.
"""


class Tuned(Protocol):
    """What tuning makes of an architecture."""

    @property
    def morphs(self) -> tuple[Morph, ...]: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def kernel_size(self) -> int | None: ...
    @property
    def tuned_by(self) -> TunedBy: ...


class Tuner(Protocol):
    """Chooses hyperparameters; see searchers.tpe, which is not imported here for Optuna's sake."""

    def tune(self, history: History, request: Request, parent: Graph, graph: Graph) -> Tuned:
        """Hyperparameters for `graph`, which grew from `parent`."""
        ...


def propose(searcher: Searcher, history: History, request: Request, tuner: Tuner | None) -> Proposal:
    """The proposal of that number: a function of the history as told and the request, and of nothing else.

    Number 0 is the starting graph itself, and so is what is asked for as such. For it, before the space's tuning_from_round,
    and with no tuner, the batch size is the default (or the ceiling, where that is smaller) and no kernel is tuned. Raises
    NothingToPropose.
    """
    from searchers.history import (
        Proposal,
    )  # and numpy with it, which who only asks for the version of the rules does without

    space = history.space
    is_start = request.starting_network or request.number == 0
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
