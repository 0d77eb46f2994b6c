"""Checkpoints are read as they were written, completely or not at all, and nothing in a file is executed."""

import hashlib
import os
import pickle
import threading
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from aiperf.train.checkpoints import checkpoint
from aiperf.train.checkpoints.checkpoint import DamagedCheckpoint, NoCheckpoint, Snapshot, Writer, copied, load, save
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder


def snapshot(trial: int = 3, epoch: int = 1, value: float = 1.0) -> Snapshot:
    weights = {"conv.weight": torch.full((2, 3), value), "norm.num_batches_tracked": torch.tensor(5)}
    return Snapshot(trial, epoch, "f00d", weights, {"conv.weight.momentum_buffer": torch.ones(2, 3)}, {"scale": 1024.0})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    save(snapshot(epoch=2), folder)

    read = load(folder, 3, "f00d", 2)

    assert (read.trial, read.epoch, read.scaler) == (3, 2, {"scale": 1024.0})
    assert torch.equal(read.weights["conv.weight"], torch.ones(2, 3))
    assert read.weights["norm.num_batches_tracked"].item() == 5
    assert torch.equal(read.optimiser["conv.weight.momentum_buffer"], torch.ones(2, 3))
    assert [file.name for file in tmp_path.iterdir()] == ["trial-3.epoch-2.safetensors"]


def test_without_an_epoch_the_newest_is_read(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for epoch in (9, 10, 2):
        save(snapshot(epoch=epoch), folder)

    assert load(folder, 3, "f00d").epoch == 10


def test_a_missing_checkpoint_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NoCheckpoint, match="no checkpoint of trial 3 after epoch 2"):
        load(CheckpointFolder(tmp_path), 3, "f00d", 2)


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, 400, -1])
def test_a_torn_file_is_refused_by_name(tmp_path: Path, keep: int) -> None:
    folder = CheckpointFolder(tmp_path)
    save(snapshot(), folder)
    path = folder.file(3, 1)
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(DamagedCheckpoint, match=r"trial-3\.epoch-1\.safetensors"):
        load(folder, 3, "f00d", 1)


def test_a_file_that_would_run_a_command_is_refused(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "executed"),)

    folder = CheckpointFolder(tmp_path)
    file = folder.file(3, 1)
    torch.save({"format": 1, "weights": Hostile()}, file)
    with pytest.raises(DamagedCheckpoint):
        load(folder, 3, "f00d", 1)
    file.write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(DamagedCheckpoint):
        load(folder, 3, "f00d", 1)

    assert not (tmp_path / "executed").exists()


@given(st.data())
def test_a_changed_byte_is_refused_by_name_wherever_it_lies(data: st.DataObject) -> None:
    """torch.save's files were read with it."""
    with TemporaryDirectory() as here:
        folder = CheckpointFolder(Path(here))
        save(snapshot(), folder)
        path = folder.file(3, 1)
        content = bytearray(path.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)

        try:
            read = load(folder, 3, "f00d", 1)
        except DamagedCheckpoint as error:
            assert path.name in str(error)
        else:  # a padding space of the header was replaced by another character without meaning
            assert same(read, snapshot()) and read.scaler == snapshot().scaler


def same(one: Snapshot, other: Snapshot) -> bool:
    pairs = [(one.weights, other.weights), (one.optimiser, other.optimiser)]
    return all(left.keys() == right.keys() for left, right in pairs) and all(
        torch.equal(left[name], right[name]) for left, right in pairs for name in left
    )


@pytest.mark.parametrize("channels_last", [False, True])
def test_the_file_is_one_that_any_reader_of_safetensors_reads(tmp_path: Path, channels_last: bool) -> None:
    layout = torch.channels_last if channels_last else torch.contiguous_format
    weights = {
        "conv": torch.randn(4, 3, 2, 2).contiguous(memory_format=layout),
        "scalar": torch.tensor(7),
        "none": torch.zeros(0, 3),
        "narrow": torch.randn(5).to(torch.bfloat16),
    }
    written = Snapshot(
        3, 1, "f00d", copied(weights), {"conv.momentum_buffer": torch.ones(2)}, {"scale": 2.0, "_growth_tracker": 1}
    )
    sha256 = save(written, CheckpointFolder(tmp_path))
    path = CheckpointFolder(tmp_path).file(3, 1)

    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    with safe_open(path, framework="pt") as file:
        train_order = file.metadata()
    tensors = load_file(path)

    assert train_order is not None and (train_order["format"], train_order["trial"], train_order["epoch"]) == (
        "3",
        "3",
        "1",
    )
    assert tensors.keys() == {"optimiser.conv.momentum_buffer", *(f"weights.{name}" for name in weights)}
    assert all(torch.equal(tensors[f"weights.{name}"], tensor) for name, tensor in weights.items())
    read = load(CheckpointFolder(tmp_path), 3, "f00d")
    assert same(read, written) and read.scaler == written.scaler
    assert load(CheckpointFolder(tmp_path), 3, "f00d", with_optimiser=False).optimiser == {}


