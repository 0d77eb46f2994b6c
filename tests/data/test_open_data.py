"""Opened sets: every image once, the same for any ranks and threads, and every fault reported."""

from __future__ import annotations

import io
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from aiperf.data import hostcache
from aiperf.data.dataset_config import Cifar10Conf, DataSetConf, DigitsConf, ImagenetConf, ImagesConf, SyntheticConf
from aiperf.data.errors import DamagedData, DataError, MissingData
from aiperf.data.files import cifar10
from aiperf.data.hostcache import SHARING
from aiperf.data.opening import open_data
from aiperf.data.sets import digits
from aiperf.data.survey import describe
from aiperf.errors import BadConfiguration
from tests.builders.data_set import joined, make, picture, training, validation

pytestmark = pytest.mark.usefixtures("no_shared_memory_is_left")


def test_pixels_kept_in_memory_equal_those_decoded_each_time(small: Path) -> None:
    with (
        open_data(ImagesConf(root=str(small))) as kept,
        open_data(ImagesConf(root=str(small), cache="none")) as decoded,
    ):
        assert "pixels in memory" in kept.how and "nothing kept" in decoded.how
        for epoch in (0, 1):
            ours, theirs = (joined(list(training(data, 4, epoch=epoch))) for data in (kept, decoded))
            assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])


def test_what_memory_keeps_changes_no_pixel_of_large_images(large: Path) -> None:
    with open_data(ImagenetConf(root=str(large), cache="none")) as data:
        wanted = [joined(list(training(data, 4, epoch=epoch)))[0] for epoch in range(2)]
        plain = joined(list(validation(data, 4)))[0]
    with open_data(ImagenetConf(root=str(large))) as data:
        assert "files kept in memory" in data.how and "validation images as pixels" in data.how
        for epoch in range(2):
            assert torch.equal(joined(list(training(data, 4, epoch=epoch)))[0], wanted[epoch])
            assert torch.equal(joined(list(validation(data, 4)))[0], plain)


