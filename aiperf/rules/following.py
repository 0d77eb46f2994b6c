"""Answer to a request of a following run: the driver takes it from the earlier journal.

A trial that would be different work is rejected with the reason in the journal. The trial has the same weights, batch and
network as the trial that it follows.
"""

from __future__ import annotations

from aiperf.journal.events import COUNTS, ProposalRequested, TrialProposed, TrialRejected
from aiperf.journal.messages import ProposalReturned
from aiperf.rules.followed import FollowedTrial
from aiperf.rules.proposals import described
from aiperf.rules.replay_queue import ReplayQueue
from morphism import DamagedMorph, IllegalMorph, cost, decode_morph
from searchers.history import History

FOLLOW = "follow"
"""Name of the searcher in the proposals of such a run."""
SAME = ("fingerprint", *COUNTS)
"""Counts of a proposal that must be equal in both runs."""


def answer(
    agenda: ReplayQueue, history: History, request: ProposalRequested, at: float
) -> TrialProposed | TrialRejected:
    """Return the requested trial as one of this run, or a rejection with the reason."""
    assert request.follows is not None, "a run that follows asks for nothing else"
    wanted = agenda.trial(request.follows)
    parent = None if wanted.proposal.parent is None else agenda.here.get(wanted.proposal.parent)

    def rejected(reason: str) -> TrialRejected:
        return TrialRejected(at=at, number=request.number, by="check", reason=reason)

    if (reason := _without_weights(agenda, history, wanted)) is not None:
        return rejected(reason)
    if history.ceiling is not None and wanted.batch_size > history.ceiling:
        return rejected(
            f"trial {wanted.number} of the followed run had batches of {wanted.batch_size}; the most that fits here was "
            f"measured to be {history.ceiling}"
        )
    word = ProposalReturned(
        number=request.number,
        searcher=FOLLOW,
        parent=parent,
        morphs=tuple(wanted.proposal.morphs),
        batch_size=wanted.batch_size,
        kernel_size=wanted.proposal.kernel_size,
        pruned=(),
        seconds=0.0,
        tuned_by=wanted.proposal.tuned_by,
    )
    try:
        graph = history.grown(parent, tuple([decode_morph(morph) for morph in word.morphs]))
    except (IllegalMorph, DamagedMorph) as error:
        return rejected(str(error))
    proposed = described(history, request, word, graph, cost(graph), at, wanted.follows)
    for name in SAME:
        if (current := getattr(proposed, name)) != (recorded := getattr(wanted.proposal, name)):
            return rejected(
                f"trial {wanted.number} of the followed run has {name} {recorded!r} in its journal; the same morphs give "
                f"{current!r} here"
            )
    return proposed


def _without_weights(agenda: ReplayQueue, history: History, wanted: FollowedTrial) -> str | None:
    """Return the reason for missing inherited weights. None if they are present or none are inherited."""
    followed_parent = wanted.proposal.parent
    if followed_parent is None:
        return None
    parent = agenda.here.get(followed_parent)
    inherits = f"trial {wanted.number} of the followed run inherits from its trial {followed_parent}"
    if parent is None:
        return f"{inherits}, which could not be trained here"
    if parent not in history.accuracies:
        return f"{inherits}, whose like here, trial {parent}, did not finish"
    if history.were_weights_dropped(parent):
        return f"{inherits}; the weights of its like here, trial {parent}, are gone"
    return None
