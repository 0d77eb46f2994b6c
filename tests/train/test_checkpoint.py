"""Checkpoints: what is written is what is read, whole or not at all, and nothing in a file is executed."""

import os
import pickle
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch

from aiperf.train import checkpoint
from aiperf.train.checkpoint import DamagedCheckpoint, NoCheckpoint, Snapshot, Writer, load, save
from aiperf.train.checkpoint_files import CheckpointFolder


def snapshot(trial: int = 3, epoch: int = 1, value: float = 1.0) -> Snapshot:
    weights = {"conv.weight": torch.full((2, 3), value), "norm.num_batches_tracked": torch.tensor(5)}
    return Snapshot(trial, epoch, "f00d", weights, {"conv.weight": torch.ones(2, 3)}, {"scale": 1024.0})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    save(snapshot(epoch=2), folder)

    read = load(folder, 3, "f00d", 2)

    assert (read.trial, read.epoch, read.scaler) == (3, 2, {"scale": 1024.0})
    assert torch.equal(read.weights["conv.weight"], torch.ones(2, 3))
    assert read.weights["norm.num_batches_tracked"].item() == 5
    assert torch.equal(read.momentum["conv.weight"], torch.ones(2, 3))
    assert [file.name for file in tmp_path.iterdir()] == ["trial-3.epoch-2.pt"]


def test_without_an_epoch_the_newest_is_read(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for epoch in (9, 10, 2):
        save(snapshot(epoch=epoch), folder)

    assert load(folder, 3, "f00d").epoch == 10


def test_a_checkpoint_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(NoCheckpoint, match="no checkpoint of trial 3 after epoch 2"):
        load(CheckpointFolder(tmp_path), 3, "f00d", 2)


@pytest.mark.parametrize("keep", [0, 1, 100, 700])
def test_a_torn_file_is_refused_by_name(tmp_path: Path, keep: int) -> None:
    folder = CheckpointFolder(tmp_path)
    path = save(snapshot(), folder)
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(DamagedCheckpoint, match=r"trial-3\.epoch-1\.pt"):
        load(folder, 3, "f00d", 1)


def test_a_file_that_would_run_a_command_is_refused_without_running_it(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "executed"),)

    folder = CheckpointFolder(tmp_path)
    torch.save({"format": 1, "weights": Hostile()}, folder.file(3, 1))
    with pytest.raises(DamagedCheckpoint):
        load(folder, 3, "f00d", 1)
    folder.file(3, 1).write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(DamagedCheckpoint):
        load(folder, 3, "f00d", 1)

    assert not (tmp_path / "executed").exists()


def test_another_networks_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    save(snapshot(), folder)

    with pytest.raises(DamagedCheckpoint, match="beef"):
        load(folder, 3, "beef", 1)


def test_dropping_removes_one_trials_files_and_no_others(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for trial in (1, 11):
        for epoch in (1, 2):
            save(snapshot(trial, epoch), folder)

    folder.drop(1)
    folder.drop(1)

    assert (folder.epochs(1), folder.epochs(11)) == ((), (1, 2))


def test_earlier_epochs_are_kept_for_a_while_and_go_with_the_end_of_the_trial(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    writer = Writer(folder, keep_seconds=1000.0)
    for epoch in (1, 2):
        assert writer.submit(snapshot(epoch=epoch), is_last=False).result()
    assert folder.epochs(3) == (1, 2)

    assert writer.submit(snapshot(epoch=3), is_last=True).result()

    assert folder.epochs(3) == (3,)
    writer.close()


def test_a_snapshot_overtaken_while_it_waits_is_not_written_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    whole = checkpoint.save

    def slow(each: Snapshot, folder: CheckpointFolder) -> Path:
        gate.wait()
        return whole(each, folder)

    monkeypatch.setattr(checkpoint, "save", slow)  # a slow disk
    writer = Writer(CheckpointFolder(tmp_path), keep_seconds=1000.0)
    first = writer.submit(snapshot(epoch=1), is_last=False)
    while writer._waiting is not None:
        pass
    futures: list[Future[bool]] = [writer.submit(snapshot(epoch=epoch), is_last=False) for epoch in (2, 3)]
    gate.set()

    assert [first.result(), *(future.result() for future in futures)] == [True, False, True]
    writer.close()


def test_a_disk_that_refuses_is_told_to_whoever_waits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = Writer(CheckpointFolder(tmp_path / "file" / "folder"), keep_seconds=0.0)

    with pytest.raises(OSError):
        writer.submit(snapshot(), is_last=False).result()
    writer.close()
