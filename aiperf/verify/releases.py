"""Which release wrote a journal: its schema, the rules of its proposals and its events are of one time.

Rules that this release does not have cannot be followed here, so whoever names others than his own is checked less; a schema
that never came with those rules gives him away.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiperf.journal.events import NodeChecked, RunResumed, RunStarted
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked
from searchers.propose import RULES

LAW = "a journal's schema and the rules of its proposals came in one release"
EVENTS = "an event is of the schema that is being written"
FIRST_RULES = {1: 1, 2: 2, 3: 4, 4: 4}
"""Of each schema the earliest rules that wrote it (docs/events.md and docs/searchers.md)."""
NODES_SINCE = 3
"""Schema with which preflight came."""


class Releases:
    """A check."""

    def __init__(self) -> None:
        self._notes = Notes("release", LAW, "drivers")
        self._schema = 0

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {RunStarted: self._started, RunResumed: self._resumed, NodeChecked: self._node}

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        self._notes.examined += 1
        self._schema = event.schema
        least = FIRST_RULES.get(event.schema, RULES)
        if not least <= event.proposal_rules <= RULES:
            found = f"schema {event.schema} with rules {event.proposal_rules}; it came with rules {least} to {RULES}"
            self._notes.add(line, LAW, found)

    def _resumed(self, line: int, event: RunResumed) -> None:
        self._notes.examined += 1
        self._schema = event.schema

    def _node(self, line: int, event: NodeChecked) -> None:
        if self._schema < NODES_SINCE:
            self._notes.add(line, EVENTS, f"NodeChecked in schema {self._schema}; it came with schema {NODES_SINCE}")
