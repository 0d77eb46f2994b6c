"""Weather images: two layouts of one set, faults, the split by years, rolls in longitude, and generated images."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from sklearn.tree import DecisionTreeClassifier

from aiperf.data.boxed import targets_of, uncut_rolls
from aiperf.data.dataset_config import WeatherConf, WeatherSyntheticConf
from aiperf.data.description import PrepareReport
from aiperf.data.errors import DamagedData, DataError, MissingData, StaleIndex
from aiperf.data.files.weather_files import BOX_ROWS, CHANNELS, RECORD, YearFile, read_record
from aiperf.data.opening import open_data
from aiperf.data.sets import weather, weather_synthetic
from aiperf.data.sets.weather import split
from aiperf.data.sets.weather_synthetic import CYCLONE, RIVER, generated
from aiperf.data.survey import describe
from aiperf.data.verification import prepare
from aiperf.errors import BadConfiguration
from tests.builders.data_set import joined, training, validation

SMALL = WeatherSyntheticConf(training_images=12, validation_images=4, height=32, width=64)


def prepared(conf: WeatherConf | WeatherSyntheticConf, pack: Path | None = None) -> PrepareReport:
    return prepare(conf, pack=pack, out=Console(quiet=True))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files in the layout of the real set, with a record."""
    folder = tmp_path_factory.mktemp("published")
    weather_synthetic.prepare(SMALL, folder, Console(quiet=True), None, is_published_layout=True)
    return folder


@pytest.fixture
def own(published: Path, tmp_path: Path) -> Path:
    """A copy of the files that a test may change."""
    return Path(shutil.copytree(published, tmp_path / "climo"))


def changed(folder: Path, change: Callable[[Any], None], year: int = 1979) -> None:
    """Change the file of a year and remove the record."""
    with h5py.File(folder / f"climo_{year}.h5", "a") as file:
        change(file)
    (folder / RECORD).unlink()


def test_both_layouts_have_equal_batches(published: Path, tmp_path: Path) -> None:
    prepared(WeatherConf(root=str(published)), tmp_path)

    described = [describe(WeatherConf(root=str(root))) for root in (published, tmp_path)]
    with open_data(WeatherConf(root=str(published))) as one, open_data(WeatherConf(root=str(tmp_path))) as other:
        pairs = [(list(walk(one)), list(walk(other))) for walk in (training, validation)]

    assert described[0] == described[1] and described[0].validation_years == (1984,)
    for batches in pairs:
        (images, boxes), (same_images, same_boxes) = map(joined, batches)
        assert torch.equal(images, same_images) and torch.equal(boxes, same_boxes)


def test_files_equal_the_images_in_memory(published: Path) -> None:
    """The default split of the files is that of the generated set."""
    images = [YearFile(published / f"climo_{year}.h5") for year in (1979, 1984)]
    for file, first in zip(images, (0, SMALL.training_images), strict=True):
        pixels, boxes = generated(SMALL, first + 1)
        assert np.array_equal(file.read(1), pixels) and np.array_equal(file.boxes()[1], boxes)
        file.close()


def test_images_are_normalised_by_the_training_years(published: Path) -> None:
    with open_data(WeatherConf(root=str(published), augment=False)) as data:
        images, _ = joined(list(training(data, 4)))

    assert images.mean((0, 2, 3)).abs().max() < 1e-3
    assert (images.std((0, 2, 3), unbiased=False) - 1).abs().max() < 1e-3


def test_slow_layout_is_reported_before_a_run(published: Path, tmp_path: Path) -> None:
    note = describe(WeatherConf(root=str(published))).note
    prepared(WeatherConf(root=str(published)), tmp_path)

    assert note is not None and "B/s" in note and "--pack FOLDER" in note
    assert describe(WeatherConf(root=str(tmp_path))).note is None


def with_image(channel: int, value: float) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file["images"][2, channel] = value

    return change


def with_box(row: list[int]) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file["boxes"][1, 14] = row

    return change


