"""Corrupt images in a real folder: they are named, they count nowhere, and with one more than the limit it is over."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from aiperf.data.dataset_config import ImagesConf
from aiperf.data.errors import DamagedData
from aiperf.data.opening import open_data
from aiperf.journal.messages import CorruptImagesFound, Crashed, Message, TrialDone
from aiperf.train.loop import train_here
from aiperf.train.ranks.group import RankGroup, WorkerEnded
from aiperf.train.ranks.protocol import Recipe
from aiperf.train.trainer_config import TrainerConf
from morphism import Graph, encode, start
from tests.builders.data_set import make
from tests.builders.order import advances, epochs, follow, order

CONF = TrainerConf(threads=1, precision="fp32", collective="torch", start_seconds=90.0)
CORRUPT = ("train/class0/3.jpg", "train/class1/0.jpg", "train/class1/17.jpg", "val/class0/2.jpg")
TRAINING, VALIDATION = 2 * 20, 2 * 6


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """40 and 12 images, of which three and one are cut off in the middle."""
    root = make(tmp_path / "set", training=20, validation=6)
    for name in CORRUPT:
        whole = (root / name).read_bytes()
        (root / name).write_bytes(whole[: len(whole) // 2])
    return root


def images(root: Path, limit: int = 10, cache: str = "none") -> ImagesConf:
    """Decoded while they are needed, unless they are kept."""
    crop = "pad" if cache == "decoded" else "resized"
    return ImagesConf(root=str(root), image=16, crop=crop, cache=cache, workers=1, corrupt_limit=limit)


def network() -> Graph:
    return start("digits_small", image=16, channels=3, classes=2)


def named(words: Iterable[Message]) -> set[str]:
    """Return the last parts of the reported names."""
    files = [name for word in words if isinstance(word, CorruptImagesFound) for name, _ in word.files]
    return {"/".join(Path(name).parts[-3:]) for name in files}


def check(words: list[Message], training: int = TRAINING - 3) -> None:
    assert isinstance(words[-1], TrialDone)
    assert [word.advanced.training_images for word in epochs(words)] == [training] * 2
    assert [word.advanced.validation_images for word in epochs(words)] == [VALIDATION - 1] * 2
    for word in advances(words):
        assert word.training_images <= training and word.validation_images <= VALIDATION - 1
    assert named(words) == set(CORRUPT)


@pytest.mark.parametrize("cache", ["none", "decoded"])
def test_processed_images_count_and_corrupt_ones_are_named(root: Path, tmp_path: Path, cache: str) -> None:
    train_order = order(batch_size=8, progress_seconds=1e-6)

    with open_data(images(root, cache=cache)) as opened:
        words = list(train_here(train_order, CONF, opened, network(), tmp_path / "checkpoints"))

    # cached: 37 images make four whole steps. Decoded on demand: 37 of 40 images are processed in five steps
    check(words, 32 if cache == "decoded" else 37)
    skipped = [word for word in words if isinstance(word, CorruptImagesFound)]
    assert {word.worker for word in skipped} == {train_order.worker}
    assert len(skipped) < 6  # reported when there are more of them, not at each step


@pytest.mark.slow
def test_each_rank_reports_its_corrupt_images(root: Path, tmp_path: Path) -> None:
    group = RankGroup(Recipe(CONF, images(root), encode(network()), tmp_path, 2), accelerators=0)
    try:
        assert group.start().ranks == 2
        words = follow(group, order(batch_size=10, progress_seconds=1e-6))
    finally:
        group.close()

    check(words)
    said = advances(words)
    assert len(said) > 6
    assert [word.training_images for word in said if word.epoch == 2][-1] == TRAINING - 3


def test_too_many_corrupt_images_end_the_worker(root: Path, tmp_path: Path) -> None:
    group = RankGroup(Recipe(CONF, images(root, limit=2), encode(network()), tmp_path, 2), accelerators=0)
    words: list[Message] = []
    try:
        group.start()
        pids = group.pids()
        group.order(order(batch_size=8, last_epoch=5))
        with pytest.raises(WorkerEnded, match=r"at most 2 corrupt images are skipped \(dataset.corrupt_limit\)"):
            while True:
                words += group.messages(timeout=60.0)
        assert not group.is_alive
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        group.close()

    assert len(named(words)) > 2
    (end,) = [word for word in words if isinstance(word, Crashed)]
    assert "corrupt" in end.reason


def test_corrupt_images_are_reported_before_the_trial_ends(root: Path, tmp_path: Path) -> None:
    words: list[Message] = []

    with (
        open_data(images(root, limit=0)) as opened,
        pytest.raises(DamagedData, match="at most 0 corrupt images are skipped"),
    ):
        for word in train_here(order(batch_size=8), CONF, opened, network(), tmp_path / "checkpoints"):
            words.append(word)

    assert len(named(words)) == 1


def test_a_validation_batch_of_corrupt_images_alone_is_left_out(tmp_path: Path) -> None:
    """The last step of a pass over 9 images has two: both are cut off."""
    root = make(tmp_path / "set", training=8, validation=5)
    (root / "val/class1/4.jpg").unlink()
    for name in ("val/class1/2.jpg", "val/class1/3.jpg"):
        (root / name).write_bytes(b"")

    with open_data(images(root)) as opened:
        train_order = order(batch_size=8, last_epoch=1)
        words = list(train_here(train_order, CONF, opened, network(), tmp_path / "checkpoints"))

    assert epochs(words)[0].advanced.validation_images == 7
