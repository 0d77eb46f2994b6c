"""The index of class folders: a run reads it instead of listing them, and it is refused once it does not hold any more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from aiperf.__main__ import main
from aiperf.data.dataset_config import Cifar10Conf, DigitsConf, ImagenetConf, ImagesConf, SyntheticConf
from aiperf.data.errors import DamagedData, DataError, MissingData, OtherData, StaleIndex
from aiperf.data.files import index
from aiperf.data.files.class_folders import ClassFolders
from aiperf.data.files.index import of_splits
from aiperf.data.files.samples import INDEX as SHARDS_INDEX
from aiperf.data.files.samples import list_folder
from aiperf.data.opening import open_data
from aiperf.data.survey import data_fingerprint, describe, held_to, index_path, is_indexed, listing, write_index
from aiperf.data.verification import pack_shards
from tests.builders.data_set import joined, make, training, validation

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "set", training=6, validation=3, classes=3)


def indexed(root: Path) -> ImagesConf:
    conf = ImagesConf(root=str(root))
    write_index(conf)
    return conf


_NAMES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1), unique=True, max_size=5)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text("abcé", min_size=1), _NAMES), max_size=4, unique_by=lambda each: each[0]))
def test_names_kept_as_bytes_equal_their_paths(files: list[tuple[str, list[str]]]) -> None:
    made = ClassFolders.of(Path("/set/train"), files)

    assert list(made) == [Path("/set/train", folder, name) for folder, names in files for name in names]
    assert [made.files(label) for label in range(len(files))] == [names for _, names in files]
    assert [made.classes[label] for label in made.labels] == [folder for folder, names in files for _ in names]


def test_a_set_read_from_its_index_is_the_set_that_was_listed(root: Path) -> None:
    conf = ImagesConf(root=str(root), augment=False)
    listed = describe(conf)
    with open_data(conf) as data:
        wanted = [joined(list(walk(data, 3))) for walk in (training, validation)]

    write_index(conf)

    assert listing(conf).index is not None
    assert describe(conf) == listed
    with open_data(conf) as data:
        for walk, (images, labels) in zip((training, validation), wanted, strict=True):
            mine = joined(list(walk(data, 3)))
            assert torch.equal(mine[0], images) and torch.equal(mine[1], labels)


def test_names_that_are_no_text_are_indexed_too(root: Path) -> None:
    odd = os.fsdecode(b"caf\xe9 \xff.jpg")
    (root / "train/class0/0.jpg").rename(root / "train/class0" / odd)

    conf = indexed(root)

    found = listing(conf).training
    assert [Path(found.path_text(number)).name for number in range(6)].count(odd) == 1
    assert data_fingerprint(conf) == listing(conf, ignore_index=True).fingerprint


def test_the_fingerprint_depends_only_on_the_content(root: Path, tmp_path: Path) -> None:
    before = data_fingerprint(ImagesConf(root=str(root)))
    there = shutil.copytree(root, tmp_path / "elsewhere")

    assert data_fingerprint(ImagesConf(root=str(there))) == before
    for number, change in enumerate((_added, _gone, _longer, _moved, _renamed)):
        changed = shutil.copytree(root, tmp_path / f"changed{number}")
        change(changed)
        assert data_fingerprint(ImagesConf(root=str(changed))) != before, change


def test_the_fingerprint_of_a_set_follows_the_page(tmp_path: Path) -> None:
    root = make(tmp_path / "set", training=1, validation=1, classes=2)
    found = listing(ImagesConf(root=str(root)))

    lines = "".join(
        f"{split}/class{label}/0.jpg\t{label}\t{(root / split / f'class{label}' / '0.jpg').stat().st_size}\n"
        for split in ("train", "val")
        for label in (0, 1)
    )
    wanted = subprocess.run(["sha256sum"], input=lines, capture_output=True, text=True, check=True).stdout.split()[0]

    assert of_splits(root, (found.training, found.validation)) == wanted


def test_every_set_has_a_fingerprint(root: Path) -> None:
    assert data_fingerprint(DigitsConf()) != data_fingerprint(DigitsConf(noise=0.1))
    assert data_fingerprint(SyntheticConf()) != data_fingerprint(SyntheticConf(seed=1))
    folders = data_fingerprint(ImagesConf(root=str(root)))
    assert data_fingerprint(Cifar10Conf(root=str(root))) == data_fingerprint(ImagenetConf(root=str(root))) == folders


def _added(root: Path) -> None:
    shutil.copy(root / "train/class1/0.jpg", root / "train/class1/00.jpg")


def _gone(root: Path) -> None:
    (root / "val/class2/1.jpg").unlink()


def _longer(root: Path) -> None:
    with (root / "train/class0/3.jpg").open("ab") as file:
        file.write(b"more")


def _moved(root: Path) -> None:
    (root / "train/class0/3.jpg").rename(root / "train/class1/33.jpg")


def _renamed(root: Path) -> None:
    for split in ("train", "val"):
        (root / split / "class0").rename(root / split / "klass0")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_added, r"class1' holds 7 images and 6 were indexed: 1 new, first '00.jpg'"),
        (_gone, r"class2' holds 2 images and 3 were indexed: 1 removed, first '1.jpg'"),
        (_moved, r"class0' holds 5 images and 6 were indexed: 1 removed, first '3.jpg'"),
        (_renamed, r"the class folders of .*train' have changed: 1 removed, first 'class0', 1 new, first 'klass0'"),
    ],
)
def test_an_outdated_index_is_refused_with_the_difference(
    root: Path, change: Callable[[Path], None], message: str
) -> None:
    conf = indexed(root)
    change(root)

    for act in (describe, open_data):
        with pytest.raises(StaleIndex, match=message) as refused:
            act(conf)
        assert "--index-only" in str(refused.value)

    write_index(conf)
    describe(conf)


def test_a_copy_of_the_set_with_other_times_is_the_set(root: Path, tmp_path: Path) -> None:
    conf = indexed(root)
    there = tmp_path / "copy"
    shutil.copytree(root, there, copy_function=shutil.copyfile)
    for folder in there.rglob("*/"):
        os.utime(folder)

    assert describe(ImagesConf(root=str(there))) == describe(conf)


def test_a_file_with_another_size_is_refused_when_it_is_read(tmp_path: Path) -> None:
    root = make(tmp_path / "set", training=6, validation=3, classes=2, height=100, width=100)
    conf = ImagenetConf(root=str(root), cache="none")
    write_index(conf)
    _longer(root)

    with open_data(conf) as data, pytest.raises(StaleIndex, match=r"3.jpg' has \d+ bytes"):
        list(training(data, data.training_images))


def test_each_host_checks_other_folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = indexed(root)
    monkeypatch.setattr(index, "FOLDERS_CHECKED", 1)
    _added(root)
    refused = 0

    for host in range(40):
        try:
            listing(conf, host=f"node{host}")
        except StaleIndex:
            refused += 1

    assert 0 < refused < 40


def test_a_damaged_index_is_refused_and_not_replaced(root: Path) -> None:
    conf = indexed(root)
    path = index_path(conf)
    whole = path.read_bytes()

    for position in (0, 20, 90, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(DamagedData, match="--index-only"):
            describe(conf)
    for content in (b"", whole[:-1], whole[: len(whole) // 3], whole + b"x"):
        path.write_bytes(content)
        with pytest.raises(DamagedData, match="--index-only"):
            describe(conf)
    path.write_bytes(whole.replace(b"aiperf-folders 2 ", b"aiperf-folders 3 ", 1))
    with pytest.raises(DamagedData, match="has version '3', but this program reads 2"):
        describe(conf)


def test_an_index_may_be_outside_a_read_only_root(root: Path, tmp_path: Path) -> None:
    (tmp_path / "indices").mkdir()
    conf = ImagesConf(root=str(root), index=str(tmp_path / "indices/mine"))
    with pytest.raises(MissingData, match=r"mine.* does not exist.*--index-only"):
        describe(conf)

    write_index(conf)

    assert not (root / index.FILE).exists()
    assert listing(conf).index is not None
    with pytest.raises(DataError, match=r"dataset\.index=FILE"):
        write_index(ImagesConf(root=str(root), index=str(tmp_path / "nowhere/mine")))


def test_prepare_writes_the_index_with_the_checksum(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "val/class0/0.jpg").write_bytes(b"broken")
    words = ["prepare", "dataset=images", f"dataset.root={root}"]

    assert main([*words, "--index-only"]) == 0
    assert main(words) == 0
    said = capsys.readouterr().out

    found = listing(ImagesConf(root=str(root))).index
    assert found is not None
    assert found.header.seal.contents is not None and f"contents {found.header.seal.contents}" in said
    assert said.count(f"fingerprint {found.header.fingerprint}") == 2


def test_a_set_that_lies_in_no_class_folders_needs_no_index(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "dataset=digits", "--index-only"]) == 2

    assert "has none here: it needs no index" in capsys.readouterr().err


def test_a_worker_with_another_data_set_is_refused(root: Path, tmp_path: Path) -> None:
    planned = data_fingerprint(ImagesConf(root=str(root)))
    there = shutil.copytree(root, tmp_path / "elsewhere")
    _longer(there)

    open_data(held_to(ImagesConf(root=str(root)), planned)).close()
    with pytest.raises(OtherData, match=rf"fingerprint {planned[:16]}…, but on \S+ '{there}' has "):
        open_data(held_to(ImagesConf(root=str(there)), planned))
    with pytest.raises(OtherData):
        open_data(held_to(ImagenetConf(root=str(there)), planned))
    assert held_to(DigitsConf(), planned) == DigitsConf()


_COUNTED = """
import sys
counts = {}
def count(event, args):
    if args and str(args[0]).startswith(sys.argv[1]):  # only folders of the set, not those of modules
        counts[event] = counts.get(event, 0) + 1
