"""Weights: a child inherits those of a parent of which a checkpoint stands in the journal."""

from __future__ import annotations

from collections.abc import Mapping

from aiperf.journal.events import CheckpointWritten, EpochFinished, TrialProposed
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "a parent's weights were saved before its child was proposed"


class Weights:
    """A check."""

    def __init__(self) -> None:
        self._notes = Notes("weights", LAW, "children")
        self._saved: set[int] = set()

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {
            EpochFinished: self._epoch,
            CheckpointWritten: self._written,
            TrialProposed: self._proposed,
        }

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def _epoch(self, line: int, event: EpochFinished) -> None:
        if event.checkpoint:
            self._saved.add(event.trial)

    def _written(self, line: int, event: CheckpointWritten) -> None:
        self._saved.add(event.trial)

    def _proposed(self, line: int, event: TrialProposed) -> None:
        if event.parent is None:
            return
        self._notes.examined += 1
        if event.parent not in self._saved:
            self._notes.add(line, LAW, f"trial {event.number}: its parent, trial {event.parent}, has no checkpoint")
