"""Checks of proposals: recompute a sample, or all, from seed and history, and rebuild architectures.

The last bits of floating point differ between processors and library versions: an unequal proposal is a contradiction only with
equal versions, and with another processor if most of a sample is unequal. In a long run a sample of architectures is rebuilt.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from aiperf.journal.events import (
    COUNTS,
    AnyEvent,
    ProposalRequested,
    RunResumed,
    RunStarted,
    TrialProposed,
    TrialRejected,
    WorkerJoined,
)
from aiperf.journal.messages import ProposalFailed, ProposalReturned
from aiperf.rules.followed import ReplayQueue, answer
from aiperf.rules.proposals import Proposer, check, check_rules, counts_of, make, observations, returned
from aiperf.rules.search_space import space_of
from aiperf.rules.state import Run
from aiperf.system.describe import versions
from aiperf.system.host import cpu_model
from aiperf.verify.check import Certainty, CheckResult, StateCheck
from morphism import Architecture, DamagedMorph, IllegalMorph, decode_morph
from searchers.history import History

ARCHITECTURE = "a trial's architecture, its fingerprint and its operations follow from its parent's and its morphs"
GROWS = "an architecture has at least the operations and parameters of its parent, and is within the budget"
NOT_COMPARED = frozenset({"at", "seconds"})


class Graphs(StateCheck):
    """Check architectures, fingerprints and counts. `drawn`: trials to rebuild. `history` is updated by the caller."""

    def __init__(self, history: History, drawn: frozenset[int], *, is_searched: bool) -> None:
        self._history = history
        self._drawn = drawn
        self._counts: dict[int | None, tuple[int, ...]] = {None: _counts(history.space.start)}
        """Counts of each trial. Key None: the starting graph."""
        self._is_searched = is_searched
        self._notes = CheckResult("graphs", ARCHITECTURE, "architectures")

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        if isinstance(event, TrialProposed):
            self._check_growth(line, event)
            if event.number not in self._drawn:
                return
            self._notes.examined += 1
            for name, found in self._differences(run, event).items():
                self._notes.add(line, f"trial {event.number}: {name} {found}")

    def checked(self) -> CheckResult:
        notes = self._notes
        notes.of = len(self._counts) - 1
        left_out = [] if self._is_searched else ["the check of the driver: the architectures are those of a list"]
        if notes.examined < notes.of and (notes.examined or not self._drawn):
            left_out.append(
                f"{notes.of - notes.examined} were compared only with their parents and the budget (use --all)"
            )
        notes.not_checked = "; ".join(left_out) or None
        return notes.close()

    def _check_growth(self, line: int, event: TrialProposed) -> None:
        counts = self._counts[event.number] = tuple(getattr(event, name) for name in COUNTS)
        before, budget = self._counts[event.parent], self._history.space.budget
        limits = (
            (("forward_flops", budget.forward_flops), ("parameters", budget.parameters)) if self._is_searched else ()
        )
        for name, was, now in zip(COUNTS, before, counts, strict=True):
            if now < was:
                self._notes.add(line, f"trial {event.number}: {name} {now!r}, its parent's {was!r}", law=GROWS)
        for name, allowed in limits:
            if allowed is not None and getattr(event, name) > allowed:
                found = f"trial {event.number}: {name} {getattr(event, name)!r}, allowed {allowed!r}"
                self._notes.add(line, found, law=GROWS)

    def _differences(self, run: Run, event: TrialProposed) -> Mapping[str, str]:
        if not self._is_searched:
            return _differing(event, self._rebuilt(event))
        again = check(self._history, run.requests[event.number], returned(event), event.at)
        if isinstance(again, TrialRejected):
            return {"would be rejected:": again.reason}
        return _differing(event, msgspec.structs.asdict(again))

    def _rebuilt(self, event: TrialProposed) -> dict[str, Any]:
        try:
            network = self._history.architecture(event.parent, tuple(map(decode_morph, event.morphs)))
        except (IllegalMorph, DamagedMorph) as error:
            return {"morphs": str(error)}
        return counts_of(network)


def _counts(network: Architecture) -> tuple[int, ...]:
    counted = counts_of(network)
    return tuple(counted[name] for name in COUNTS)


def _differing(event: TrialProposed, again: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: f"{getattr(event, name)!r}, recomputed {value!r}"
        for name, value in again.items()
        if name not in NOT_COMPARED and getattr(event, name) != value
    }


LAW = "a proposal follows from the run's seed and the history at its line, architecture and hyperparameters"
LIBRARIES = ("numpy", "scipy", "optuna", "scikit-learn")
"""Libraries with an influence on proposals."""


@dataclass(frozen=True, slots=True)
class VerifiedProposal:
    recorded: TrialProposed | TrialRejected
    again: TrialProposed | TrialRejected
    is_in_turn: bool = True
    """False if a run of a list requested another trial than the first that is left."""

    @property
    def number(self) -> int:
        return self.recorded.number

    @property
    def difference(self) -> str | None:
        """First difference, as text. A rejection for silence or for a lost generator agrees with every answer."""
        recorded, again = self.recorded, self.again
        if not self.is_in_turn:
            return "it follows a trial of the list out of turn"
        if isinstance(recorded, TrialRejected):
            is_equal = isinstance(again, TrialRejected) and (again.by, again.reason) == (recorded.by, recorded.reason)
            if is_equal or recorded.by in ("generator", "silence"):
                return None
        elif isinstance(again, TrialProposed):
            differing = _differing(recorded, msgspec.structs.asdict(again))
            return next((f"{name} {found}" for name, found in differing.items()), None)
        return f"{_named(recorded)}, recomputed: {_named(again)}"

    @property
    def is_equal(self) -> bool:
        return self.difference is None


def _named(answer: TrialProposed | TrialRejected) -> str:
    return "a trial" if isinstance(answer, TrialProposed) else f"rejected ({answer.reason})"


class ProposalReplay:
    """Recomputation of proposals, line by line. `proposer` None: only keep the history."""

    def __init__(self, started: RunStarted, proposer: Proposer | None, numbers: Container[int] | None = None) -> None:
        check_rules(started)
        self.history = History(space_of(started))
        self._proposer = proposer
        self._numbers = numbers
        self._made: dict[int, ProposalReturned | ProposalFailed] = {}

    def take(self, run: Run, event: AnyEvent) -> VerifiedProposal | None:
        """Process the next event, and return the recorded and the recomputed answer if it is a checked proposal."""
        verified: VerifiedProposal | None = None
        if isinstance(event, ProposalRequested):
            if self._proposer is not None and (self._numbers is None or event.number in self._numbers):
                self._made[event.number] = make(self._proposer, self.history, event)
        elif isinstance(event, TrialProposed | TrialRejected) and event.number in self._made:
            verified = VerifiedProposal(event, self._again(run, event))
        self.history.observe(observations(run, event))
        return verified

    def _again(self, run: Run, event: TrialProposed | TrialRejected) -> TrialProposed | TrialRejected:
        made = self._made.pop(event.number)
        if isinstance(made, ProposalFailed):
            return TrialRejected(at=event.at, number=made.number, by="searcher", reason=made.reason)
        return check(self.history, run.requests[event.number], made, event.at)


class FollowedReplay:
    """The same for a run of a list. It updates the queue."""

    def __init__(self, started: RunStarted, replay: ReplayQueue) -> None:
        self.history = History(space_of(started))
        self._agenda = replay
        self._turns: dict[int, bool] = {}

    def take(self, run: Run, event: AnyEvent) -> VerifiedProposal | None:
        verified: VerifiedProposal | None = None
        if isinstance(event, ProposalRequested):
            self._turns[event.number] = self._agenda.first == event.follows
        elif isinstance(event, TrialProposed | TrialRejected):
            request = run.requests[event.number]
            again = answer(self._agenda.work, self.history, request, run.workers[request.worker].ranks, event.at)
            verified = VerifiedProposal(event, again, self._turns.pop(event.number))
        self._agenda.take(event)
        self.history.observe(observations(run, event))
        return verified


class RecomputedProposals(StateCheck):
    """Check that recorded proposals equal recomputed ones. The check also keeps the searchers' history."""

    def __init__(
        self, started: RunStarted, again: ProposalReplay | FollowedReplay, answered: int, why_not: str | None
    ) -> None:
        self._notes = CheckResult("proposals", LAW, "proposals")
        self._notes.of = answered
        self._notes.not_checked = why_not
        self._again = again
        self._unequal: list[tuple[int, str]] = []
        self._machines: list[Mapping[str, Any]] = [started.machine]

    @property
    def history(self) -> History:
        return self._again.history

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        if isinstance(event, WorkerJoined | RunResumed):
            self._machines.append(event.machine)
        verified = self._again.take(run, event)
        if verified is not None:
            self._notes.examined += 1
            if verified.difference is not None:
                self._unequal.append((line, f"proposal {verified.number}: {verified.difference}"))

    def add(self, line: int, found: str) -> None:
        self._notes.add(line, found)

    def checked(self) -> CheckResult:
        notes = self._notes
        differs = _differences(self._machines)
        certainty = self._certainty(differs)
        here = "" if certainty == "contradiction" else f" (not re-derivable here: {'; '.join(differs)})"
        for line, found in self._unequal:
            notes.add(line, f"{found}{here}", certainty)
        return notes.close()

    def _certainty(self, differs: list[str]) -> Certainty:
        is_by_versions = any(not one.startswith("processor") for one in differs)
        if is_by_versions or (differs and 2 * len(self._unequal) <= self._notes.examined):
            return "cannot be determined"
        return "contradiction"


def _differences(machines: Iterable[Mapping[str, Any]]) -> list[str]:
    here, model = versions(), cpu_model()
    differences: dict[str, None] = {}
    for machine in machines:
        recorded = machine.get("versions") or {}
        for name in LIBRARIES:
            if name in recorded and recorded[name] != here.get(name):
                differences[f"{name} {recorded[name]}, here {here.get(name)}"] = None
        if machine.get("cpu_model") not in (None, model):
            differences[f"processor {machine['cpu_model']}, here {model}"] = None
    return list(differences)
