"""Check of architectures: rebuild each from its lineage and compare fingerprint and operation counts.

This takes 2 ms for each architecture. In a long run a sample is rebuilt, and the others are compared with their parents and the
budget, because morphs only add operations. The check of the driver is repeated for a searcher's architecture: legal morphs,
existing weights, budget, no duplicate. All values are whole numbers, without tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from aiperf.journal.events import COUNTS, AnyEvent, TrialProposed, TrialRejected
from aiperf.journal.messages import ProposalReturned
from aiperf.rules.proposals import check
from aiperf.rules.state import Run
from aiperf.verify.check import Notes
from aiperf.verify.finding import CheckResult
from morphism import DamagedMorph, Graph, IllegalMorph, cost, decode_morph
from searchers.history import History

LAW = "a trial's architecture, its fingerprint and its operations follow from its parent's and its morphs"
GROWS = "an architecture has at least the operations and parameters of its parent, and is within the budget"
NOT_COMPARED = frozenset({"at", "seconds"})


class Graphs:
    """Check architectures, fingerprints and operation counts."""

    looks_at_epochs = False

    def __init__(self, history: History, drawn: frozenset[int], *, is_searched: bool) -> None:
        """Keep `drawn`: numbers of the trials to rebuild. `is_searched`: False for a run that follows another."""
        self._history = history
        self._drawn = drawn
        self._counts: dict[int | None, tuple[int, ...]] = {None: _counts(_counted(history.space.start))}
        """Counts of each trial. Key None: the starting graph."""
        self._is_searched = is_searched
        self._notes = Notes("graphs", LAW, "architectures")

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """Examine an event. `run`: state before the event."""
        if isinstance(event, TrialProposed):
            self._check_growth(line, event)
            if event.number not in self._drawn:
                return
            self._notes.examined += 1
            for name, found in self._differences(run, event).items():
                self._notes.add(line, LAW, f"trial {event.number}: {name} {found}")

    def checked(self) -> CheckResult:
        """Return the result."""
        notes = self._notes
        notes.of = len(self._counts) - 1
        left_out = (
            [] if self._is_searched else ["the check of the driver: the architectures are those of a followed run"]
        )
        if notes.examined < notes.of and (notes.examined or not self._drawn):
            left_out.append(
                f"{notes.of - notes.examined} were compared only with their parents and the budget (use --all)"
            )
        notes.not_checked = "; ".join(left_out) or None
        return notes.checked()

    def _check_growth(self, line: int, event: TrialProposed) -> None:
        counts = self._counts[event.number] = tuple(getattr(event, name) for name in COUNTS)
        before, budget = self._counts[event.parent], self._history.space.budget
        for name, was, now in zip(COUNTS, before, counts, strict=True):
            if now < was:
                self._notes.add(line, GROWS, f"trial {event.number}: {name} {now!r}, its parent's {was!r}")
        for name, allowed in (("forward_flops", budget.forward_flops), ("parameters", budget.parameters)):
            if allowed is not None and getattr(event, name) > allowed:
                self._notes.add(
                    line, GROWS, f"trial {event.number}: {name} {getattr(event, name)!r}, allowed {allowed!r}"
                )

    def _differences(self, run: Run, event: TrialProposed) -> Mapping[str, str]:
        if not self._is_searched:
            return _differing(event, self._rebuilt(event))
        again = check(self._history, run.requests[event.number], _message(event), event.at)
        if isinstance(again, TrialRejected):
            return {"would be rejected:": again.reason}
        return _differing(event, msgspec.structs.asdict(again))

    def _rebuilt(self, event: TrialProposed) -> dict[str, Any]:
        try:
            graph = self._history.grown(event.parent, tuple(map(decode_morph, event.morphs)))
        except (IllegalMorph, DamagedMorph) as error:
            return {"morphs": str(error)}
        return _counted(graph)


def _counted(graph: Graph) -> dict[str, Any]:
    counted = cost(graph)
    return {
        "fingerprint": graph.fingerprint,
        "forward_flops": counted.forward_flops,
        "backward_flops": counted.backward_flops,
        "validation_flops": counted.forward_validation_flops,
        "tensor_forward_flops": counted.tensor_forward_flops,
        "tensor_backward_flops": counted.tensor_backward_flops,
        "parameters": counted.parameters,
    }


def _counts(counted: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(counted[name] for name in COUNTS)


def _message(event: TrialProposed) -> ProposalReturned:
    """Return the message that the line records."""
    return ProposalReturned(
        number=event.number,
        searcher=event.searcher,
        parent=event.parent,
        morphs=tuple(event.morphs),
        batch_size=event.batch_size,
        kernel_size=event.kernel_size,
        pruned=tuple(event.pruned),
        seconds=event.seconds,
        tuned_by=event.tuned_by,
    )


def _differing(event: TrialProposed, again: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: f"{getattr(event, name)!r}, recomputed {value!r}"
        for name, value in again.items()
        if name not in NOT_COMPARED and getattr(event, name) != value
    }