def test_two_processes_of_a_run_share_what_is_kept(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv(SHARING, str(tmp_path))
    monkeypatch.setattr("aiperf.data.opening._WORTH_SHARING", 0)
    conf = ImagesConf(root=str(small))

    with open_data(conf) as first:
        wanted = joined(list(training(first, 8)))[0]
        assert "one copy a host" in first.how
        monkeypatch.setattr("aiperf.data.files.samples.Samples.read", None)  # reading a file fails from now on
        with open_data(conf) as second:
            assert torch.equal(joined(list(training(second, 8)))[0], wanted)


def test_pixels_beyond_the_free_memory_are_refused_in_words(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostcache, "WATCHED_BYTES", 1 << 14)
    monkeypatch.setattr(hostcache, "available_bytes", lambda: hostcache.LEAST_FREE - 1)

    with pytest.raises(BadConfiguration, match=r"must leave 0\.5 GiB of memory free, but .* Use dataset\.cache=none"):
        open_data(ImagesConf(root=str(small), cache="decoded"))


def test_a_primed_pass_is_the_pass_and_its_first_batch_is_there(large: Path) -> None:
    with open_data(ImagenetConf(root=str(large), cache="none")) as data:
        wanted = joined(list(training(data, 4, epoch=5)))[0]
        data.prime_training(
            4,
            rank=0,
            ranks=1,
            epoch=5,
            seed=1,
            device=torch.device("cpu"),
            channels_last=True,
            dtype=torch.float32,
        )
        for _ in range(3):  # epochs that are never used
            training(data, 4, epoch=9).close()

        assert torch.equal(joined(list(training(data, 4, epoch=5)))[0], wanted)


def test_the_end_of_an_epoch_begins_the_next_and_the_validation(large: Path) -> None:
    read: list[int] = []
    with open_data(ImagenetConf(root=str(large), cache="none")) as data:
        wanted = [joined(list(training(data, 4, epoch=epoch)))[0] for epoch in range(3)]
        list(validation(data, 4))
        for epoch in range(3):
            batches = training(data, 4, epoch=epoch)
            assert torch.equal(joined(list(batches))[0], wanted[epoch])
            read.append(len(list(validation(data, 4))))
    assert read == [2, 2, 2]


def test_corrupt_images_are_skipped_up_to_the_limit(small: Path, tmp_path: Path) -> None:
    root = shutil.copytree(small, tmp_path / "set")
    (root / "train/class1/3.jpg").write_bytes(b"\xff\xd8 not a picture")
    (root / "val/class0/0.jpg").write_bytes(b"")
    for cache in ("auto", "none"):
        with open_data(ImagesConf(root=str(root), cache=cache, corrupt_limit=2)) as data:
            for epoch in (0, 1):
                assert sum(batch.count for batch in training(data, data.training_images, epoch=epoch)) == 20
                assert sum(batch.count for batch in validation(data, 4)) == 11
            assert sorted(Path(name).relative_to(root).as_posix() for name, _ in data.corrupt) == [
                "train/class1/3.jpg",
                "val/class0/0.jpg",
            ]

        def walk_all(cache: str = cache) -> None:
            with open_data(ImagesConf(root=str(root), cache=cache, corrupt_limit=1)) as data:
                list(training(data, data.training_images))
                list(validation(data, 4))

        with pytest.raises(DamagedData, match=r"at most 1 corrupt images are skipped .*, but there are 2:"):
            walk_all()


def test_a_missing_set_is_reported_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"dataset.root=FOLDER"):
        open_data(ImagesConf())
    with pytest.raises(MissingData, match=r"there is no folder .*nowhere"):
        open_data(ImagenetConf(root=str(tmp_path / "nowhere")))
    with pytest.raises(MissingData, match=r"(?s)no folder .*train.*Expected:.*train/.*CLASS_A/.*val/"):
        describe(ImagesConf(root=str(tmp_path)))
    (tmp_path / "data_batch_1").write_bytes(b"")
    with pytest.raises(MissingData, match=r"(?s)pickles .*not read.*cifar-10-batches-bin/.*data_batch_1.bin"):
        open_data(Cifar10Conf(root=str(tmp_path)))
    with pytest.raises(MissingData, match=r"train-000000.tar"):
        open_data(ImagesConf(root=str(tmp_path), format="webdataset"))


def test_training_and_validation_have_the_same_classes(tmp_path: Path) -> None:
    root = make(tmp_path / "set")
    (root / "val/class1").rename(root / "val/klass1")

    with pytest.raises(DataError, match="2 are in only one: 'class1', 'klass1'"):
        describe(ImagesConf(root=str(root)))


def test_an_empty_class_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path / "set")
    (root / "train/empty").mkdir()

    with pytest.raises(MissingData, match=r"none in 1 of 3 folders .* first 'empty'"):
        describe(ImagesConf(root=str(root)))


def test_a_misspelt_choice_is_refused_with_the_right_ones() -> None:
    with pytest.raises(BadConfiguration, match=r"dataset.cache is one of auto, .* found 'ram'"):
        ImagesConf(cache="ram")
    with pytest.raises(BadConfiguration, match=r"dataset.std"):
        ImagesConf(channels=1)
    with pytest.raises(BadConfiguration, match="one of digits, images, cifar10, imagenet, synthetic"):
        open_data(DataSetConf(name="mnist"))


def test_random_resized_crops_cannot_be_kept_decoded(large: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"cache=decoded .*use dataset.cache=encoded"):
        open_data(ImagenetConf(root=str(large), cache="decoded"))


def test_digits_are_split_evenly_for_ever() -> None:
    with open_data(DigitsConf()) as data:
        images, labels = joined(list(training(data, 1437)))
        plain, plain_labels = joined(list(validation(data, 128)))

    assert (len(images), len(plain)) == (1437, 360)
    of_all = np.bincount(torch.cat([labels, plain_labels]))
    assert np.abs(np.bincount(plain_labels) - of_all * 360 / 1797).max() < 1
    assert abs(float(images.mean())) < 2e-3 and abs(float(images.std()) - 1) < 3e-3
    # golden: a change of the split would change every result ever recorded
    assert plain_labels[:12].tolist() == [4, 1, 2, 9, 5, 1, 1, 1, 3, 3, 6, 6]


