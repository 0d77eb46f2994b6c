"""A recorder or a generator that died: written down, a warning, and nothing else."""

from __future__ import annotations

from aiperf.journal.events import HelperLost
from aiperf.rules.evolve import evolve
from aiperf.rules.interpret import interpret
from tests.builders.journal import joined, started, state_after
from tests.builders.warnings import warnings_of


def test_dead_helpers_are_a_warning_with_workers_and_effect() -> None:
    run = state_after([started(), joined(0), joined(1)])
    events = []
    for at, (worker, helper) in enumerate([(0, "recorder"), (1, "recorder"), (1, "recorder"), (1, "generator")]):
        (event,) = interpret(run, HelperLost(worker=worker, helper=helper, reason="ended by SIGKILL"), float(at))
        evolve(run, event)
        events.append(event)

    assert events[0] == HelperLost(at=0.0, worker=0, helper="recorder", reason="ended by SIGKILL")
    warnings = [each.text for each in warnings_of([started(), joined(0), joined(1), *events])]
    assert "recorders that died and were replaced: 3, of worker 0, 1; samples are missing" in warnings
    assert any("generators that died and were replaced: 1, of worker 1;" in warning for warning in warnings)


def test_helpers_of_a_lost_worker_get_no_order() -> None:
    assert (
        interpret(state_after([started(), joined(0)]), HelperLost(worker=7, helper="recorder", reason="ended"), 1.0)
        == []
    )
