"""The state of a run again, from the events of its journal: the one way in for whoever follows a run line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.rules.evolve import evolve
from aiperf.rules.state import Run, begin


def replay(events: Iterable[AnyEvent]) -> Iterator[tuple[Run, AnyEvent]]:
    """Each event of a journal with the run as it stood before it; the first, which makes the run, with what it made.

    The run is one and the same object, and takes an event in when the next pair is asked for.

    Raises:
        EventRefused: an event does not fit the run as it stood before it.
    """
    lines = iter(events)
    first = next(lines, None)
    assert isinstance(first, RunStarted), "the journal's reader has checked that it begins with RunStarted"
    run = begin(first)
    yield run, first
    for event in lines:
        yield run, event
        evolve(run, event)


def state_after(events: Iterable[AnyEvent]) -> Run:
    """The state after a journal's events."""
    run: Run | None = None
    for run, _ in replay(events):  # noqa: B007 - the last of them is what is asked for
        pass
    assert run is not None, "a replay gives at least one pair"
    return run