def test_noise_changes_per_epoch_only_in_training_images() -> None:
    with (
        open_data(DigitsConf()) as clean,
        open_data(DigitsConf(noise=0.2)) as noisy,
        open_data(DigitsConf(noise=0.2)) as again,
    ):
        plain, labels = joined(list(training(clean, 1437, epoch=1)))
        first, same_labels = joined(list(training(noisy, 1437, epoch=1)))
        second, _ = joined(list(training(noisy, 1437, epoch=2)))
        other, _ = joined(list(training(again, 1437, epoch=1)))
        to_validate, _ = joined(list(validation(noisy, 360)))
        to_validate_again, _ = joined(list(validation(again, 100)))
        as_it_is, _ = joined(list(validation(clean, 360)))

    assert torch.equal(first, other) and torch.equal(labels, same_labels)
    assert torch.equal(to_validate, to_validate_again)
    assert not torch.equal(first.sort(0).values, second.sort(0).values)
    for clear, noised in ((plain, first), (as_it_is, to_validate)):
        in_the_middle = ((clear * 0.3761 + 0.3053) - 0.5).abs() < 0.1  # where next to nothing is cut off
        added = ((noised - clear) * 0.3761)[in_the_middle]
        assert abs(float(added.mean())) < 0.01 and abs(float(added.std()) - 0.2) < 0.01


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_noise_of_a_digit_is_independent_of_ranks(ranks: int) -> None:
    with open_data(DigitsConf(noise=0.3)) as data:
        whole, _ = joined(list(training(data, 1437, epoch=3, seed=5)))
        steps = list(
            zip(*[list(training(data, 30, rank=r, ranks=ranks, epoch=3, seed=5)) for r in range(ranks)], strict=True)
        )

    parts = torch.cat([batch.images for step in steps for batch in step])
    assert torch.equal(parts, whole[: len(parts)]) and len(parts) >= 1437 - 30 * ranks


def test_a_digit_is_shifted_by_one_pixel_and_never_mirrored() -> None:
    with open_data(DigitsConf()) as still, open_data(DigitsConf(shift=1)) as moving:
        images, _ = joined(list(training(still, 1437, epoch=2)))
        moved, _ = joined(list(training(moving, 1437, epoch=2)))
        assert torch.equal(joined(list(validation(moving, 360)))[0], joined(list(validation(still, 360)))[0])

    padded = torch.nn.functional.pad(images, (1, 1, 1, 1), value=float(images.min()))
    windows = torch.stack([padded[:, :, y : y + 8, x : x + 8] for y in range(3) for x in range(3)])
    is_that_one = (windows == moved).flatten(2).all(2)
    assert is_that_one.any(0).all(), "each is one of the nine places of its own image"
    assert (is_that_one.sum(1) > 1437 / 9 / 2).all(), "and every place comes about as often"


@pytest.mark.parametrize("noise", [-0.1, 1.1])
def test_noise_that_there_cannot_be_is_refused(noise: float) -> None:
    with pytest.raises(BadConfiguration, match=rf"dataset.noise is between 0 and 1, but found {noise!r}"):
        DigitsConf(noise=noise)


def test_synthetic_labels_can_be_learnt(tmp_path: Path) -> None:
    conf = SyntheticConf(training_images=600, validation_images=200, image=12, classes=5)
    with open_data(conf) as data:
        images, labels = joined(list(training(data, 600)))
        plain, plain_labels = joined(list(validation(data, 200)))

    means = torch.stack([images[labels == label].mean(0) for label in range(5)])
    found = torch.cdist(plain.flatten(1), means.flatten(1)).argmin(1)

    assert (found == plain_labels).float().mean() > 0.95
    assert not torch.equal(images[labels == 0][0], images[labels == 0][1])
    assert np.ptp(np.bincount(labels)) <= 1


