"""Released workers and failed starts: their events and their effects."""

from __future__ import annotations

import pytest

from aiperf.accounting.work_log import work_log
from aiperf.journal.events import AnyEvent, LossCause, WorkerLost, WorkerNotStarted
from aiperf.rules.evolve import evolve
from aiperf.rules.interpret import interpret
from tests.builders.journal import begun, joined, proposed, requested, started, state_after
from tests.builders.warnings import warnings_of


@pytest.mark.parametrize(("cause", "becomes"), [("released", "lost"), ("reported", "ending")])
def test_trial_fails_for_lost_but_never_for_released_workers(cause: LossCause, becomes: str) -> None:
    run = state_after([started(), joined(0), requested(0), proposed(0)])
    for attempt in (1, 2, 3):
        evolve(run, begun(0, at=float(attempt), attempt=attempt, worker=attempt - 1))
        (event,) = interpret(run, WorkerLost(worker=attempt - 1, reason="let go", cause=cause), float(attempt))
        evolve(run, event)
        evolve(run, joined(attempt, at=float(attempt)))

    assert 0 in getattr(run, becomes)


def test_a_worker_that_was_let_go_is_no_loss_in_the_books() -> None:
    events: list[AnyEvent] = [
        started(),
        joined(0),
        joined(1),
        WorkerLost(at=5.0, worker=0, reason="let go", cause="released"),
    ]
    assert work_log(events).lost_workers == 0

    assert work_log([*events, WorkerLost(at=6.0, worker=1, reason="killed")]).lost_workers == 1


def test_failed_start_is_recorded_and_a_warning() -> None:
    run = state_after([started(), joined(0)])
    (event,) = interpret(run, WorkerNotStarted(host="10.0.0.7", failures=2, reason="no data set"), 3.0)
    before = (dict(run.workers), dict(run.idle), run.next_worker)

    evolve(run, event)

    assert isinstance(event, WorkerNotStarted) and (event.at, event.host, event.failures) == (3.0, "10.0.0.7", 2)
    assert (dict(run.workers), dict(run.idle), run.next_worker) == before
    warnings = [each.text for each in warnings_of([started(), joined(0), event])]
    assert any(
        "starts of workers that failed: 1" in warning and "10.0.0.7: no data set" in warning for warning in warnings
    )
