"""Checkpoints that the journal has dropped go by name, whoever forgot them; what is nobody's stays and is named."""

from __future__ import annotations

import doctest
from pathlib import Path

from aiperf.drive.checkpoint_sweep import leftover, sweep
from aiperf.journal.events import AnyEvent, CheckpointDropped, TrialLost
from aiperf.rules.replay import state_after
from aiperf.rules.state import Run
from aiperf.train import checkpoint_files
from tests.journals import begun, evaluated, one_trial, positioned, proposed, requested, whole_trial


def run() -> Run:
    """Trial 0 is being trained, 1 is over and kept, 2 was dropped, 4 is lost and goes on; of 5, which waits,
    the journal knows no checkpoint, though a driver before this one may have had it trained."""
    events: list[AnyEvent] = [
        *one_trial(evaluated(0, 3.0, 0.1))[:-2],
        *whole_trial(1, 4.0, 5.0, 0.5),
        *whole_trial(2, 6.0, 7.0, 0.4),
        CheckpointDropped(at=7.5, trial=2, reason="not among the best"),
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


def test_what_was_dropped_is_left_over_what_is_needed_is_not_and_what_is_nobodys_is_named() -> None:
    found = leftover(run(), FILES)

    assert found.dropped == (2,)
    assert found.unknown == ("notes.txt", "trial-9.epoch-1.safetensors")


def test_a_sweep_removes_by_name_what_was_dropped_and_nothing_else_and_the_next_one_finds_nothing_of_it(
    tmp_path: Path,
) -> None:
    for name in FILES:
        (tmp_path / name).write_text("weights")

    told = sweep(run(), tmp_path)

    assert {file.name for file in tmp_path.iterdir()} == {name for name in FILES if "trial-2." not in name}
    assert told is not None and "1 trials whose checkpoints were dropped before have none any more (2)" in told
    assert "2 files are no checkpoints of this journal's trials, and stay (notes.txt, trial-9" in told
    assert "dropped" not in (sweep(run(), tmp_path) or "")


def test_where_nothing_was_written_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert sweep(run(), tmp_path / "checkpoints") is None
    assert sweep(run(), tmp_path) is None
