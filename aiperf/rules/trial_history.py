"""Trial history: each state of every trial, with the journal's line and the event that caused it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiperf.journal.events import AnyEvent
from aiperf.rules.trial import TrialState

_STATES = tuple(TrialState)
_PLACE = {state: place for place, state in enumerate(_STATES)}


@dataclass(slots=True)
class TrialHistories:
    """Each state of every trial, with the journal's line and the event that caused it.

    Stored in columns of numbers for all trials together: about 20 bytes per change. It is read only when an event is refused.
    """

    numbers: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    states: array[int] = field(default_factory=lambda: array("b"))
    events: array[int] = field(default_factory=lambda: array("b"))
    """Indices in `names`."""
    names: list[str] = field(default_factory=list)

    def add(self, number: int, state: TrialState, line: int, event: AnyEvent) -> None:
        """Add a change of state."""
        name = type(event).__name__
        if name not in self.names:
            self.names.append(name)
        self.numbers.append(number)
        self.lines.append(line)
        self.states.append(_PLACE[state])
        self.events.append(self.names.index(name))

    def of(self, number: int) -> Iterator[tuple[TrialState, int, str]]:
        """Yield each state of a number in order: (state, line, event)."""
        for one, line, state, event in zip(self.numbers, self.lines, self.states, self.events, strict=True):
            if one == number:
                yield _STATES[state], line, self.names[event]

    def text(self, number: int) -> str:
        """Return the history of a number as text. Empty if no line mentions it."""
        return ", ".join(f"{state.value} (line {line}, {event})" for state, line, event in self.of(number))
