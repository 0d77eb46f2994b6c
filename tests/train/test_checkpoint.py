"""Checkpoints: what is written is what is read, whole or not at all, and nothing in a file is executed."""

import os
import pickle
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiperf.train import checkpoint
from aiperf.train.checkpoint import DamagedCheckpoint, NoCheckpoint, Snapshot, Writer, copied, load, save
from aiperf.train.checkpoint_files import CheckpointFolder
from aiperf.train.weight_cache import WeightCache


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


def test_earlier_epochs_are_kept_until_another_trial_shows_that_the_end_of_this_one_was_heard_of(
    tmp_path: Path,
) -> None:
    """A driver that was killed may have heard of the first epoch alone, though the ranks went on to the last."""
    folder = CheckpointFolder(tmp_path)
    writer = Writer(folder, keep_seconds=1000.0)
    for epoch in (1, 2):
        assert writer.submit(snapshot(epoch=epoch)).result()
    assert folder.epochs(3) == (1, 2)

    assert writer.submit(snapshot(epoch=3)).result()
    writer.finish(3)
    writer.settle()
    assert folder.epochs(3) == (1, 2, 3)

    assert writer.submit(snapshot(trial=4, epoch=1)).result()

    assert (folder.epochs(3), folder.epochs(4)) == ((3,), (1,))
    writer.close()


def test_a_finished_trials_weights_are_at_hand_without_its_file_and_are_those_of_the_file(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    writer = Writer(folder, keep_seconds=1000.0)
    writer.submit(snapshot(epoch=1, value=1.0))
    writer.submit(snapshot(epoch=2, value=2.0))
    writer.finish(3)
    writer.settle()
    read = load(folder, 3, "f00d").weights
    folder.drop(3)

    at_hand = writer.final_weights(3, "f00d")

    assert at_hand.keys() == read.keys()
    assert all(torch.equal(at_hand[name], read[name]) for name in read)
    with pytest.raises(NoCheckpoint):  # another network's are never given
        writer.final_weights(3, "beef")
    writer.close()


def test_an_unfinished_trials_weights_are_read_from_its_file_alone(tmp_path: Path) -> None:
    """It may have gone on with another worker since."""
    folder = CheckpointFolder(tmp_path)
    writer = Writer(folder, keep_seconds=1000.0)
    assert writer.submit(snapshot(epoch=1, value=1.0)).result()
    save(snapshot(epoch=2, value=2.0), folder)

    assert writer.final_weights(3, "f00d")["conv.weight"].max() == 2.0
    writer.close()


@given(st.lists(st.integers(0, 9), max_size=40))
def test_of_recent_weights_the_longest_unused_go_when_the_room_is_full(uses: list[int]) -> None:
    weight_cache = WeightCache(limit=3 * 40)
    order: list[int] = []
    for trial in uses:
        if weight_cache.weights(trial, "f00d") is None:
            assert trial not in order[-3:]
            weight_cache.keep(trial, "f00d", {"w": torch.zeros(10)})
        order = [each for each in order if each != trial] + [trial]

    assert [trial for trial in range(10) if weight_cache.weights(trial, "f00d") is not None] == sorted(order[-3:])


@given(st.lists(st.sampled_from([(), (3,), (4, 3, 2, 2), (1, 5, 1, 1)]), min_size=1, max_size=6), st.booleans())
def test_copies_are_equal_in_values_and_layout_and_keep_to_themselves(
    shapes: list[tuple[int, ...]], channels_last: bool
) -> None:
    originals: dict[str, torch.Tensor] = {}
    for number, shape in enumerate(shapes):
        tensor = torch.randn(shape) if number % 3 else torch.randint(0, 9, shape)
        originals[str(number)] = (
            tensor.contiguous(memory_format=torch.channels_last) if channels_last and len(shape) == 4 else tensor
        )
    kept = {name: tensor.clone() for name, tensor in originals.items()}

    copies = copied(originals)
    for tensor in originals.values():
        tensor.zero_()

    assert list(copies) == list(originals)
    for name, tensor in copies.items():
        assert torch.equal(tensor, kept[name])
        assert (tensor.dtype, tensor.stride()) == (originals[name].dtype, originals[name].stride())


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
    first = writer.submit(snapshot(epoch=1))
    while writer._waiting is not None:
        pass
    futures: list[Future[bool]] = [writer.submit(snapshot(epoch=epoch)) for epoch in (2, 3)]
    gate.set()

    assert [first.result(), *(future.result() for future in futures)] == [True, False, True]
    writer.close()


def test_a_disk_that_refuses_is_told_to_whoever_waits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = Writer(CheckpointFolder(tmp_path / "file" / "folder"), keep_seconds=0.0)

    with pytest.raises(OSError):
        writer.submit(snapshot()).result()
    writer.close()


def test_dropping_a_trial_removes_what_a_killed_rank_had_begun_to_write_of_it(tmp_path: Path) -> None:
    for name in (".trial-1.epoch-3.pt.77.tmp", ".trial-11.epoch-3.pt.78.tmp"):
        (tmp_path / name).touch()

    CheckpointFolder(tmp_path).drop(1)

    assert [file.name for file in tmp_path.iterdir()] == [".trial-11.epoch-3.pt.78.tmp"]


def test_a_checkpoint_stands_though_its_predecessor_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: CheckpointFolder, trial: int, seconds: float) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(CheckpointFolder, "prune", refuse)
    writer = Writer(CheckpointFolder(tmp_path), keep_seconds=0.0)

    assert [writer.submit(snapshot(epoch=epoch)).result() for epoch in (1, 2)] == [True, True]
    writer.close()
