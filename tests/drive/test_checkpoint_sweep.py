"""Dropped checkpoints are removed, also if another process failed to remove them. Unknown files stay."""

from __future__ import annotations

import doctest
from pathlib import Path

from aiperf.drive.checkpoint_clearing import sweep
from aiperf.journal.events import AnyEvent, CheckpointDropped, TrialLost
from aiperf.rules.state import Run
from aiperf.train.checkpoints import checkpoint_files
from tests.builders.journal import (
    begun,
    evaluated,
    one_trial,
    positioned,
    proposed,
    requested,
    state_after,
    whole_trial,
)


def run() -> Run:
    """Return a run in which trial 0 is training, 1 is finished and kept, 2 was dropped, and 4 is lost and will be retried.

    Trial 5 waits. Its checkpoint is not in the journal, though an earlier driver may have trained it.
    """
    events: list[AnyEvent] = [
        *one_trial(evaluated(0, 3.0, 0.1))[:-2],
        *whole_trial(1, 4.0, 5.0, 0.5),
        *whole_trial(2, 6.0, 7.0, 0.4),
        CheckpointDropped(at=7.5, trial=2, cause="not best", reason="not among the best"),
        requested(4, at=8.0),
        proposed(4, 8.0),
        begun(4, 8.0),
        evaluated(4, 9.0, 0.5),
        TrialLost(at=9.5, trial=4, attempt=1, reason="its rank died"),
        begun(0, 10.0),
        evaluated(0, 11.0, 0.1),
        requested(5, at=12.0),
        proposed(5, 12.0),
    ]
    return state_after(positioned(events))


FILES = [
    "trial-0.epoch-1.safetensors",
    "trial-0.epoch-2.safetensors",
    "trial-1.epoch-1.safetensors",
    "trial-2.epoch-1.safetensors",
    ".trial-2.epoch-1.safetensors.4711.tmp",
    "trial-4.epoch-1.safetensors",
    "trial-5.epoch-1.safetensors",
    "trial-9.epoch-1.safetensors",
    "notes.txt",
]


def test_whose_checkpoint_a_file_is_stands_in_its_name() -> None:
    assert doctest.testmod(checkpoint_files).failed == 0


def test_a_sweep_removes_dropped_checkpoints_only(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_text("weights")

    sweep(run(), tmp_path)

    assert {file.name for file in tmp_path.iterdir()} == {name for name in FILES if "trial-2." not in name}


def test_a_run_without_checkpoints_is_swept_too(tmp_path: Path) -> None:
    sweep(run(), tmp_path / "checkpoints")

    assert list(tmp_path.iterdir()) == []
