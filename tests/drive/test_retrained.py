"""A receiver trains trials of a list again and compares losses."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from aiperf.__main__ import main
from aiperf.drive.retrained import retrain
from aiperf.errors import BadConfiguration
from aiperf.journal.events import EpochFinished
from aiperf.journal.journal import NAME, Journal, read
from aiperf.simulate.session import drive, open_run, world_of
from tests.simulate.test_session import configured

WORDS = ("follow=reference", "executor=inline", "trainer.threads=1", "limits.trials=2", "preflight.probes=none")


@pytest.mark.slow
def test_trials_are_trained_again_with_their_losses(tmp_path: Path) -> None:
    main([*WORDS, f"runs={tmp_path}", "name=once", "schedule.warmup_seconds=1"])
    (folder,) = tmp_path.glob("*-once")

    again = retrain(folder, 2)

    assert sorted(each.place for each in again) == [0, 1]
    for each in again:
        assert each.is_confirmed and each.again.loss == pytest.approx(each.journal.loss, rel=0.01)
        assert each.again.samples_per_second > 0
    (tmp_path / "forged").mkdir()
    events = [
        msgspec.structs.replace(each, training_loss=0.9 * each.training_loss)
        if isinstance(each, EpochFinished)
        else each
        for each in read(folder)
    ]
    with Journal(tmp_path / "forged" / NAME, durable=False) as journal:
        journal.append(events)
    assert [each.is_confirmed for each in retrain(tmp_path / "forged", 1)] == [False]


def test_a_run_without_a_trained_list_cannot_be_trained_again(tmp_path: Path) -> None:
    opening = open_run(configured(hours=0.5))
    drive(world_of(opening), opening.first, tmp_path / NAME)

    with pytest.raises(BadConfiguration, match="finished trials of a list"):
        retrain(tmp_path, 1)
