"""Events and warnings for unwritten checkpoints and skipped images."""

from __future__ import annotations

from typing import Any

import pytest

from aiperf.journal.events import AnyEvent, CheckpointNotWritten, CheckpointWritten, ImagesSkipped, RunEnded, RunResumed
from aiperf.journal.messages import CorruptImagesFound
from aiperf.rules.decide import decide
from aiperf.rules.evolve import evolve
from aiperf.rules.interpret import FILES_OF_A_LINE, interpret
from aiperf.rules.state import Run
from tests.builders.journal import (
    LIMITS,
    SCHEDULE,
    begun,
    evaluated,
    joined,
    one_trial,
    proposed,
    requested,
    started,
    state_after,
)
from tests.builders.warnings import warnings_of


def files(*numbers: int) -> tuple[tuple[str, str], ...]:
    return tuple((f"{number}.jpg", "premature end") for number in numbers)


def run_of(corrupt_limit: int | None) -> Run:
    config: dict[str, Any] = {"limits": LIMITS, "schedule": SCHEDULE}
    if corrupt_limit is not None:
        config["dataset"] = {"corrupt_limit": corrupt_limit}
    return state_after([started(config=config), joined(0), joined(1)])


def received(
    run: Run, word: CorruptImagesFound | CheckpointWritten | CheckpointNotWritten, now: float
) -> list[AnyEvent]:
    events = interpret(run, word, now)
    for event in events:
        evolve(run, event)
    return events


def test_each_corrupt_image_is_reported_once() -> None:
    run = run_of(10)

    first = received(run, CorruptImagesFound(worker=0, files=files(1, 2)), 1.0)
    again = received(run, CorruptImagesFound(worker=0, files=files(1, 2)), 2.0)
    other = received(run, CorruptImagesFound(worker=1, files=files(2, 3)), 3.0)

    assert first == [ImagesSkipped(at=1.0, worker=0, images=2, files=dict(files(1, 2)))]
    assert again == []
    assert other == [ImagesSkipped(at=3.0, worker=1, images=3, files=dict(files(3)))]


def test_an_unknown_worker_reports_nothing() -> None:
    assert received(run_of(10), CorruptImagesFound(worker=7, files=files(1)), 1.0) == []


def test_lines_of_limited_length_name_all_corrupt_images() -> None:
    run = run_of(1000)

    events = received(run, CorruptImagesFound(worker=0, files=files(*range(250))), 1.0)

    lines = [event for event in events if isinstance(event, ImagesSkipped)]
    assert [len(event.files) for event in lines] == [FILES_OF_A_LINE, FILES_OF_A_LINE, 50]
    assert [event.images for event in lines] == [100, 200, 250]


@pytest.mark.parametrize(("limit", "ends"), [(2, True), (3, False), (0, True), (None, False)])
def test_the_run_ends_with_one_corrupt_image_more_than_its_limit(limit: int | None, ends: bool) -> None:
    """The limit is for all workers together. Each of them may have met fewer."""
    run = run_of(limit)
    received(run, CorruptImagesFound(worker=0, files=files(1, 2)), 1.0)
    received(run, CorruptImagesFound(worker=1, files=files(3)), 1.0)

    assert (decide(run, 2.0) == [RunEnded(at=2.0, reason="corrupt images")]) is ends


def test_a_run_whose_images_were_repaired_can_be_taken_up_again() -> None:
    run = run_of(0)
    received(run, CorruptImagesFound(worker=0, files=files(1)), 1.0)

    evolve(run, RunResumed(schema=1, at=5.0, down_seconds=1.0, clock_stepped_back_seconds=0.0, versions={}, machine={}))

    assert decide(run, 6.0) == []


def test_unwritten_checkpoint_is_an_event_of_a_running_trial() -> None:
    run = state_after(
        [started(), joined(), requested(0), proposed(0), begun(0, 1.0), evaluated(0, 5.0, 0.5, checkpoint=False)]
    )

    late = received(run, CheckpointNotWritten(trial=0, attempt=2, epoch=1, reason="of another attempt"), 6.0)
    events = received(run, CheckpointNotWritten(trial=0, attempt=1, epoch=1, reason="No space left"), 6.0)

    assert late == []
    assert events == [CheckpointNotWritten(at=6.0, trial=0, attempt=1, epoch=1, reason="No space left")]
    assert 0 in run.running and run.trials[0].saved_epoch == 0
    assert run.trials[0].last_message == 6.0


def test_both_stand_as_warnings_beside_the_score() -> None:
    journal = one_trial()
    lost = CheckpointNotWritten(at=journal[-1].at, trial=0, attempt=1, epoch=3, reason="No space left")
    skipped = ImagesSkipped(at=journal[-1].at, worker=0, images=1, files=dict(files(7)))

    new = set(warnings_of([*journal, lost, skipped])) - set(warnings_of(journal))

    assert {warning.text for warning in new} == {
        "checkpoints that could not be written: 1; first of trial 0 after epoch 3: No space left",
        "corrupt images left out: 1; first '7.jpg': premature end",
    }


def test_unwritten_checkpoint_is_reported_once_per_epoch() -> None:
    run = state_after(one_trial(evaluated(0, 3.0, 0.5, checkpoint=False)))

    def unsaved(epoch: int) -> CheckpointNotWritten:
        return CheckpointNotWritten(trial=0, attempt=1, epoch=epoch, reason="No space left on device")

    assert [type(event) for event in received(run, unsaved(1), 4.0)] == [CheckpointNotWritten]
    assert received(run, unsaved(1), 5.0) == []
    assert received(run, unsaved(3), 6.0) == []


def test_checkpoint_completed_after_its_epoch_can_be_resumed() -> None:
    run = state_after(one_trial(evaluated(0, 3.0, 0.5, checkpoint=False)))
    word = CheckpointWritten(trial=0, attempt=1, epoch=1)

    assert [type(event) for event in received(run, word, 4.0)] == [CheckpointWritten]
    assert received(run, word, 5.0) == []
    assert received(run, CheckpointWritten(trial=0, attempt=1, epoch=3), 5.0) == []

    assert run.trials[0].saved_epoch == 1 and run.trials[0].last_message == 4.0