def test_cifar10_s_binary_version_is_read_as_it_was_published(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, 32, 32), np.uint8)
    for name in (*cifar10.TRAINING_FILES, cifar10.VALIDATION_FILE):
        with (folder / name).open("wb") as file:  # of zeros, and takes no room on the disk
            file.truncate(cifar10.RECORDS * cifar10.RECORD_BYTES)
    with (folder / cifar10.VALIDATION_FILE).open("r+b") as file:
        file.seek(7 * cifar10.RECORD_BYTES)
        file.write(b"\x05" + pixels.tobytes())

    with open_data(Cifar10Conf(root=str(tmp_path))) as data:
        assert (data.training_images, data.validation_images, data.description.classes) == (50_000, 10_000, 10)
        batch = next(validation(data, 16))
        about = data.description

    assert batch.targets.tolist() == [0] * 7 + [5] + [0] * 8
    shown = batch.images[7] * torch.tensor(about.std)[:, None, None] + torch.tensor(about.mean)[:, None, None]
    assert torch.equal((shown * 255).round().to(torch.uint8), torch.from_numpy(pixels))

    with (folder / "data_batch_2.bin").open("r+b") as file:
        file.write(b"\x0a")
    with pytest.raises(DamagedData, match=r"record 0 of .*data_batch_2.bin' has 10"):
        open_data(Cifar10Conf(root=str(tmp_path)))
    with (folder / "data_batch_3.bin").open("r+b") as file:
        file.truncate(3073)
    (folder / "data_batch_2.bin").unlink()
    with pytest.raises(MissingData, match=r"Missing .*: data_batch_2.bin"):
        describe(Cifar10Conf(root=str(tmp_path)))


def test_other_formats_than_jpeg_are_images_too(tmp_path: Path) -> None:
    root = make(tmp_path / "set", suffix=".png")
    held = io.BytesIO()
    picture(50, 40, 0, 0).save(held, "WEBP")
    (root / "train/class0/other.webp").write_bytes(held.getvalue())

    with open_data(ImagesConf(root=str(root))) as data:
        assert data.training_images == 13 and not data.corrupt
        list(training(data))


def test_imagenet_is_full_only_with_all_its_images() -> None:
    about = replace(describe(SyntheticConf()), name="imagenet", image=224, classes=1000, validation_images=50_000)

    assert replace(about, training_images=1_281_167).is_full_imagenet
    assert not replace(about, training_images=1_281_166).is_full_imagenet
    assert not replace(about, training_images=1_281_167, image=192).is_full_imagenet


@pytest.mark.skipif("AIPERF_CIFAR10_FOLDER" not in os.environ, reason="AIPERF_CIFAR10_FOLDER names no CIFAR-10 folder")
def test_real_cifar10_images_are_read_whole() -> None:
    with open_data(Cifar10Conf(root=os.environ["AIPERF_CIFAR10_FOLDER"], corrupt_limit=0)) as data:
        images, labels = joined(list(training(data, 512)))

    assert len(images) == data.description.training_images
    assert abs(float(images[:, :, 8:24, 8:24].mean())) < 0.2 and 0.8 < float(images[:, :, 8:24, 8:24].std()) < 1.2
    assert set(labels.tolist()) == set(range(10))


@pytest.mark.skipif(
    "AIPERF_IMAGENET_SAMPLE_FOLDER" not in os.environ,
    reason="AIPERF_IMAGENET_SAMPLE_FOLDER names no folder of ImageNet images",
)
def test_real_imagenet_images_are_read_whole(tmp_path: Path) -> None:
    train = Path(os.environ["AIPERF_IMAGENET_SAMPLE_FOLDER"]).resolve() / "train"
    (tmp_path / "train").symlink_to(train)
    (tmp_path / "val").symlink_to(train)

    with open_data(ImagenetConf(root=str(tmp_path), corrupt_limit=0)) as data:
        images, _ = joined(list(training(data, 32)))

        assert not data.description.is_full_imagenet
    assert abs(float(images.mean())) < 0.3 and 0.8 < float(images.std()) < 1.4


def test_the_digits_are_those_that_scikit_learn_gives() -> None:
    from sklearn.datasets import load_digits

    images, labels = digits.read()

    given = load_digits()
    assert (images == given.images).all() and (labels == given.target).all()
