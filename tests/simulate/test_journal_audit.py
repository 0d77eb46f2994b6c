"""The auditor finds the same defects in the journal of a real run as in simulated ones, and none in an honest journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.journal.events import (
    AnyEvent,
    EpochFinished,
    RunEnded,
    RunResumed,
    TrialPrepared,
    TrialStarted,
    WorkerJoined,
)
from aiperf.journal.journal import read
from tests.audit import laws
from tests.audit.laws import BrokenLaw
from tests.audit.run_model import audit

REAL = Path(__file__).parents[1] / "golden" / "resumed-v4.jsonl"
"""A run of two ranks on one machine, killed and resumed."""


def lines() -> list[AnyEvent]:
    return list(read(REAL))


def last(events: list[AnyEvent], kind: type) -> int:
    return max(place for place, event in enumerate(events) if isinstance(event, kind))


def changed(kind: type, **fields: Callable[[Any], Any]) -> Callable[[list[AnyEvent]], None]:
    def change(events: list[AnyEvent]) -> None:
        place = last(events, kind)
        event = events[place]
        events[place] = msgspec.structs.replace(
            event, **{name: to(getattr(event, name)) for name, to in fields.items()}
        )

    return change


def of_interval(**by: float) -> Callable[[Any], Any]:
    return lambda interval: msgspec.structs.replace(
        interval, **{name: getattr(interval, name) + more for name, more in by.items()}
    )


def doubled(kind: type) -> Callable[[list[AnyEvent]], None]:
    def change(events: list[AnyEvent]) -> None:
        place = last(events, kind)
        events.insert(place, events[place])

    return change


DEFECTS: dict[str, tuple[Callable[[list[AnyEvent]], None], str]] = {
    "an image too many": (changed(EpochFinished, interval=of_interval(training_images=1)), laws.LEGAL),
    "an image too few": (changed(EpochFinished, interval=of_interval(training_images=-1)), laws.LOST),
    "ranks that make other steps": (changed(TrialPrepared, ranks=lambda ranks: 3), laws.LEGAL),
    "an epoch said twice": (doubled(EpochFinished), laws.LEGAL),
    "a worker that comes up twice": (doubled(WorkerJoined), laws.LEGAL),
    "an attempt skipped": (changed(TrialStarted, attempt=lambda attempt: attempt + 1), laws.LEGAL),
    "an interval begun before": (changed(EpochFinished, interval=of_interval(start=-1e3)), laws.LEGAL),
}


def test_journal_of_a_resumed_real_run_passes_the_audit() -> None:
    events = lines()
    assert any(isinstance(event, RunResumed) for event in events)

    assert len(audit(events).trials) > 5


def test_a_run_that_was_interrupted_and_goes_on_is_no_fault() -> None:
    events = lines()
    place = last(events, RunResumed)
    ended = RunEnded(at=events[place - 1].at, reason="interrupted")

    audit([*events[:place], ended, *(shifted(event) for event in events[place:])])
    with pytest.raises(BrokenLaw, match=laws.LEGAL):
        audit([*events[:place], ended, *events[place + 1 :]])


def shifted(event: AnyEvent) -> AnyEvent:
    """Return the event for a journal with one more line before it."""
    return msgspec.structs.replace(event, position=event.position + 1) if hasattr(event, "position") else event


@pytest.mark.parametrize("defect", DEFECTS)
def test_what_no_honest_run_writes_is_found(defect: str) -> None:
    events = lines()
    change, law = DEFECTS[defect]
    change(events)

    with pytest.raises(BrokenLaw) as broken:
        audit(events)

    assert broken.value.law == law, broken.value
