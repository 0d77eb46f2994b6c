"""Contents of a set: one hash for every layout, files drawn and hashed at the start, and forgeries that are found."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import h5py
import msgspec
import pytest
from PIL import Image
from rich.console import Console

from aiperf.__main__ import main
from aiperf.data.dataset_config import DigitsConf, ImagesConf, WeatherConf, WeatherSyntheticConf
from aiperf.data.description import HashedFiles
from aiperf.data.files import index
from aiperf.data.files.samples import INDEX
from aiperf.data.sets import weather_synthetic
from aiperf.data.survey import describe, hashed_files, write_index
from aiperf.data.verification import prepare
from aiperf.measure.all_probes import Data
from aiperf.measure.probe import Setting
from aiperf.system import describe as system
from tests.builders.data_set import make


def prepared(root: Path, pack: Path | None = None, **options: Any) -> str | None:
    conf = ImagesConf(root=str(root), **options)
    return prepare(conf, pack=pack, out=Console(file=io.StringIO())).description.contents


def forged(original: Path) -> None:
    """Make a JPEG of one colour with the size of the original: bytes behind its end mark are not read."""
    size, image = original.stat().st_size, io.BytesIO()
    Image.new("RGB", (8, 8), (40, 60, 80)).save(image, "JPEG", quality=1)
    original.write_bytes(image.getvalue() + bytes(size - len(image.getvalue())))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "set", training=9, validation=5)


def test_padded_jpegs_of_one_colour_have_other_contents(root: Path, tmp_path: Path) -> None:
    forgery = Path(shutil.copytree(root, tmp_path / "forgery"))
    for path in forgery.rglob("*.jpg"):
        forged(path)

    original, other = prepared(root), prepared(forgery)

    sets = [describe(ImagesConf(root=str(each))) for each in (root, forgery)]
    assert sets[0].fingerprint == sets[1].fingerprint, "names, labels and sizes are equal"
    assert None not in (original, other) and original != other


@pytest.mark.parametrize("layout", ["folders", "shards"])
def test_a_run_on_changed_files_is_refused_with_their_names(
    root: Path, tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shards, changed = tmp_path / "shards", root / "train/class1/7.jpg"
    prepared(root, shards)
    place, words, name = root, [], str(changed)
    if layout == "folders":
        forged(changed)
    else:
        place, words, name = shards, ["dataset.format=webdataset"], "train-000000.tar:"
        shard, original = shards / "train-000000.tar", changed.read_bytes()
        forged(changed)
        shard.write_bytes(shard.read_bytes().replace(original, changed.read_bytes()))
    options = ["dataset=images", f"dataset.root={place}", *words, "executor=inline", f"runs={tmp_path / 'runs'}"]

    assert main([*options, "schedule.duration_seconds=20", "schedule.warmup_seconds=1"]) != 0

    said = "".join(capsys.readouterr())
    assert "no run begins on changed files" in said and name in said, said
    assert not list((tmp_path / "runs").glob("*/journal.jsonl"))


def test_folders_shards_and_renamed_files_have_equal_contents(root: Path, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    whole = prepared(root, shards)
    shutil.copytree(root, renamed := tmp_path / "renamed")
    (renamed / "train/class0/0.jpg").rename(renamed / "train/class0/zero.jpg")

    packed = describe(ImagesConf(root=str(shards), format="webdataset"))
    (shards / INDEX).unlink()
    again = prepared(shards, format="webdataset")

    assert whole == packed.contents == again == prepared(renamed)
    assert describe(ImagesConf(root=str(shards), format="webdataset")).contents == whole, "its index has the hashes"


@pytest.mark.parametrize("change", ["label", "split"])
def test_an_image_with_another_label_or_split_is_another_set(root: Path, change: str) -> None:
    before = prepared(root)
    target = root / ("train/class1" if change == "label" else "val/class0") / "moved.jpg"
    (root / "train/class0/0.jpg").rename(target)

    assert prepared(root) != before


def test_an_index_without_hashes_shows_no_contents(root: Path) -> None:
    conf = ImagesConf(root=str(root))
    write_index(conf)
    assert describe(conf).contents is None and hashed_files(conf, 1) is None
    header = index.read(root / index.FILE, root).header
    former = msgspec.to_builtins(header) | {"contents": "f" * 64}  # a hash over names, as former releases wrote it

    assert msgspec.convert(former, index.Header) == header


@pytest.mark.parametrize("change", ["pixels", "boxes"])
def test_weather_contents_cover_pixels_and_boxes_in_both_layouts(tmp_path: Path, change: str) -> None:
    small = WeatherSyntheticConf(training_images=12, validation_images=4, height=32, width=64)
    weather_synthetic.prepare(small, tmp_path / "a", Console(quiet=True), None, is_published_layout=True)
    prepare(WeatherConf(root=str(tmp_path / "a")), pack=tmp_path / "b", out=Console(quiet=True))
    one, other = (describe(WeatherConf(root=str(tmp_path / name))).contents for name in "ab")
    with h5py.File(tmp_path / "b/climo_1979.h5", "a") as file:
        if change == "pixels":
            file["images"][0, 0] = file["images"][0, 0][::-1]  # equal mean and deviation
        else:
            file["boxes"][0, 0] = (1, 1, 9, 9, 0)
    (tmp_path / "b/aiperf-weather.json").unlink()
    prepare(WeatherConf(root=str(tmp_path / "b")), pack=None, out=Console(quiet=True))

    assert one == other is not None and describe(WeatherConf(root=str(tmp_path / "b"))).contents != one


def test_digits_have_the_contents_of_their_file_whatever_the_options() -> None:
    assert describe(DigitsConf()).contents == describe(DigitsConf(noise=0.3)).contents is not None


def test_the_seed_draws_the_files_that_are_hashed(root: Path) -> None:
    prepared(root)
    for path in [*root.rglob("*.jpg")]:
        forged(path)
    draws = [hashed_files(ImagesConf(root=str(root)), seed, 10) for seed in (1, 1, 2)]

    assert draws[0] == draws[1] and draws[0] is not None and draws[2] is not None
    assert draws[0].changed != draws[2].changed and len(draws[0].changed) == draws[0].hashed == 10
    assert draws[0].files == 28


@pytest.mark.parametrize(("file_system", "hashed"), [("ext4", 1000), ("nfs4", 500), ("unheard of", 1000)])
def test_nodes_share_the_files_of_a_shared_copy(
    root: Path, monkeypatch: pytest.MonkeyPatch, file_system: str, hashed: int
) -> None:
    asked: list[int] = []

    def noted(conf: ImagesConf, seed: int, files: int) -> HashedFiles | None:
        asked.append(files)
        return hashed_files(conf, seed, files)

    monkeypatch.setattr("aiperf.measure.all_probes.hashed_files", noted)
    place = system.Storage(name="root", file_system=file_system, source="x", size_bytes=1)
    monkeypatch.setattr("aiperf.measure.all_probes.storage", lambda folders: (place,))
    prepared(root)
    setting = Setting("", root, "", root, 0, 1, ImagesConf(root=str(root)), "fp32")

    facts = Data(nodes=4).measure(setting).facts

    assert asked == [hashed]
    assert (facts["hashed"], facts.get("is_shared", False)) == (28, file_system == "nfs4")
