"""A disk that is full costs checkpoints, not trials: on a real file system of 16 MiB, filled up."""

import errno
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import pytest
import torch

import aiperf.train.loop
from aiperf.data.opening import open_data
from aiperf.journal.events import CheckpointNotWritten, CheckpointWritten
from aiperf.journal.messages import Message, TrialDone
from aiperf.train.checkpoints.checkpoint import Snapshot, Writer, load, save
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder, trial_of
from aiperf.train.loop import train_here
from aiperf.train.ranks.group import RankGroup
from aiperf.train.ranks.protocol import Recipe
from morphism import encode
from tests.builders.order import CONF, IMAGES, follow, graph, order

DISK_BYTES = 16 * 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A separate file system of 16 MiB, enough for one checkpoint of the smallest start and more."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, leave: int = 0) -> Path:
    """Fill the file system up to the given number of free bytes. Return the file that takes them."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError as error:
            assert error.errno == errno.ENOSPC
        file.truncate(max(0, file.tell() - leave))
    return filler


def snapshot(numbers: int, epoch: int = 1) -> Snapshot:
    return Snapshot(3, epoch, "f00d", {"w": torch.ones(numbers)}, {"w": torch.ones(numbers)}, {})


@pytest.mark.parametrize("free", [0, 4096, 3 * 4096, DISK_BYTES // 2])
def test_a_full_disk_is_an_os_error_and_leaves_no_file(disk: Path, free: int) -> None:
    """Wherever the disk fills up: before the first byte, among the headers, or within a tensor."""
    folder = CheckpointFolder(disk / "checkpoints")
    folder.path.mkdir()
    filler = fill(disk, leave=free)

    with pytest.raises(OSError, match="No space left"):
        save(snapshot(DISK_BYTES // 4), folder)

    assert list(folder.path.iterdir()) == []
    filler.unlink()
    save(snapshot(1000), folder)
    assert torch.equal(load(folder, 3, "f00d", 1).weights["w"], torch.ones(1000))


def test_a_trial_on_a_full_disk_continues_and_saves_later(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Prompt(Writer):
        def submit(self, snapshot: Snapshot) -> Future[str | None]:
            file = super().submit(snapshot)
            wait([file])  # no epoch is overtaken, however slow this machine is
            return file

    monkeypatch.setattr(aiperf.train.loop, "Writer", Prompt)
    (disk / "checkpoints").mkdir()
    filler = fill(disk)
    words: list[Message] = []

    with open_data(IMAGES) as images:
        for word in train_here(order(last_epoch=5), CONF, images, graph(), disk / "checkpoints"):
            words.append(word)
            if isinstance(word, CheckpointNotWritten) and word.epoch == 3:
                filler.unlink()

    assert isinstance(words[-1], TrialDone)
    assert [word.epoch for word in words if isinstance(word, CheckpointWritten)] == [4, 5]
    lost = [word for word in words if isinstance(word, CheckpointNotWritten)]
    assert [word.epoch for word in lost] == [1, 2, 3]
    assert all((word.trial, word.attempt) == (1, 1) and "No space left" in word.reason for word in lost)
    assert load(CheckpointFolder(disk / "checkpoints"), 1, graph().fingerprint).epoch == 5


def test_ranks_with_a_full_run_folder_continue(disk: Path) -> None:
    """The ranks' output goes to the same disk."""
    group = RankGroup(Recipe(CONF, IMAGES, encode(graph()), disk, 1), accelerators=0)
    try:
        group.start()
        fill(disk)
        words = follow(group, order(last_epoch=3))
    finally:
        group.close()

    assert isinstance(words[-1], TrialDone)
    assert not any(isinstance(word, CheckpointWritten) for word in words)
    assert any(isinstance(word, CheckpointNotWritten) for word in words)


def test_a_checkpoint_gets_its_name_after_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content reaches the disk before the name, and the name before it is reported."""
    done: list[str] = []
    sync, rename = os.fsync, Path.replace

    def synced(file: int) -> None:
        sync(file)
        done.append(f"sync {Path(f'/proc/self/fd/{file}').readlink().name}")

    def renamed(path: Path, target: Path) -> Path:
        done.append(f"rename {path.name} {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)

    save(snapshot(10), CheckpointFolder(tmp_path))

    temporary = done[0].removeprefix("sync ")
    assert trial_of(temporary) == 3
    assert done == [f"sync {temporary}", f"rename {temporary} trial-3.epoch-1.safetensors", f"sync {tmp_path.name}"]