def test_the_momentum_of_a_checkpoint_of_format_2_is_read(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    weights, momentum = {"conv.weight": torch.randn(2, 3)}, {"conv.weight": torch.randn(2, 3)}
    metadata = {"format": "2", "trial": "3", "epoch": "1", "fingerprint": "f00d", "scaler": "{}"}
    for kind, tensors in (("weights", weights), ("momentum", momentum)):
        metadata[f"{kind}_crc32"] = checkpoint._checksum("{}", tensors, checkpoint._in_order(tensors))
    tensors = {f"weights.{name}": each for name, each in weights.items()}
    tensors |= {f"momentum.{name}": each for name, each in momentum.items()}
    save_file(tensors, folder.file(3, 1), metadata)

    read = load(folder, 3, "f00d", 1)

    assert torch.equal(read.weights["conv.weight"], weights["conv.weight"])
    assert torch.equal(read.optimiser["conv.weight.momentum_buffer"], momentum["conv.weight"])


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


def test_earlier_epochs_are_kept_until_the_next_trial(
    tmp_path: Path,
) -> None:
    """A killed driver may know only the first epoch, although the ranks trained to the last."""
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


def test_weights_are_those_of_the_newest_submitted_file(tmp_path: Path) -> None:
    writer = Writer(CheckpointFolder(tmp_path), keep_seconds=1000.0)
    for epoch in (1, 2):
        writer.submit(snapshot(epoch=epoch, value=float(epoch)))
    writer.finish(3)

    weights = writer.final_weights(3, "f00d")

    assert torch.equal(weights["conv.weight"], torch.full((2, 3), 2.0)) and weights["norm.num_batches_tracked"] == 5
    with pytest.raises(DamagedCheckpoint):  # another network's are never given
        writer.final_weights(3, "beef")
    writer.close()


def test_weights_of_an_unfinished_trial_come_from_its_file(tmp_path: Path) -> None:
    """It may have continued with another worker since."""
    folder = CheckpointFolder(tmp_path)
    writer = Writer(folder, keep_seconds=1000.0)
    assert writer.submit(snapshot(epoch=1, value=1.0)).result()
    save(snapshot(epoch=2, value=2.0), folder)

    assert writer.final_weights(3, "f00d")["conv.weight"].max() == 2.0
    writer.close()


@given(st.lists(st.sampled_from([(), (3,), (4, 3, 2, 2), (1, 5, 1, 1)]), min_size=1, max_size=6), st.booleans())
def test_copies_are_equal_and_share_no_memory(shapes: list[tuple[int, ...]], channels_last: bool) -> None:
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


def test_an_overtaken_snapshot_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    whole = checkpoint.save

    def slow(each: Snapshot, folder: CheckpointFolder) -> str:
        gate.wait()
        return whole(each, folder)

    monkeypatch.setattr(checkpoint, "save", slow)  # a slow disk
    writer = Writer(CheckpointFolder(tmp_path), keep_seconds=1000.0)
    first = writer.submit(snapshot(epoch=1))
    while writer._waiting is not None:
        pass
    futures: list[Future[str | None]] = [writer.submit(snapshot(epoch=epoch)) for epoch in (2, 3)]
    gate.set()

    assert [bool(future.result()) for future in (first, *futures)] == [True, False, True]
    writer.close()


def test_a_failed_write_is_reported_to_every_waiting_caller(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = Writer(CheckpointFolder(tmp_path / "file" / "folder"), keep_seconds=0.0)

    with pytest.raises(OSError):
        writer.submit(snapshot()).result()
    writer.close()


def test_dropping_a_trial_removes_its_unfinished_files(tmp_path: Path) -> None:
    for name in (".trial-1.epoch-3.safetensors.77.tmp", ".trial-11.epoch-3.safetensors.78.tmp"):
        (tmp_path / name).touch()

    CheckpointFolder(tmp_path).drop(1)

    assert [file.name for file in tmp_path.iterdir()] == [".trial-11.epoch-3.safetensors.78.tmp"]


def test_a_checkpoint_is_valid_if_the_previous_one_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: CheckpointFolder, trial: int, seconds: float) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(CheckpointFolder, "prune", refuse)
    writer = Writer(CheckpointFolder(tmp_path), keep_seconds=0.0)

    assert all(writer.submit(snapshot(epoch=epoch)).result() for epoch in (1, 2))
    writer.close()
