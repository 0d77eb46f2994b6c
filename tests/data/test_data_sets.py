"""The contract of a data set: each in the registry DATA_SETS passes all of this, however it is kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from rich.console import Console

from aiperf.data.batches import Batch
from aiperf.data.dataset_config import (
    DATA_SETS,
    DataSetConf,
    FilesConf,
    FolderConf,
    ImagenetConf,
    ImagesConf,
    SyntheticConf,
    TextConf,
    TokensConf,
    WeatherConf,
    WeatherSyntheticConf,
)
from aiperf.data.description import DataSet
from aiperf.data.errors import DataError, MissingData
from aiperf.data.files.samples import list_folder
from aiperf.data.files.weather_files import BOX_ROWS
from aiperf.data.opened import OpenData
from aiperf.data.opening import open_data
from aiperf.data.survey import describe
from aiperf.data.verification import pack_shards, prepare
from tests.builders.data_set import joined, token_set, training, validation
from tests.data.conftest import open_caches

Example = Callable[[Path, Path, Path, Path], DataSetConf]
"""Configuration from folders with small images, large images, shards of the small ones, and weather images."""


def usual(kind: type[DataSetConf]) -> Example:
    """Return the default configuration of a set, with small images for sets of files."""
    return lambda small, large, shards, weather: kind(root=str(small)) if issubclass(kind, FilesConf) else kind()


def tokens(root: Path, shards: int) -> TokensConf:
    token_set(root, shards=shards, vocabulary=999)
    return TokensConf(root=str(root), vocabulary=999, length=16, training_samples=24, validation_samples=20)


FEW = SyntheticConf(training_images=50, validation_images=20, image=16)
FEW_FIELDS = WeatherSyntheticConf(training_images=24, validation_images=20, height=32, width=64)
EXAMPLES: dict[str, Example] = {
    **{kind().name: usual(kind) for kind in DATA_SETS},
    "synthetic": lambda small, large, shards, weather: FEW,
    "weather_synthetic": lambda small, large, shards, weather: FEW_FIELDS,
    "weather": lambda small, large, shards, weather: WeatherConf(root=str(weather)),
    "text": lambda small, large, shards, weather: TextConf(length=16, training_samples=24, validation_samples=20),
    "tokens": lambda small, large, shards, weather: tokens(weather.parent / "raw", shards=0),
    "tokens, shards": lambda small, large, shards, weather: tokens(weather.parent / "headed", shards=3),
    "imagenet": lambda small, large, shards, weather: ImagenetConf(root=str(large)),
    "imagenet, nothing kept": lambda small, large, shards, weather: ImagenetConf(root=str(large), cache="none"),
    "imagenet, files kept": lambda small, large, shards, weather: ImagenetConf(root=str(large), cache="encoded"),
    "images, nothing kept": lambda small, large, shards, weather: ImagesConf(root=str(small), cache="none"),
    "images, grey": lambda small, large, shards, weather: ImagesConf(
        root=str(small), cache="encoded", image=24, channels=1, mean=[0.5], std=[0.2]
    ),
    "images, shards": lambda small, large, shards, weather: ImagesConf(root=str(shards), format="webdataset"),
    "images, shards, nothing kept": lambda small, large, shards, weather: ImagesConf(
        root=str(shards), format="webdataset", cache="none"
    ),
}
"""Configuration of a small example of each data set. A large set in DATA_SETS needs one here."""


@pytest.fixture(scope="module")
def shards(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    listed = {split: list_folder(small, split) for split in ("train", "val")}
    pack_shards(listed, (), folder, Console(quiet=True), images_of_a_shard=8)
    return folder


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weather")
    prepare(FEW_FIELDS, pack=folder, out=Console(quiet=True))
    return folder


@pytest.fixture(scope="module", params=EXAMPLES)
def conf(request: pytest.FixtureRequest, small: Path, large: Path, shards: Path, weather: Path) -> DataSetConf:
    return EXAMPLES[request.param](small, large, shards, weather)


@pytest.fixture(scope="module")
def shared_memory(conf: DataSetConf) -> Iterator[None]:
    """Nothing of a set is left in memory when it is closed."""
    yield
    assert open_caches() == []


@pytest.fixture(scope="module")
def data(conf: DataSetConf, shared_memory: None) -> Iterator[OpenData]:
    with open_data(conf) as opened:
        yield opened


@pytest.fixture
def plain(conf: DataSetConf, shared_memory: None) -> Iterator[OpenData]:
    """The same set without augmentation: an image is the same whenever it comes."""
    with open_data(replace(conf, augment=False)) as opened:
        yield opened


def pictures(images: torch.Tensor) -> list[bytes]:
    """In an order of their own."""
    return sorted(image.contiguous().numpy().tobytes() for image in images)


def shape(about: DataSet) -> tuple[int, ...]:
    return (about.image,) if about.targets == "tokens" else (about.channels, about.image, about.width or about.image)


def classes(targets: torch.Tensor) -> set[int]:
    """Return the classes of all images or boxes, from 0."""
    if targets.dtype == torch.int64:
        return set(targets.flatten().tolist())
    found = targets[..., 4][targets[..., 4] > 0]
    return {int(label) - 1 for label in found}


def test_an_opened_set_is_what_was_described_without_opening_it(conf: DataSetConf, data: OpenData) -> None:
    about = describe(conf)
    images, labels = joined(list(training(data, about.training_images)))
    to_validate, their_labels = joined(list(validation(data, 8)))

    assert data.description == about
    assert images.shape == (about.training_images, *shape(about))
    assert to_validate.shape == (about.validation_images, *shape(about))
    if about.targets == "tokens":
        assert classes(labels) | classes(their_labels) <= set(range(about.classes))
    else:
        assert classes(labels) == classes(their_labels) == set(range(about.classes))


@pytest.mark.parametrize(("dtype", "channels_last"), [(torch.float32, True), (torch.bfloat16, False)])
def test_batches_have_the_requested_shape_type_and_layout(
    data: OpenData, dtype: torch.dtype, channels_last: bool
) -> None:
    batches = training(data, 4, dtype=dtype, channels_last=channels_last)
    first = next(batches)
    batches.close()

    about = data.description
    assert first.images.shape == (4, *shape(about))
    if about.targets == "tokens":
        assert first.images.dtype == torch.int64
    else:
        layout = torch.channels_last if channels_last else torch.contiguous_format
        assert first.images.dtype == dtype and first.images.is_contiguous(memory_format=layout)
    kinds = {
        "classes": ((4,), torch.int64),
        "boxes": ((4, BOX_ROWS, 5), torch.float32),
        "tokens": ((4, about.image), torch.int64),
    }
    assert (first.targets.shape, first.targets.dtype) == kinds[about.targets]
    assert (first.count, first.global_count) == (4, 4)
    assert torch.isfinite(first.images.float()).all() and len(pictures(first.images.float())) == 4


def test_an_epoch_visits_each_image_once_in_an_order_of_its_own(plain: OpenData) -> None:
    first, second = (joined(list(training(plain, plain.training_images, epoch=epoch))) for epoch in (0, 1))

    assert len(first[0]) == plain.training_images
    assert pictures(first[0]) == pictures(second[0])
    assert not torch.equal(first[0], second[0])


def test_all_ranks_together_see_the_images_of_one_process(data: OpenData) -> None:
    alone = list(training(data, 6, epoch=2))
    ranks = [list(training(data, 2, rank=rank, ranks=3, epoch=2)) for rank in range(3)]
    to_validate = joined(list(validation(data, 6)))
    ranks_validate = [list(validation(data, 2, rank=rank, ranks=3)) for rank in range(3)]

    together = [share for step in zip(*ranks, strict=True) for share in step]
    assert torch.equal(joined(together)[0], joined(alone)[0])
    assert torch.equal(joined(together)[1], joined(alone)[1])
    assert sum(share.count for share in together) == sum(batch.count for batch in alone)
    for step in zip(*ranks, strict=True):
        assert {share.global_count for share in step} == {sum(share.count for share in step)}
    assert torch.equal(
        joined([share for step in zip(*ranks_validate, strict=True) for share in step])[0], to_validate[0]
    )


def test_a_number_names_the_same_sample_for_any_ranks(data: OpenData) -> None:
    def named(batches: Iterable[Batch]) -> dict[int, bytes]:
        pairs = ((batch.numbers.tolist(), batch.images) for batch in batches)
        return {
            number: pictures(image[None])[0] for of, images in pairs for number, image in zip(of, images, strict=True)
        }

    alone = named(validation(data, 6))

    assert [*alone] == [*range(data.validation_images)]
    assert named(batch for rank in range(3) for batch in validation(data, 2, rank=rank, ranks=3)) == alone


def test_the_same_seed_and_epoch_are_the_same_and_others_are_not(data: OpenData) -> None:
    once, again = (joined(list(training(data, 8, epoch=1))) for _ in range(2))
    other_epoch = joined(list(training(data, 8, epoch=2)))[0]
    other_seed = joined(list(training(data, 8, epoch=1, seed=2)))[0]

    assert torch.equal(once[0], again[0]) and torch.equal(once[1], again[1])
    assert not torch.equal(once[0], other_epoch)
    assert not torch.equal(once[0], other_seed)


def test_validation_is_the_same_after_any_epoch(data: OpenData, plain: OpenData) -> None:
    before = joined(list(validation(data, 8)))
    list(training(data, 8, epoch=3))

    for after in (joined(list(validation(data, 5))), joined(list(validation(plain, 8)))):
        assert torch.equal(after[0], before[0]) and torch.equal(after[1], before[1])


def test_more_ranks_than_images_are_refused(data: OpenData) -> None:
    many = data.training_images + 1

    with pytest.raises(DataError, match=f"for {many} ranks: use at most {data.training_images} ranks"):
        training(data, 8, ranks=many)


@pytest.mark.parametrize("kind", DATA_SETS)
def test_configurations_pass_through_omegaconf(kind: type[DataSetConf]) -> None:
    schema = OmegaConf.structured(kind)

    back = OmegaConf.to_object(OmegaConf.merge(schema, {"augment": False}))

    assert back == replace(kind(), augment=False)


@pytest.mark.parametrize("kind", [kind for kind in DATA_SETS if issubclass(kind, FolderConf)])
@pytest.mark.parametrize("root", [None, "nowhere", "empty"])
def test_a_set_without_files_is_refused_with_the_layout(
    kind: type[FolderConf], root: str | None, tmp_path: Path
) -> None:
    if kind is TextConf and root is None:
        assert describe(kind()).source, "its default is Python's library"
        return
    (tmp_path / "empty").mkdir()
    chosen = kind(root=None if root is None else str(tmp_path / root))

    for act in (describe, open_data):
        with pytest.raises(MissingData, match=r"dataset\.root=FOLDER" if root is None else root):
            act(chosen)
