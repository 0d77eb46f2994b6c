"""A driver's turns: what it writes down, whom it tells, and how its run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiperf.events import AnyEvent, CheckpointDropped, TrialFinished, WorkerLost
from aiperf.messages import Done
from tests.drive.scripted import drivable, driver_after, up, written
from tests.journals import evaluated, one_trial


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_finished_trial_is_a_parent_if_a_checkpoint_of_it_was_saved_and_only_then(
    checkpoint: bool, tmp_path: Path
) -> None:
    events = one_trial(evaluated(0, 4, 0.4, checkpoint=checkpoint), evaluated(0, 5, 0.5, epoch=2, checkpoint=False))
    driver = driver_after([drivable(), *events[1:]], tmp_path, [(6.0, Done(trial=0, attempt=1, reason="epochs"))])

    driver.drive()

    assert ends(written(driver)) == [TrialFinished, CheckpointDropped][: 1 if checkpoint else 2]
    assert driver.history.parents() == ((0,) if checkpoint else ())


def test_a_trial_that_was_lost_after_its_last_epoch_and_never_saved_is_no_parent_either(tmp_path: Path) -> None:
    events = one_trial(
        evaluated(0, 4, 0.4, checkpoint=False),
        evaluated(0, 5, 0.5, epoch=2, checkpoint=False),
        WorkerLost(at=6, worker=0, reason="power"),
    )
    driver = driver_after([drivable(), *events[1:]], tmp_path, [(7.0, up(1))])

    driver.drive()

    assert ends(written(driver)) == [TrialFinished, CheckpointDropped]
    assert driver.history.parents() == ()


def ends(events: list[AnyEvent]) -> list[type]:
    """What was written of the end of trials and their weights."""
    return [type(event) for event in events if isinstance(event, TrialFinished | CheckpointDropped)]
