"""After a run's time is over the best checkpoint stays, and what went is said in bytes; before that nothing is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from aiperf.config import configure
from aiperf.data.opening import open_data
from aiperf.drive.checkpoint_clearing import best_of, clear, forget
from aiperf.drive.checkpoint_sweep import sweep
from aiperf.drive.driver import Driver
from aiperf.drive.machines import machines
from aiperf.drive.run_clock import WallClock
from aiperf.drive.session import run_session
from aiperf.journal.events import AnyEvent, CheckpointDropped
from aiperf.journal.journal import NAME, Journal
from aiperf.planning.plan import make_plan
from aiperf.planning.this_machine import this_machine
from aiperf.report.words import checkpoints
from aiperf.report.write import report_of
from aiperf.rules.replay import state_after
from aiperf.rules.state import Run
from aiperf.train.kept import KeptCheckpoints, kept
from aiperf.train.trained_network import trained_network
from morphism import encode, load
from tests.drive.executors import TINY
from tests.journals import one_trial, positioned, whole_trial
from tests.train.orders import plain_graph

FILES = {
    "trial-1.epoch-1.safetensors": 1000,
    "trial-2.epoch-1.safetensors": 200,
    ".trial-2.epoch-1.safetensors.4711.tmp": 30,
    "trial-9.epoch-1.safetensors": 50,
    "notes.txt": 60,
}
"""The journal knows of trials 1 to 3; the third's has been dropped, though it was the best."""


def events() -> list[AnyEvent]:
    told: list[AnyEvent] = [
        *one_trial()[:-1],
        *whole_trial(1, 4.0, 5.0, 0.5),
        *whole_trial(2, 6.0, 7.0, 0.8),
        *whole_trial(3, 8.0, 9.0, 0.9),
        CheckpointDropped(at=9.5, trial=3, reason="not among the best"),
    ]
    return positioned(told)


def ended(reason: str | None = "duration") -> Run:
    run = state_after(events())
    run.ended = reason
    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    with Journal(tmp_path / NAME) as journal:
        journal.append(events())
    for name, size in FILES.items():
        (tmp_path / "checkpoints" / name).write_bytes(b"w" * size)
    return tmp_path


def names(folder: Path) -> set[str]:
    return {file.name for file in (folder / "checkpoints").iterdir()}


def test_the_best_that_the_journal_knows_stays_with_its_graph_and_what_went_is_said_in_bytes(folder: Path) -> None:
    said = clear(ended(), folder, "best")

    assert names(folder) == {
        "trial-2.epoch-1.safetensors",
        "trial-2.graph.json",
        "kept.json",
        "trial-9.epoch-1.safetensors",
        "notes.txt",
    }
    assert said is not None and said == kept(folder)
    assert (said.best, said.trial, said.epoch) == ("checkpoints/trial-2.epoch-1.safetensors", 2, 1)
    assert said.accuracy == 0.8
    assert (said.files, said.bytes, said.removed_files, said.removed_bytes) == (1, 200, 2, 1030)
    assert said.graph is not None and load(folder / said.graph).fingerprint
    assert checkpoints(said).startswith("kept the best, 200 B (checkpoints/trial-2.epoch-1.safetensors, accuracy ")
    assert checkpoints(said).endswith("; removed 2, 1.03 kB")


@pytest.mark.parametrize("reason", [None, "interrupted", "no workers", "trials", "converged", "corrupt images"])
def test_nothing_is_removed_of_a_run_that_can_be_taken_up_again(folder: Path, reason: str | None) -> None:
    assert clear(ended(reason), folder, "best") is None
    assert names(folder) == set(FILES)
    assert kept(folder) is None


def test_all_or_none_stay_where_that_is_configured(folder: Path) -> None:
    said = clear(ended(), folder, "all")
    assert said is not None and (said.files, said.removed_files) == (3, 0)
    assert set(FILES) < names(folder)

    said = clear(ended(), folder, "none")
    assert said is not None and (said.best, said.files, said.removed_files) == (None, 0, 3)
    assert checkpoints(said) == "kept none; removed 3, 1.23 kB"
    assert {"trial-9.epoch-1.safetensors", "notes.txt"} <= names(folder)


def test_a_driver_killed_while_it_removes_leaves_whole_files_and_no_word_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    removed: list[Path] = []
    unlink = Path.unlink

    def unlink_one(path: Path, missing_ok: bool = False) -> None:
        if len(removed) == 1:
            raise Killed
        removed.append(path)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_one)
    with pytest.raises(Killed):
        clear(ended(), folder, "best")
    monkeypatch.undo()

    assert kept(folder) is None
    best = best_of(events(), names(folder))
    assert best is not None and best.trial == 2
    assert sweep(ended(), folder / "checkpoints") is not None  # the next verb goes on from there


def test_a_run_that_goes_on_after_a_rollback_says_that_its_checkpoints_are_gone(folder: Path) -> None:
    clear(ended(), folder, "best")

    told = forget(folder)

    assert told is not None and "removed at its end" in told and "storage.checkpoints=all" in told
    assert forget(folder) is None


def test_a_word_of_them_that_is_damaged_is_none(folder: Path) -> None:
    clear(ended(), folder, "best")
    os.truncate(folder / "checkpoints" / "kept.json", 7)

    assert kept(folder) is None


def test_what_is_said_reads_well_with_files_that_could_not_be_removed() -> None:
    said = KeptCheckpoints(keep="best", files=0, bytes=0, removed_files=0, removed_bytes=0, not_removed=2)

    assert checkpoints(said) == "kept none; 2 could not be removed"


def test_the_network_that_a_real_run_leaves_has_the_accuracy_that_its_journal_says(tmp_path: Path) -> None:
    """A run of one worker in this process, whose time is up as soon as its first trial has finished."""
    (tmp_path / "start.json").write_text(encode(plain_graph()))
    words = [*TINY, "executor=inline", f"runs={tmp_path / 'runs'}", f"start={tmp_path / 'start.json'}"]
    conf = configure([*words, "schedule.duration_seconds=36000"])

    def end_after_a_trial(driver: Driver) -> None:
        if driver.run.finished:
            driver.clock = WallClock(36000.0)

    with machines(conf) as executor_of:
        folder = run_session(make_plan(conf, this_machine(conf)), executor_of, end_after_a_trial)

    said = kept(folder)
    assert said is not None and said.best is not None and said.accuracy is not None
    assert [file.name for file in (folder / "checkpoints").glob("*.safetensors")] == [Path(said.best).name]
    network = trained_network(folder / said.best)
    correct = images = 0
    device, dtype = torch.device("cpu"), torch.float32
    data = open_data(conf.dataset)
    for batch in data.validation(50, rank=0, ranks=1, device=device, channels_last=False, dtype=dtype):
        with torch.inference_mode():
            correct += int((network.forward(batch.images).argmax(1) == batch.labels).sum())
        images += batch.count
    assert correct / images == pytest.approx(said.accuracy)
    assert report_of(folder).checkpoints == said
