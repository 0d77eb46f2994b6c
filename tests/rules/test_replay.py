"""Replay of a journal's events with the run before each event."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from aiperf.journal.events import AnyEvent, RunStarted, TrialHeartbeat
from aiperf.journal.journal import read
from aiperf.journal.legality import IllegalLine
from aiperf.rules.evolve import evolve, replay
from aiperf.rules.state import begin
from tests.builders.journal import begun, joined, one_trial, proposed, requested, started, state_after

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("journal", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_each_event_comes_with_the_run_as_it_stood_before_it(journal: Path) -> None:
    events = list(read(journal))
    first = events[0]
    assert isinstance(first, RunStarted)
    expected = begin(first)
    seen: list[AnyEvent] = []

    for run, event in replay(events):
        if event is not first:
            assert (run.lines, run.at, run.running, run.requests) == (
                len(seen),
                expected.at,
                expected.running,
                expected.requests,
            )
            evolve(expected, event)
        seen.append(event)

    assert seen == events
    assert state_after(events) == expected


def test_the_run_of_a_pair_holds_nothing_of_its_event() -> None:
    events = one_trial()
    pairs = replay(events)
    before = [copy.deepcopy(run) for run, event in pairs if not isinstance(event, RunStarted)]

    assert [run.running for run in before] == [{}] * len(before)
    assert state_after(events).running == {0: None}


def test_the_state_after_the_first_line_alone_is_what_it_makes() -> None:
    assert state_after([started()]) == begin(started())


def test_unfitting_event_ends_the_replay_where_it_is_applied() -> None:
    events: list[AnyEvent] = [started(), joined(), requested(0), proposed(0)]
    events.append(TrialHeartbeat(at=1.0, trial=0, attempt=1, doing=""))
    pairs = replay([*events, begun(0, 2.0)])

    seen = [next(pairs)[1] for _ in events]

    assert seen == events
    with pytest.raises(IllegalLine, match=r"TrialHeartbeat requires .* Trial 0 is waiting"):
        next(pairs)
