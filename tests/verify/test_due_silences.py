"""A worker or a proposal that is silent for longer than the limit is given up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import AnyEvent, HelperLost, TrialHeartbeat
from aiperf.verify.check import Attempts, handlers
from aiperf.verify.times import Silences
from tests.builders.journal import begun, joined, proposed, requested, started

BEFORE: list[AnyEvent] = [
    *(joined(worker=worker) for worker in range(2)),
    *(each for at in range(2) for each in (requested(at, at), proposed(at), begun(at, 1.0, worker=at))),
]


def findings(lines: Sequence[AnyEvent], seconds: float = 60.0) -> list[str]:
    attempts, work_log = Attempts(), WorkLog()
    check = Silences(attempts, work_log)
    of_attempts = dict(handlers(attempts))
    events = [started(duration=900.0, config={"limits": {"silence_seconds": seconds}}), *BEFORE, *lines]
    for number, event in enumerate(events, 1):
        for kind, handle in handlers(check):
            if kind is type(event):
                handle(number, event)
        work_log.take(event)
        if type(event) in of_attempts:
            of_attempts[type(event)](event)
    return [finding.found for finding in check.checked().findings]


def beat(trial: int, at: float) -> TrialHeartbeat:
    return TrialHeartbeat(at=at, trial=trial, attempt=1, doing="trains")


@pytest.mark.parametrize(("last", "is_due"), [(180, False), (190, True)])
def test_a_trial_that_is_silent_for_too_long_is_found(last: int, is_due: bool) -> None:
    """`last`: last line of the driver before the silent trial is heard again. Then it must have given the trial up."""
    found = findings([*(beat(0, at) for at in range(10, last + 1, 10)), beat(1, last + 1)])

    assert [text.partition(",")[0] for text in found] == ["trial 1 was silent for 189 s and not given up"][
        : int(is_due)
    ]


def test_a_driver_that_was_stopped_itself_is_no_contradiction() -> None:
    assert findings([beat(0, 10.0), beat(0, 800.0), beat(1, 800.0)]) == []


def test_a_proposal_that_is_due_for_too_long_is_found() -> None:
    lost = HelperLost(at=190.0, worker=1, helper="recorder", reason="killed")
    beats = [each for at in (50.0, 100.0, 150.0) for each in (beat(0, at), beat(1, at))]

    found = findings([requested(2, 0, at=5.0), *beats, lost, proposed(2, at=200.0)])

    assert [text.partition(",")[0] for text in found] == ["proposal 2 was silent for 185 s and not given up"]
