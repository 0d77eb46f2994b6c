"""Whole run on a folder with corrupt images, in its own process.

Within the limit it names them, beyond it the run ends.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiperf.journal.events import EpochFinished, ImagesSkipped, RunEnded, TrialStarted
from aiperf.journal.journal import read
from tests.builders.data_set import make
from tests.rigs.real_run import REPOSITORY


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "ray"])
def test_one_corrupt_image_too_many_ends_a_run_with_the_reason(tmp_path: Path, executor: str) -> None:
    root = make(tmp_path / "set", training=20, validation=6)
    for number in (3, 7, 11):
        (root / f"train/class1/{number}.jpg").write_bytes(b"\xff\xd8 and nothing more")

    ended = subprocess.run(
        [
            *(sys.executable, "-m", "aiperf", f"runs={tmp_path / 'runs'}", f"executor={executor}", "dataset=images"),
            *(f"dataset.root={root}", "dataset.image=16", "dataset.crop=resized", "dataset.cache=none"),
            *("dataset.corrupt_limit=2", "start=digits_small", "trainer.threads=1", "trainer.ranks=1"),
            *("schedule.duration_seconds=300", "schedule.warmup_seconds=1", "schedule.epochs=[2]", "batch.default=8"),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=1200,
    )

    (folder,) = (tmp_path / "runs").iterdir()
    events = list(read(folder))
    assert isinstance(events[-1], RunEnded) and events[-1].reason == "corrupt images", ended.stderr
    skipped = [event for event in events if isinstance(event, ImagesSkipped)]
    assert skipped[-1].images == 3
    assert {Path(name).name for event in skipped for name in event.files} == {"3.jpg", "7.jpg", "11.jpg"}
    assert len([event for event in events if isinstance(event, TrialStarted)]) == 1
    assert not any(isinstance(event, EpochFinished) for event in events)
    assert "corrupt images" in ended.stdout
