"""A worker that is slow is no silent one: its heartbeat is an event, and puts off its being written off."""

from __future__ import annotations

from aiperf.journal.events import AnyEvent, TrialHeartbeat, WorkerLost
from aiperf.rules.decide import decide
from aiperf.rules.evolve import evolve
from aiperf.rules.interpret import interpret
from tests.builders.journal import begun, joined, proposed, requested, started, state_after

DOING = "rank 1 of 2 on a waits for storage: it opens the data set since 500 s"


def test_a_heartbeat_keeps_a_silent_worker() -> None:
    events: list[AnyEvent] = [started(duration=3600.0), joined(), requested(0), proposed(0), begun(0, 1.0)]
    silent, slow = state_after(events), state_after(events)
    late = 1.0 + slow.limits.silence_seconds

    train_order = interpret(slow, TrialHeartbeat(trial=0, attempt=1, doing=DOING), late - 1.0)
    for event in train_order:
        evolve(slow, event)

    assert train_order == [TrialHeartbeat(at=late - 1.0, trial=0, attempt=1, doing=DOING)]
    assert [command for command in decide(silent, late) if isinstance(command, WorkerLost)]
    assert not [command for command in decide(slow, late) if isinstance(command, WorkerLost)]


def test_a_heartbeat_of_an_attempt_that_is_over_is_nothing() -> None:
    run = state_after([started(), joined(), requested(0), proposed(0), begun(0, 1.0)])

    assert interpret(run, TrialHeartbeat(trial=0, attempt=2, doing=DOING), 2.0) == []
    assert interpret(run, TrialHeartbeat(trial=5, attempt=1, doing=DOING), 2.0) == []