def with_array(name: str, values: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file[name]
        if values is not None:
            file[name] = values

    return change


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (with_image(6, np.nan), "image 2: TMQ has values that are not finite"),
        (with_image(0, 0.0), "image 2: PRECT is constant"),
        (with_box([5, 5, 5, 9, 1]), "image 1: box [5, 5, 5, 9, 1] has no area"),
        (with_box([5, 70, 9, 80, 1]), "image 1: box [5, 70, 9, 80, 1] is off the map of 32×64"),
        (with_box([5, 5, 9, 9, 4]), "image 1: box [5, 5, 9, 9, 4] has an unknown class"),
        (with_array("boxes", None), "boxes of climo_1979.h5 is an array (images, 15, 5) of int32, but found none"),
        (with_array("images", np.zeros((3, 16, 32, 64))), "images of climo_1979.h5 is an array"),
        (with_array("boxes", np.zeros((2, 15, 5), np.int32)), "but found (2, 15, 5) int32"),
    ],
)
def test_faults_are_reported_by_year_and_image(own: Path, change: Callable[[Any], None], fault: str) -> None:
    changed(own, change)

    report = prepared(WeatherConf(root=str(own)))

    assert not report.is_usable and [name for name, _ in report.corrupt] == ["climo_1979.h5"]
    assert fault in "\n".join(report.lines)
    with pytest.raises(StaleIndex, match=r"climo_1979\.h5 has .* bytes, recorded are None"):
        describe(WeatherConf(root=str(own)))


@pytest.mark.parametrize("sound", [0, 1, 2])
def test_faults_of_a_year_are_printed_before_the_next_is_read(
    sound: int, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, out = sorted(own.glob("*.h5")), io.StringIO()
    for path in files[: len(files) - sound]:
        path.write_bytes(b"no HDF5 file")
    (own / RECORD).unlink()
    before: list[int] = []
    examined = weather._examined

    def counted(path: Path, *rest: Any) -> Any:
        before.append(out.getvalue().count("is no readable HDF5 file"))
        return examined(path, *rest)

    monkeypatch.setattr(weather, "_examined", counted)
    with pytest.raises(DataError) if sound < 2 else nullcontext():
        prepare(WeatherConf(root=str(own)), pack=None, out=Console(file=out, width=20))

    assert before == [min(index, len(files) - sound) for index in range(len(files))]


def test_damaged_file_is_reported_and_not_packed(own: Path, tmp_path: Path) -> None:
    (own / "climo_1980.h5").write_bytes(b"no HDF5 file")

    report = prepared(WeatherConf(root=str(own)), tmp_path / "packed")

    assert "is no readable HDF5 file" in "\n".join(report.lines)
    assert sorted(path.name for path in (tmp_path / "packed").glob("*.h5")) == [
        f"climo_{year}.h5" for year in (1979, 1981, 1982, 1984)
    ]


def test_boxes_partly_off_the_map_are_clipped_and_counted(own: Path) -> None:
    changed(own, with_box([-3, 60, 9, 70, 1]), 1984)
    report = prepared(WeatherConf(root=str(own)))

    with open_data(WeatherConf(root=str(own))) as data:
        _, targets = joined(list(validation(data)))

    assert "1 boxes of these are clipped" in "\n".join(report.lines) and report.is_usable
    assert [60.0, 0.0, 64.0, 9.0, 2.0] in targets[1].tolist()


def test_recorded_years_are_not_read_again(own: Path) -> None:
    (own / RECORD).unlink()
    first = prepared(WeatherConf(root=str(own)))
    again = prepared(WeatherConf(root=str(own)))

    assert (first.files_checked_now, again.files_checked_now) == (5, 0)
    assert first.description == again.description


def test_files_without_a_record_are_refused(own: Path) -> None:
    (own / RECORD).unlink()

    with pytest.raises(MissingData, match=r"run `python -m aiperf prepare dataset=weather dataset\.root="):
        open_data(WeatherConf(root=str(own)))


def test_changed_files_are_refused(own: Path) -> None:
    with (own / "climo_1981.h5").open("ab") as file:
        file.write(b"more")

    with pytest.raises(StaleIndex, match=r"climo_1981\.h5 has .* bytes, recorded are"):
        describe(WeatherConf(root=str(own)))


def test_other_statistics_are_another_fingerprint(own: Path) -> None:
    before = read_record(own).fingerprint
    changed(own, with_image(3, 0.5))
    with h5py.File(own / "climo_1979.h5", "a") as file:
        file["images"][2, 3, 0, 0] = 0.6
    prepared(WeatherConf(root=str(own)))

    assert read_record(own).fingerprint != before


def test_files_are_never_replaced(own: Path) -> None:
    for conf in (SMALL, WeatherConf(root=str(own))):
        with pytest.raises(BadConfiguration, match="writes into a folder without weather files, but found climo_1979"):
            prepared(conf, own)


@pytest.mark.parametrize(
    ("years", "chosen", "expected"),
    [
        (range(1, 26), None, ([*range(1, 24)], [24, 25])),
        (range(1, 5), None, ([1, 2, 3], [4])),
        (range(1, 5), [2, 1], ([3, 4], [1, 2])),
    ],
)
def test_last_tenth_of_the_years_validates(
    years: range, chosen: list[int] | None, expected: tuple[list[int], list[int]]
) -> None:
    assert split(list(years), chosen) == expected


@pytest.mark.parametrize(("years", "chosen"), [([1], None), ([1, 2], [3]), ([1, 2], [1, 2])])
def test_split_without_training_or_validation_is_refused(years: list[int], chosen: list[int] | None) -> None:
    with pytest.raises(DataError, match=r"found dataset\.validation_years="):
        split(years, chosen)


def test_validation_images_without_boxes_are_refused(own: Path) -> None:
    def without_boxes(file: Any) -> None:
        file["boxes"][...] = -1

    changed(own, without_boxes, 1984)
    prepared(WeatherConf(root=str(own)))

    with pytest.raises(DamagedData, match="must have boxes to validate, but found none"):
        open_data(WeatherConf(root=str(own)))


def test_missing_h5py_names_the_extra(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)

    with pytest.raises(BadConfiguration, match=r"pip install 'aiperf-cluster\[weather\]'"):
        describe(WeatherConf(root=str(published)))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=4), st.data())