sys.addaudithook(count)
import os
asked = os.stat
def stat(path, *args, **kwargs):
    count("stat", (path,))
    return asked(path, *args, **kwargs)
os.stat = stat
from aiperf.data.dataset_config import ImagenetConf
from aiperf.data.opening import open_data
counts.clear()
with open_data(ImagenetConf(root=sys.argv[1], cache="none", index=sys.argv[2] or None)) as data:
    print(data.training_images, counts.get("os.scandir", 0), counts.get("os.listdir", 0), counts.get("stat", 0))
"""


def test_opening_an_indexed_set_lists_no_folder(
    tmp_path: Path,
) -> None:
    root = make(tmp_path / "set", training=1, validation=1, classes=40)
    for folder in (root / "train").iterdir():
        for number in range(50):
            os.link(folder / "0.jpg", folder / f"link{number}.jpg")

    def counted(index_file: str) -> list[int]:
        words = [sys.executable, "-c", _COUNTED, str(root), index_file]
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=300)
        return [int(word) for word in done.stdout.split()]

    listed = counted("")
    write_index(ImagenetConf(root=str(root), index=str(tmp_path / "index")))
    images, scans, lists, stats = counted(str(tmp_path / "index"))

    assert listed[0] == images == 40 * 51
    assert listed[1] == 2 + 2 * 40 and listed[3] >= 40 * 52, "what an index spares"
    assert (scans, lists) == (0, 0)
    assert stats <= 2 * (1 + index.FOLDERS_CHECKED) + 10


def test_shards_that_others_packed_get_their_index_beside_them(root: Path, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    pack_shards({split: list_folder(root, split) for split in ("train", "val")}, (), shards, Console(quiet=True))
    conf = ImagesConf(root=str(shards), format="webdataset")
    packed, about = (shards / SHARDS_INDEX).read_bytes(), describe(conf)
    (shards / SHARDS_INDEX).unlink()
    assert not is_indexed(conf)

    (line,) = write_index(conf)

    assert line == f"index of 2 shards: {shards / SHARDS_INDEX}"
    assert is_indexed(conf) and (shards / SHARDS_INDEX).read_bytes() == packed
    assert describe(conf) == about
