"""Check of proposals: recompute a sample, or all, from the run's seed and history, and compare.

The last bits of floating point differ between processors and library versions. A searcher may then choose otherwise, so an
unequal proposal on such a machine is no contradiction. Choices are rounded to make this rare (docs/searchers.md). If most of a
sample is unequal with equal versions, another processor is no explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiperf.journal.events import AnyEvent, RunResumed, RunStarted, TrialProposed, WorkerJoined
from aiperf.journal.messages import ProposalReturned
from aiperf.rules.state import Run
from aiperf.rules.verify_proposals import FollowedReplay, ProposalReplay, VerifiedProposal
from aiperf.system.describe import versions
from aiperf.system.host import cpu_model
from aiperf.verify.check import Notes
from aiperf.verify.finding import Certainty, CheckResult
from searchers.history import History

LAW = "a proposal follows from the run's seed and the history at its line, architecture and hyperparameters"
LIBRARIES = ("numpy", "scipy", "optuna", "scikit-learn")
"""Libraries with an influence on proposals."""


class RecomputedProposals:
    """Check proposals. The check also keeps the searchers' history."""

    looks_at_epochs = False

    def __init__(
        self, started: RunStarted, again: ProposalReplay | FollowedReplay, answered: int, *, is_any_drawn: bool
    ) -> None:
        """Keep `again`: recomputes the sample. `answered`: number of accepted and rejected proposals."""
        self._notes = Notes("proposals", LAW, "proposals")
        self._notes.of = answered
        if not is_any_drawn:
            self._notes.not_checked = "all of them (--sample 0)"
        self._again = again
        self._unequal: list[tuple[int, VerifiedProposal]] = []
        self._machines: list[Mapping[str, Any]] = [started.machine]

    @property
    def history(self) -> History:
        """Return the searchers' history at the current line."""
        return self._again.history

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """Examine an event. `run`: state before the event."""
        if isinstance(event, WorkerJoined | RunResumed):
            self._machines.append(event.machine)
        verified = self._again.take(run, event)
        if verified is not None:
            self._notes.examined += 1
            if not verified.is_equal:
                self._unequal.append((line, verified))

    def checked(self) -> CheckResult:
        """Return the result."""
        notes = self._notes
        differs = _differences(self._machines)
        certainty = self._certainty(differs)
        for line, verified in self._unequal:
            here = "" if certainty == "contradiction" else f" (not re-derivable here: {'; '.join(differs)})"
            notes.add(line, LAW, f"proposal {verified.number}: {_difference(verified)}{here}", certainty)
        return notes.checked()

    def _certainty(self, differs: list[str]) -> Certainty:
        is_by_versions = any(not one.startswith("processor") for one in differs)
        if is_by_versions or (differs and 2 * len(self._unequal) <= self._notes.examined):
            return "cannot be determined"
        return "contradiction"


def _differences(machines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the differences between the machines and this one that may change a proposal, as text."""
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


def _difference(verified: VerifiedProposal) -> str:
    """Return the difference between a recorded and a recomputed proposal, as text."""
    recorded, anew = verified.recorded, verified.anew
    if isinstance(recorded, TrialProposed) and isinstance(anew, ProposalReturned):
        if recorded.follows != verified.follows:
            return f"follows {recorded.follows!r}, by the followed journal {verified.follows!r}"
        for name in ("searcher", "parent", "batch_size", "kernel_size", "tuned_by", "pruned", "morphs"):
            was, now = getattr(recorded, name), getattr(anew, name)
            if was != (list(now) if isinstance(now, tuple) else now):
                return f"{name} {was!r}, recomputed {now!r}"
    if not verified.is_in_turn:
        return "it follows a trial of the followed run out of turn"
    original = "a trial" if isinstance(recorded, TrialProposed) else f"rejected ({recorded.reason})"
    if verified.rejected is not None:
        return f"{original}, recomputed: rejected ({verified.rejected.reason})"
    return f"{original}, recomputed: {'a trial' if isinstance(anew, ProposalReturned) else f'nothing ({anew.reason})'}"
