"""The story of every trial: each state that it came to, with the line of the journal and the event that brought it there."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiperf.journal.events import AnyEvent
from aiperf.rules.trial import TrialState

_STATES = tuple(TrialState)
_PLACE = {state: place for place, state in enumerate(_STATES)}


@dataclass(slots=True)
class Stories:
    """Of every number each state that it came to, with the line of the journal and the event that brought it there.

    Columns of numbers, for all trials together: some 20 bytes a change, looked through only where an event is refused.
    """

    numbers: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    states: array[int] = field(default_factory=lambda: array("b"))
    events: array[int] = field(default_factory=lambda: array("b"))
    """Places in `names`."""
    names: list[str] = field(default_factory=list)

    def add(self, number: int, state: TrialState, line: int, event: AnyEvent) -> None:
        """One more change of state."""
        name = type(event).__name__
        if name not in self.names:
            self.names.append(name)
        self.numbers.append(number)
        self.lines.append(line)
        self.states.append(_PLACE[state])
        self.events.append(self.names.index(name))

    def of(self, number: int) -> Iterator[tuple[TrialState, int, str]]:
        """Each state of a number, in order: (state, line, event)."""
        for one, line, state, event in zip(self.numbers, self.lines, self.states, self.events, strict=True):
            if one == number:
                yield _STATES[state], line, self.names[event]

    def told(self, number: int) -> str:
        """The story of a number in words; empty, if no line tells of it."""
        return ", ".join(f"{state.value} (line {line}, {event})" for state, line, event in self.of(number))
