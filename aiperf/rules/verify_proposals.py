"""Verification of a journal's proposals: each is recomputed from its searcher's history and compared."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import msgspec

from aiperf.errors import CannotFollow, OtherRules
from aiperf.journal.events import AnyEvent, FollowedValues, ProposalRequested, RunStarted, TrialProposed, TrialRejected
from aiperf.journal.messages import ProposalFailed, ProposalReturned
from aiperf.rules.followed import FollowedHistory
from aiperf.rules.observations import observations
from aiperf.rules.proposals import Proposer, check, make, returned
from aiperf.rules.replay_queue import ReplayQueue, answer
from aiperf.rules.search_space import space_of
from aiperf.rules.state import Run
from searchers.history import History
from searchers.propose import RULES


@dataclass(frozen=True, slots=True)
class VerifiedProposal:
    """Recorded proposal and the recomputed proposal."""

    number: int
    recorded: TrialProposed | TrialRejected
    anew: ProposalReturned | ProposalFailed
    rejected: TrialRejected | None
    """Rejection of the recomputed proposal by the driver's check, with the history at the recorded line."""
    follows: FollowedValues | None = None
    """Values of the followed trial, from the followed journal."""
    is_in_turn: bool = True
    """True if it is the first trial of the followed run that was ready."""

    @property
    def is_equal(self) -> bool:
        """True if both agree in everything except their duration. A request without an answer always agrees."""
        if not self.is_in_turn:
            return False
        if isinstance(self.recorded, TrialRejected):
            return self._is_rightly_rejected(self.recorded)
        if isinstance(self.anew, ProposalFailed):
            return False
        recorded = msgspec.structs.replace(returned(self.recorded), seconds=self.anew.seconds)
        return recorded == self.anew and self.recorded.follows == self.follows

    def _is_rightly_rejected(self, recorded: TrialRejected) -> bool:
        was_nothing = isinstance(self.anew, ProposalFailed)
        is_refused = self.rejected is not None and self.rejected.reason == recorded.reason
        match recorded.by:
            case "generator" | "silence":
                return True
            case "searcher":
                return was_nothing
            case "check":
                return is_refused


def check_rules(first: RunStarted) -> None:
    """Raise OtherRules if this code has another version of the proposal rules than the run."""
    if first.proposal_rules != RULES:
        raise OtherRules(
            f"all proposals of a run follow one version of the proposal rules. The run '{first.run}' was made by version "
            f"{first.proposal_rules}, this aiperf has version {RULES}. Install the aiperf of that run "
            f"({_named(first.versions)})"
        )


def _named(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {versions[name]}" for name in ("aiperf-cluster", "optuna") if name in versions)


class ProposalReplay:
    """Recomputation of proposals during a replay. Call `take` with each event and the run before it.

    `numbers`: proposals to recompute. None for all. `history` is the searcher's history at each line.
    """

    def __init__(self, started: RunStarted, proposer: Proposer, numbers: Container[int] | None = None) -> None:
        """Raise OtherRules if this code has another version of the proposal rules than the journal."""
        check_rules(started)
        self.history = History(space_of(started))
        self._proposer = proposer
        self._numbers = numbers
        self._made: dict[int, ProposalReturned | ProposalFailed] = {}

    def take(self, run: Run, event: AnyEvent) -> VerifiedProposal | None:
        """Take the next event. Return the proposal that it records if it was recomputed."""
        verified: VerifiedProposal | None = None
        if isinstance(event, ProposalRequested):
            if self._numbers is None or event.number in self._numbers:
                self._made[event.number] = make(self._proposer, self.history, event)
        elif isinstance(event, TrialProposed | TrialRejected):
            anew = self._made.pop(event.number, None)
            if anew is not None:
                verified = self._compared(run, event, anew)
        self.history.tell(observations(run, event))
        return verified

    def _compared(
        self, run: Run, event: TrialProposed | TrialRejected, anew: ProposalReturned | ProposalFailed
    ) -> VerifiedProposal:
        checked = None
        if isinstance(anew, ProposalReturned):
            checked = check(self.history, run.requests[event.number], anew, event.at)
        return VerifiedProposal(event.number, event, anew, checked if isinstance(checked, TrialRejected) else None)


def check_followed(first: RunStarted, work: FollowedHistory, last_hash: str) -> FollowedHistory:
    """Return `work` if it is the run that this run follows. Otherwise raise CannotFollow.

    `last_hash`: last hash of the journal that `work` was read from.
    """
    assert first.follows is not None, "checked by the caller"
    followed = f"'{first.follows.run}' (hash {first.follows.last_hash[:12]}…)"
    if last_hash != first.follows.last_hash:
        raise CannotFollow(
            f"the proposals of '{first.run}' are recomputed from the journal of {followed}. The given journal is "
            f"'{work.first.run}' with the hash {last_hash[:12]}…: "
            "give the journal of the followed run"
        )
    return work


class FollowedReplay:
    """Recomputation of the proposals of a following run from the followed trials.

    Call `take` with each event and the run before it.
    """

    def __init__(self, started: RunStarted, agenda: ReplayQueue) -> None:
        """`agenda`: replay queue of the followed run before its first event (`check_followed`)."""
        self.history = History(space_of(started))
        self._agenda = agenda
        self._turns: dict[int, bool] = {}

    def take(self, run: Run, event: AnyEvent) -> VerifiedProposal | None:
        """Take the next event. Return the recomputed proposal that it records."""
        verified: VerifiedProposal | None = None
        if isinstance(event, ProposalRequested):
            due = self._agenda.first
            self._turns[event.number] = due is not None and due.number == event.follows
        elif isinstance(event, TrialProposed | TrialRejected):
            verified = self._compared(run.requests[event.number], event)
        self._agenda.take(event)
        self.history.tell(observations(run, event))
        return verified

    def _compared(self, request: ProposalRequested, recorded: TrialProposed | TrialRejected) -> VerifiedProposal:
        is_in_turn = self._turns.pop(recorded.number)
        anew = answer(self._agenda, self.history, request, recorded.at)
        if isinstance(anew, TrialRejected):
            nothing = ProposalFailed(number=anew.number, reason=anew.reason)
            return VerifiedProposal(recorded.number, recorded, nothing, anew, is_in_turn=is_in_turn)
        return VerifiedProposal(recorded.number, recorded, returned(anew), None, anew.follows, is_in_turn)
