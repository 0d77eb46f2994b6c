"""Architectures: each is built again from its lineage, fingerprinted, and its operations counted again.

Of a long run that is done for a sample, at two thousandths of a second each; the others are held to their parents and to the
budget: morphs only add. By the rules of the present release it goes through the driver's own check besides: legal morphs,
weights that are there, the budget, no other trial's architecture. Whole numbers throughout: there is no tolerance.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import msgspec

from aiperf.journal.events import COUNTS, AnyEvent, TrialProposed, TrialRejected
from aiperf.journal.messages import Proposed
from aiperf.rules.proposals import check
from aiperf.rules.state import Run
from aiperf.verify.check import Notes
from aiperf.verify.finding import Checked
from morphism import DamagedMorph, Graph, IllegalMorph, cost, decode_morph
from searchers.history import History

LAW = "a trial's architecture, its fingerprint and its operations follow from its parent's and its morphs"
GROWS = "an architecture has at least the operations and parameters of its parent, and is within the budget"
COMPARED_NOT = frozenset({"at", "seconds"})
CAME_LATER = frozenset({"own_kernel", "can_grow"})
"""Fields that schema 1 does not have."""


class Graphs:
    """A check of the run as the rules see it."""

    looks_at_epochs = False

    def __init__(self, run: Run, history: History, drawn: Container[int], *, is_ours: bool) -> None:
        """`drawn`: numbers of those that are built again; `is_ours`: whether the present rules say what may be proposed."""
        self._history = history
        self._drawn = drawn
        self._counts: dict[int | None, tuple[int, ...]] = {None: _counts(_counted(history.space.start))}
        """Of each trial; None: of the starting graph."""
        self._is_ours = is_ours
        self._left_out = COMPARED_NOT | (CAME_LATER if run.started.schema == 1 else frozenset())
        self._notes = Notes("graphs", LAW, "architectures")

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """The event, and the run as it stands before it."""
        if isinstance(event, TrialProposed):
            self._look_at_growth(line, event)
            if event.number not in self._drawn:
                return
            self._notes.examined += 1
            for name, found in self._differences(run, event).items():
                self._notes.add(line, LAW, f"trial {event.number}: {name} {found}")

    def checked(self) -> Checked:
        """See `Check`."""
        self._notes.of = len(self._counts) - 1
        if not self._is_ours:
            self._notes.not_checked = (
                "whether they could be proposed: by other rules than this release's, or a followed run's"
            )
        return self._notes.checked()

    def _look_at_growth(self, line: int, event: TrialProposed) -> None:
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
        if not self._is_ours:
            return _unlike(event, self._built(event), frozenset())
        again = check(self._history, run.requests[event.number], _word(event), event.at)
        if isinstance(again, TrialRejected):
            return {"cannot be a trial:": again.reason}
        return _unlike(event, msgspec.structs.asdict(again), self._left_out)

    def _built(self, event: TrialProposed) -> dict[str, Any]:
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


def _word(event: TrialProposed) -> Proposed:
    """What the driver was told, as its line holds it."""
    return Proposed(
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


def _unlike(event: TrialProposed, again: Mapping[str, Any], left_out: frozenset[str]) -> dict[str, str]:
    return {
        name: f"{getattr(event, name)!r}, worked out again {value!r}"
        for name, value in again.items()
        if name not in left_out and getattr(event, name) != value
    }
