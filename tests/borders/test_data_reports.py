"""Reports about data sets of other people: names, suffixes, depths, shards and HDF5 files as tools and copies leave them."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from aiperf.data.crops import CentreCrop
from aiperf.data.dataset_config import ImagesConf, WeatherConf, WeatherSyntheticConf
from aiperf.data.decode import Corrupt, check, decode
from aiperf.data.description import PrepareReport
from aiperf.data.errors import DamagedData, DataError, MissingData
from aiperf.data.files.samples import scan
from aiperf.data.files.weather_files import YearFile
from aiperf.data.opening import open_data
from aiperf.data.sets import weather_synthetic
from aiperf.data.survey import describe, write_index
from aiperf.data.verification import prepare
from aiperf.files import name_of, name_text
from tests.builders.data_set import make, picture


@given(st.binary(max_size=20).map(os.fsdecode))
def test_the_text_of_a_name_is_read_back(name: str) -> None:
    recorded = name_text(name).encode("utf-8").decode()

    assert name_of(recorded) == name


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\")))
def test_a_name_in_utf8_is_its_own_text(name: str) -> None:
    assert name_text(name) == name


def checked(root: Path) -> PrepareReport:
    return prepare(ImagesConf(root=str(root)), pack=None, out=Console(quiet=True))


NAMES = [b"Mu\xf1oz", b"\\xf1", b"a\\\\b", "日本".encode(), b"\xff\\\xfe"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_bytes_belong_to_a_set(tmp_path: Path, name: bytes) -> None:
    root = make(tmp_path, training=3, validation=2)
    for split in ("train", "val"):
        folder = os.fsencode(root / split) + b"/" + name
        Path(os.fsdecode(folder)).mkdir()
        shutil.copy(root / split / "class0/0.jpg", os.fsdecode(folder + b"/" + name + b".jpg"))
        Path(os.fsdecode(folder + b"/damaged" + name + b".jpg")).write_bytes(b"no image")
    text = name_text(os.fsdecode(name))

    first = checked(root)
    again = checked(root)

    assert [file for file, _ in first.corrupt] == [f"{split}/{text}/damaged{text}.jpg" for split in ("train", "val")]
    assert (again.files_checked_now, again.description) == (0, first.description)
    indexed = describe(ImagesConf(root=str(root))).fingerprint
    write_index(ImagesConf(root=str(root)))
    assert indexed == describe(ImagesConf(root=str(root))).fingerprint == first.description.fingerprint
    opened = open_data(ImagesConf(root=str(root), image=8))
    assert all(text in file for file, _ in opened.corrupt)
    opened.close()
    packed = tmp_path.with_name(tmp_path.name + "-packed")
    prepare(ImagesConf(root=str(root)), pack=packed, out=Console(quiet=True))
    assert describe(ImagesConf(root=str(packed), format="webdataset")).training_images == 7


@pytest.mark.slow
def test_a_damaged_image_with_such_a_name_costs_no_worker(tmp_path: Path) -> None:
    root = make(tmp_path / "set", training=12, validation=4)
    Path(os.fsdecode(os.fsencode(root / "train/class0") + b"/Mu\xf1oz.jpg")).write_bytes(b"no image")

    said = aiperf(
        *("executor=inline", "dataset=images", f"dataset.root={root}", f"runs={tmp_path / 'runs'}"),
        *("schedule.duration_seconds=60", "schedule.warmup_seconds=1", "preflight.probes=none"),
    )

    (journal,) = (tmp_path / "runs").glob("*/journal.jsonl")
    events = [json.loads(line) for line in journal.read_bytes().splitlines()]
    (skipped,) = (event for event in events if event["event"] == "ImagesSkipped")
    assert [*skipped["files"]] == [f"{root}/train/class0/Mu\\xf1oz.jpg"]
    assert not any(event["event"] == "WorkerLost" for event in events), said.stderr
    assert "Traceback" not in said.stderr


def aiperf(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aiperf", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )


@pytest.mark.parametrize("option", ["runs", "dataset.root", "follow"])
def test_an_option_that_is_not_utf8_is_refused_first(tmp_path: Path, option: str) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/Mu\xf1oz")
    Path(path).mkdir()

    said = aiperf("dry_run=true", "dataset=images", f"{option}={path}")

    assert said.returncode == 2
    assert r"Mu\xf1oz" in said.stderr and "ln -s" in said.stderr and "Traceback" not in said.stderr


def test_a_working_folder_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/Mu\xf1oz"))
    folder.mkdir()

    said = aiperf("dry_run=true", folder=folder)

    assert (said.returncode, r"Mu\xf1oz" in said.stderr) == (2, True)


@pytest.mark.parametrize("suffix", [".jfif", ".jpe", ".JPE", ""])
def test_the_content_decides_for_rare_suffixes(tmp_path: Path, suffix: str) -> None:
    root = make(tmp_path, training=3, validation=2)
    (root / "train/class0/0.jpg").rename(root / f"train/class0/photo{suffix}")
    (root / f"train/class1/notes{suffix}").write_text("no image")

    said = checked(root)

    assert (said.description.training_images, len(said.corrupt)) == (6, 0)
    kind = suffix.lower() or "without a suffix"
    assert f"1 entries of the class folders are left out, since they are no images: 1 {kind}" in said.lines


def test_entries_left_out_are_counted_by_suffix_in_the_plan(tmp_path: Path) -> None:
    root = make(tmp_path, training=6, validation=2)
    for name in ("a.txt", "b.txt", "c.avif"):
        (root / "train/class0" / name).write_text("")
    (root / "val/class1/more").mkdir()

    listed = aiperf("dry_run=true", "dataset=images", f"dataset.root={root}").stdout
    write_index(ImagesConf(root=str(root)))
    indexed = str(describe(ImagesConf(root=str(root))).note)

    for said in (listed, indexed):
        assert (
            "4 entries of the class folders are left out, since they are no images: 2 .txt, 1 .avif, 1 folders" in said
        )


def test_images_one_folder_deeper_are_named(tmp_path: Path) -> None:
    root = make(tmp_path, training=3, validation=2)
    for folder in root.glob("*/*"):
        (folder / "images").mkdir()
        for image in folder.glob("*.jpg"):
            image.rename(folder / "images" / image.name)

    with pytest.raises(MissingData, match=r"those of 'class0' are one folder deeper \('class0/images'\): move them up"):
        describe(ImagesConf(root=str(root)))


def encoded(values: np.ndarray, form: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(values).save(out, form)
    return out.getvalue()


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
def test_16_bit_images_keep_their_higher_8_bits(form: str) -> None:
    values = (np.arange(64, dtype=np.uint16) * 1023).reshape(8, 8)
    pixels = np.empty((8, 8, 1), np.uint8)

    decode(encoded(values, form), lambda height, width: CentreCrop(1.0).box(height, width, np.zeros(0)), pixels)

    assert np.abs(pixels[..., 0].astype(int) - (values >> 8)).max() <= (form == "PPM")


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_32_bit_images_are_refused_by_name(kind: type) -> None:
    with pytest.raises(Corrupt, match="pixels must have 8 or 16 bits"):
        check(encoded(np.full((8, 8), 3, kind), "TIFF"))


def jpeg() -> bytes:
    out = io.BytesIO()
    picture(8, 8, 0, 0).save(out, "JPEG")
    return out.getvalue()


def shard(folder: Path, members: list[tuple[str, bytes]]) -> Path:
    path = folder / "train-000000.tar"
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


TWO = [("0.jpg", jpeg()), ("0.cls", b"0"), ("1.jpg", jpeg()), ("1.cls", b"1\n")]


def cut_between(path: Path) -> None:
    with tarfile.open(path) as tar:
        end = tar.getmembers()[2].offset
    os.truncate(path, end)


def overwritten(path: Path) -> None:
    with tarfile.open(path) as tar:
        header = tar.getmembers()[2].offset
    content = bytearray(path.read_bytes())
    content[header : header + 512] = b"x" * 512
    path.write_bytes(content)


def joined(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


@pytest.mark.parametrize("damage", [cut_between, overwritten, joined])
def test_a_shard_whose_end_is_not_its_end_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = shard(tmp_path, TWO)
    assert [member[3] for member in scan(path)] == [0, 1]
    damage(path)

    with pytest.raises(DamagedData, match=r"cut short|end mark"):
        scan(path)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([*TWO, ("1.png", jpeg())], r"the key '1' is used twice \(again '1.png'\)"),
        ([*TWO, ("1.cls", b"0")], r"the key '1' is used twice \(again '1.cls'\)"),
        (
            [("n01.0001.jpg", jpeg()), ("n01.0001.cls", b"0")],
            "'n01.0001.jpg' has the key 'n01' and the suffix '.0001.jpg'",
        ),
        ([("0.jpg", jpeg()), ("0.cls", b"cat")], "must hold the class as a number from 0, but '0.cls' holds b'cat'"),
        ([("0.jpg", jpeg()), ("0.cls", b"-1")], "must hold the class as a number"),
        ([("0.jpg", jpeg()), ("0.cls", b"9" * 400)], "must hold the class as a number"),
        ([("0.jpg", jpeg()), ("0.cls", b"")], "must hold the class as a number"),
        ([("0.jpg", jpeg())], "every image must have a .cls file"),
    ],
)
def test_a_shard_names_its_fault(tmp_path: Path, members: list[tuple[str, bytes]], reason: str) -> None:
    with pytest.raises(DamagedData, match=reason):
        scan(shard(tmp_path, members))


def test_metadata_with_dots_do_not_disturb_a_shard(tmp_path: Path) -> None:
    assert len(scan(shard(tmp_path, [*TWO, ("0.seg.png", b"mask"), ("0.json", b"{}")]))) == 2


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    conf = WeatherSyntheticConf(training_images=8, validation_images=2, height=32, width=64)
    weather_synthetic.prepare(conf, tmp_path, Console(quiet=True), None)
    (tmp_path / "aiperf-weather.json").unlink()
    return tmp_path


NO_LOCK = """
#include <errno.h>
int flock(int file, int operation) { errno = 524; return -1; }
"""


def test_a_weather_set_needs_no_locks(weather: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for a flock that fails")
    library = tmp_path_factory.mktemp("flock") / "noflock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-xc", "-", "-o", str(library)], input=NO_LOCK, text=True, check=True)

    look = (
        "import sys, pathlib; from aiperf.data.files.weather_files import YearFile; YearFile(pathlib.Path(sys.argv[1]))"
    )
    said = subprocess.run(
        [sys.executable, "-c", look, str(next(weather.glob("*.h5")))],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
    )

    assert said.returncode == 0, said.stderr


def years(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob("*.h5"))


def not_finite(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["images"][0, 0, 0, 0], file["images"][0, 0, 0, 1] = np.inf, -np.inf


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def circular(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def group(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["images"]
        file.create_group("images")


def missing(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["boxes"]


def sparse(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("images", (10**9, 16, 768, 1152), "<f4")
        file.create_dataset("boxes", (10**9, 15, 5), "<i4")


def no_space(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["images"]
        file["images"] = h5py.Empty("<f4")


FAULTS = [not_finite, cut_short, pipe, circular, group, missing, sparse, no_space]


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_single_years_come_first(weather: Path, fault: Callable[[Path], None]) -> None:
    first, *others = years(weather)
    fault(first)
    for other in others[1:]:
        other.unlink()
    out = io.StringIO()

    with warnings.catch_warnings(), pytest.raises(DataError):
        warnings.simplefilter("error")
        prepare(WeatherConf(root=str(weather)), pack=None, out=Console(file=out, width=500))

    assert f"{first.name}: " in out.getvalue()


@pytest.mark.parametrize("fault", FAULTS[1:])
def test_a_faulty_year_is_named_at_once(weather: Path, fault: Callable[[Path], None]) -> None:
    first, *_ = years(weather)
    fault(first)

    with pytest.raises(DamagedData, match=first.name):
        YearFile(first).boxes()
