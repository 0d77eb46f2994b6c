"""Architectures: each is built again from its lineage, fingerprinted, and its operations counted again.

By the rules of the present release it goes through the driver's own check besides: legal morphs, weights that are there, the
budget, no other trial's architecture. Whole numbers throughout: there is no tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from aiperf.journal.events import AnyEvent, TrialProposed, TrialRejected
from aiperf.journal.messages import Proposed
from aiperf.rules.proposals import check
from aiperf.rules.state import Run
from aiperf.verify.check import Notes
from aiperf.verify.finding import Checked
from morphism import DamagedMorph, IllegalMorph, cost, decode_morph
from searchers.history import History

LAW = "a trial's architecture, its fingerprint and its operations follow from its parent's and its morphs"
COMPARED_NOT = frozenset({"at", "seconds"})
CAME_LATER = frozenset({"own_kernel", "can_grow"})
"""Fields that schema 1 does not have."""


class Graphs:
    """A check of the run as the rules see it."""

    def __init__(self, run: Run, history: History, *, is_ours: bool) -> None:
        """`is_ours`: whether the present rules say what may be proposed."""
        self._history = history
        self._is_ours = is_ours
        self._left_out = COMPARED_NOT | (CAME_LATER if run.started.schema == 1 else frozenset())
        self._notes = Notes("graphs", LAW, "architectures")

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """The event, and the run as it stands before it."""
        if isinstance(event, TrialProposed):
            self._notes.examined += 1
            for name, found in self._differences(run, event).items():
                self._notes.add(line, LAW, f"trial {event.number}: {name} {found}")

    def checked(self) -> Checked:
        """See `Check`."""
        if not self._is_ours:
            self._notes.not_checked = "whether they could be proposed: by other rules than this release has"
        return self._notes.checked()

    def _differences(self, run: Run, event: TrialProposed) -> Mapping[str, str]:
        if not self._is_ours:
            return _unlike(event, self._counted(event), frozenset())
        again = check(self._history, run.requests[event.number], _word(event), event.at)
        if isinstance(again, TrialRejected):
            return {"cannot be a trial:": again.reason}
        return _unlike(event, msgspec.structs.asdict(again), self._left_out)

    def _counted(self, event: TrialProposed) -> dict[str, Any]:
        try:
            graph = self._history.grown(event.parent, tuple(map(decode_morph, event.morphs)))
        except (IllegalMorph, DamagedMorph) as error:
            return {"morphs": str(error)}
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