def test_rolls_cut_no_box(spans: list[tuple[int, int]], data: st.DataObject) -> None:
    width = 40
    boxes = np.full((BOX_ROWS, 5), -1, np.int32)
    for row, (left, length) in enumerate(spans):
        boxes[row] = (1, left, 3, min(width, left + length), row % 4)
    roll = data.draw(st.sampled_from(uncut_rolls(boxes, width).tolist()))

    columns = np.arange(width)
    rolled = np.roll(columns, roll)
    for (left, _, right, _, label), box in zip(targets_of(boxes, roll, width), boxes, strict=True):
        covered = rolled[int(left) : int(right)]
        assert label == box[4] + 1
        assert np.array_equal(covered, columns[box[1] : box[3]]) or label == 0
        assert right <= width


def test_augmented_boxes_follow_their_pixels() -> None:
    """The mean of a channel in a box does not change with the roll."""
    conf = replace(SMALL, training_images=6)
    with open_data(conf) as data, open_data(replace(conf, augment=False)) as plain:
        pairs = [joined(list(training(each, 6, epoch=3))) for each in (data, plain)]

    found = []
    for images, targets in pairs:
        for image, rows in zip(images, targets, strict=True):
            for x1, y1, x2, y2, label in rows[rows[:, 4] > 0].int().tolist():
                found.append((image[6, y1:y2, x1:x2].mean().item(), label))
    half = len(found) // 2
    assert not torch.equal(pairs[0][0], pairs[1][0]) and half > 6
    assert np.allclose(found[:half], found[half:], atol=1e-5)


def test_generated_images_are_a_function_of_the_seed() -> None:
    first, same, other = (generated(replace(SMALL, seed=seed), 3) for seed in (1, 1, 2))

    assert np.array_equal(first[0], same[0]) and np.array_equal(first[1], same[1])
    assert not np.array_equal(first[0], other[0])
    assert first[0].shape == (len(CHANNELS), 32, 64) and (first[1][:, 4] >= 0).any()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(32, 64), (64, 96), (256, 32)]))
def test_generated_boxes_are_on_the_map_and_apart(image: int, sides: tuple[int, int]) -> None:
    height, width = sides
    _, boxes = generated(WeatherSyntheticConf(height=height, width=width), image)
    used = boxes[boxes[:, 4] >= 0].tolist()

    assert used
    for number, (top, left, bottom, right, label) in enumerate(used):
        assert 0 <= top < bottom <= height and 0 <= left < right <= width and 0 <= label < 4
        for other in used[:number]:
            assert top >= other[2] or other[0] >= bottom or left >= other[3] or other[1] >= right


def centres(images: range) -> tuple[list[list[float]], list[int]]:
    """Return the deviations of the channels at the centre of each cyclone of any kind, and its class."""
    conf = WeatherSyntheticConf()
    features, labels = [], []
    for number in images:
        image, boxes = generated(conf, number)
        for top, left, bottom, right, label in boxes[boxes[:, 4] >= 0].tolist():
            patch = image[:, (top + bottom) // 2, (left + right) // 2]
            features.append([float(value) for value in patch])
            labels.append(label)
    return features, labels


def test_no_channel_alone_identifies_the_class() -> None:
    (learned, labels), (tested, expected) = centres(range(300)), centres(range(300, 450))

    def accuracy(columns: list[int]) -> float:
        tree = DecisionTreeClassifier(max_depth=6, random_state=0)
        tree.fit(np.array(learned)[:, columns], labels)
        return float(tree.score(np.array(tested)[:, columns], expected))

    alone = [accuracy([channel]) for channel in range(len(CHANNELS))]

    assert max(alone) < 0.6 < accuracy([*range(len(CHANNELS))])
    assert {CYCLONE, RIVER} < set(labels)
