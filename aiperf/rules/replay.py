"""Replay of a journal's events into the state of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.rules.evolve import evolve
from aiperf.rules.state import Run, begin


def replay(events: Iterable[AnyEvent]) -> Iterator[tuple[Run, AnyEvent]]:
    """Yield each event with the run before the event. The first event is yielded with the run that it creates.

    The run is always the same object. It takes the event when the next pair is requested.

    Raises:
        IllegalLine: an event does not fit the run.
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
    """Return the state after a journal's events."""
    run: Run | None = None
    for run, _ in replay(events):  # noqa: B007 - the last one is used
        pass
    assert run is not None, "a replay gives at least one pair"
    return run
