"""Check of a set, its continuation, and packing into shards that WebDataset reads."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import webdataset
from PIL import Image
from rich.console import Console

from aiperf.data.dataset_config import DataSetConf, DigitsConf, ImagesConf
from aiperf.data.description import PrepareReport
from aiperf.data.errors import DamagedData, DataError
from aiperf.data.files.samples import INDEX, list_folder
from aiperf.data.opening import open_data
from aiperf.data.verification import FILE, opened, pack_shards, prepare
from aiperf.errors import BadConfiguration
from tests.builders.data_set import joined, make, training, validation


def _prepared(conf: DataSetConf, into: Path | None = None) -> PrepareReport:
    return prepare(conf, pack=into, out=Console(file=io.StringIO()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "set", training=6, validation=3)


def test_a_whole_set_is_counted_and_has_a_checksum_file(root: Path) -> None:
    report = _prepared(ImagesConf(root=str(root)))

    assert (report.files, report.files_checked_now, report.corrupt, report.is_usable) == (18, 18, (), True)
    lines = [json.loads(line) for line in (root / FILE).read_text().splitlines()]
    assert len(lines) == 18
    for line in lines:
        assert line["sha256"] == hashlib.sha256((root / line["file"]).read_bytes()).hexdigest()
    assert any("12 training and 6 validation images, 2 classes" in line for line in report.lines)


def test_a_check_that_was_killed_goes_on_where_it_stood(root: Path) -> None:
    whole = _prepared(ImagesConf(root=str(root)))
    lines = (root / FILE).read_bytes().splitlines(keepends=True)
    (root / FILE).write_bytes(b"".join(lines[:7]) + lines[7][:20])  # the last line torn

    report = _prepared(ImagesConf(root=str(root)))

    assert report.files_checked_now == 11
    assert report.description.contents == whole.description.contents
    assert _prepared(ImagesConf(root=str(root))).files_checked_now == 0


def test_a_changed_file_is_checked_again(root: Path) -> None:
    before = _prepared(ImagesConf(root=str(root)))
    (root / "train/class0/0.jpg").write_bytes((root / "train/class1/0.jpg").read_bytes())

    report = _prepared(ImagesConf(root=str(root)))

    assert report.files_checked_now == 1 and report.description.contents != before.description.contents


def test_the_set_s_checksum_does_not_depend_on_where_it_lies(root: Path, tmp_path: Path) -> None:
    there = root.rename(tmp_path / "elsewhere")
    here = make(tmp_path / "set", training=6, validation=3)

    here_and_there = [_prepared(ImagesConf(root=str(root))).description.contents for root in (here, there)]
    assert here_and_there[0] == here_and_there[1] is not None


def test_a_damaged_line_amid_the_checksums_is_refused(root: Path) -> None:
    (root / FILE).write_bytes(b"{torn\n{}\n")

    with pytest.raises(DamagedData, match=r"damaged at line 1 .*: remove it"):
        _prepared(ImagesConf(root=str(root)))


def test_all_corrupt_images_are_named_however_many(root: Path) -> None:
    broken = sorted((root / "train/class0").iterdir())[:4]
    for path in broken:
        path.write_bytes(path.read_bytes()[:300])

    report = _prepared(ImagesConf(root=str(root), corrupt_limit=3))

    assert [name for name, _ in report.corrupt] == [path.relative_to(root).as_posix() for path in broken]
    assert not report.is_usable
    assert any("a run will refuse the set" in line for line in report.lines)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # webdataset 1.0.2 leaves the shard to the garbage collector
def test_shards_are_read_by_webdataset_and_by_us(root: Path, tmp_path: Path) -> None:
    (root / "train/class0/0.jpg").write_bytes(b"broken")
    shards = tmp_path / "shards"

    report = _prepared(ImagesConf(root=str(root)), into=shards)

    assert report.shards == 2
    samples: Iterable[dict[str, Any]] = webdataset.WebDataset(
        str(shards / "train-000000.tar"), shardshuffle=False, empty_check=False
    ).decode("pil")
    read = [(sample["jpg"], sample["cls"]) for sample in samples]
    assert len(read) == 11 and sorted(label for _, label in read) == [0] * 5 + [1] * 6
    wanted = {np.asarray(Image.open(path).convert("RGB")).tobytes() for path in (root / "train").rglob("[1-9].jpg")}
    assert wanted <= {np.asarray(image).tobytes() for image, _ in read}
    with (
        open_data(ImagesConf(root=str(shards), format="webdataset", augment=False)) as ours,
        open_data(ImagesConf(root=str(root), augment=False)) as folder,
    ):
        for walk in (training, validation):
            # a step that holds all of them: a training epoch is whole steps, and which images are left over is drawn by order
            mine, theirs = (joined(list(walk(data, 12))) for data in (ours, folder))
            assert len(mine[0]) == (11 if walk is training else 6)
            assert _in_order(*mine) == _in_order(*theirs)


def _in_order(images: torch.Tensor, labels: torch.Tensor) -> list[tuple[int, bytes]]:
    return sorted((int(label), image.numpy().tobytes()) for image, label in zip(images, labels, strict=True))


def test_shards_without_an_index_or_with_a_stale_one_are_scanned(root: Path, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    _prepared(ImagesConf(root=str(root)), into=shards)
    conf = ImagesConf(root=str(shards), format="webdataset")
    with open_data(conf) as data:
        wanted = joined(list(training(data)))[0]

    for stale in ((shards / INDEX).read_text().replace('"bytes":', '"bytes":1'), ""):
        (shards / INDEX).write_text(stale)
        with open_data(conf) as data:
            assert torch.equal(joined(list(training(data)))[0], wanted)


def test_shards_are_packed_into_an_empty_folder_only(root: Path, tmp_path: Path) -> None:
    samples = {"train": list_folder(root, "train"), "val": list_folder(root, "val")}
    assert pack_shards(samples, (), tmp_path / "one", Console(quiet=True), images_of_a_shard=5) == 5
    assert pack_shards(samples, (), tmp_path / "two", Console(quiet=True), images_of_a_shard=5) == 5

    for shard in (tmp_path / "one").glob("*.tar"):
        assert (tmp_path / "two" / shard.name).read_bytes() == shard.read_bytes()
    with pytest.raises(DataError, match=r"into an empty folder, but .*one' contains files"):
        pack_shards(samples, (), tmp_path / "one", Console(quiet=True), images_of_a_shard=5)


def test_two_prepares_of_one_set_do_not_meet(root: Path) -> None:
    with opened(root / FILE), pytest.raises(DataError, match="only one `prepare` may write"), opened(root / FILE):
        pass
    with opened(root / FILE) as held:
        assert held.known == {}


def test_a_damaged_shard_is_refused_by_name(root: Path, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    _prepared(ImagesConf(root=str(root)), into=shards)
    (shards / "val-000000.tar").write_bytes(b"x" * 700)

    with pytest.raises(DamagedData, match=r"val-000000.tar' cannot be read: .*Copy it again"):
        open_data(ImagesConf(root=str(shards), format="webdataset"))


def test_a_set_without_files_has_nothing_to_check_or_pack(tmp_path: Path) -> None:
    assert _prepared(DigitsConf()).lines[-1].startswith("nothing to check")
    with pytest.raises(BadConfiguration, match="has none"):
        _prepared(DigitsConf(), into=tmp_path)
