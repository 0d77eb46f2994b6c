"""Proposals, made again from the run's seed and history and compared: a sample of them, or all.

Floating point differs in the last bits between processors and library versions, and a searcher may then choose otherwise: what
comes out unequal where those differ is not re-derivable here, which is no contradiction. Choices are rounded so that this is
rare (docs/searchers.md): where most of a sample is unequal, by equal versions, another processor explains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiperf.journal.events import AnyEvent, RunResumed, RunStarted, TrialProposed, WorkerJoined
from aiperf.journal.messages import Proposed
from aiperf.rules.state import Run
from aiperf.rules.verify_proposals import FollowedAgain, ProposalsAgain, VerifiedProposal
from aiperf.system.describe import versions
from aiperf.system.processor import cpu_model
from aiperf.verify.check import Notes
from aiperf.verify.finding import Certainty, Checked
from searchers.history import History

LAW = "a proposal follows from the run's seed and the history at its line, architecture and hyperparameters"
LIBRARIES = ("numpy", "scipy", "optuna", "scikit-learn")
"""Whose versions may change a proposal."""


class ProposalsMadeAgain:
    """A check of the run as the rules see it; it keeps the history that searchers see, too."""

    looks_at_epochs = False  # they are no news to a search

    def __init__(self, started: RunStarted, again: ProposalsAgain | FollowedAgain, requested: int) -> None:
        """`again`: makes those that are looked at, of so many that were `requested`."""
        self._notes = Notes("proposals", LAW, "proposals")
        self._notes.of = requested
        self._again = again
        self._unequal: list[tuple[int, VerifiedProposal]] = []
        self._machines: list[Mapping[str, Any]] = [started.machine]

    @property
    def history(self) -> History:
        """What a searcher knows at the line that is looked at."""
        return self._again.history

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """The event, and the run as it stands before it."""
        if isinstance(event, WorkerJoined | RunResumed):
            self._machines.append(event.machine)
        verified = self._again.take(run, event)
        if verified is not None:
            self._notes.examined += 1
            if not verified.is_equal:
                self._unequal.append((line, verified))

    def checked(self) -> Checked:
        """See `Check`."""
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
    """What differs between those machines and this one that may change the last bits of a proposal, in words."""
    here, model = versions(), cpu_model()
    found: dict[str, None] = {}
    for machine in machines:
        there = machine.get("versions") or {}
        for name in LIBRARIES:
            if name in there and there[name] != here.get(name):
                found[f"{name} {there[name]}, here {here.get(name)}"] = None
        if machine.get("cpu_model") not in (None, model):
            found[f"processor {machine['cpu_model']}, here {model}"] = None
    return list(found)


def _difference(verified: VerifiedProposal) -> str:
    """What of a proposal came out otherwise."""
    recorded, anew = verified.recorded, verified.anew
    if isinstance(recorded, TrialProposed) and isinstance(anew, Proposed):
        if recorded.follows != verified.follows:
            return f"follows {recorded.follows!r}, by the followed journal {verified.follows!r}"
        for name in ("searcher", "parent", "batch_size", "kernel_size", "tuned_by", "pruned", "morphs"):
            was, now = getattr(recorded, name), getattr(anew, name)
            if was != (list(now) if isinstance(now, tuple) else now):
                return f"{name} {was!r}, made again {now!r}"
    if not verified.is_in_turn:
        return "of a trial of the followed run whose turn it was not"
    was_words = "a trial" if isinstance(recorded, TrialProposed) else f"rejected ({recorded.reason})"
    if verified.rejected is not None:
        return f"{was_words}, made again rejected ({verified.rejected.reason})"
    return f"{was_words}, made again {'a trial' if isinstance(anew, Proposed) else f'nothing ({anew.reason})'}"
