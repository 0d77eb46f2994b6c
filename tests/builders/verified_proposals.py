"""All proposals of a journal, recomputed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.rules.evolve import replay
from aiperf.rules.followed import ReplayQueue, TrialList
from aiperf.rules.proposals import Proposer
from aiperf.verify.proposals import FollowedReplay, ProposalReplay, VerifiedProposal


def verify_proposals(
    events: Iterable[AnyEvent],
    proposer: Proposer,
    followed: TrialList | None = None,
) -> Iterator[VerifiedProposal]:
    """Yield each proposal of a journal, recomputed with the history at the line of its request.

    Floating-point results differ in the last bits between processors and library versions. If these differ from the
    journal's, an unequal proposal means "not re-derivable here" and not "wrong". `followed`: the list of the run.

    Raises:
        OtherRules: the journal uses another version of the proposal rules.
    """
    again: ProposalReplay | FollowedReplay | None = None
    for run, event in replay(events):
        if again is None:
            assert isinstance(event, RunStarted), "a replay begins with it"
            if followed is None:
                again = ProposalReplay(event, proposer)
            else:
                again = FollowedReplay(event, ReplayQueue(followed))
        elif (verified := again.take(run, event)) is not None:
            yield verified
