"""HDF5 files of weather images: one file a year, in the published layout or packed, and the record of their statistics.

The published layout has chunks of 46 compressed images, so that reading one image unpacks 46. Packed files are not compressed.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from aiperf.atomic_files import draft_of, replace_file
from aiperf.data.errors import DamagedData, MissingData, StaleIndex
from aiperf.data.files.samples import contents_of
from aiperf.errors import BadConfiguration, explained
from aiperf.files import open_regular
from aiperf.given_file import read_json

CHANNELS = (
    "PRECT", "PS", "PSL", "QREFHT", "T200", "T500", "TMQ", "TREFHT", "TS", "U850", "UBOT", "V850", "VBOT", "Z1000", "Z200",
    "ZBOT",
)  # fmt: skip
CLASSES = ("tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river")
BOX_ROWS = 15
RECORD = "aiperf-weather.json"
_VERSION = 1
_FILE = re.compile(r"climo_(\d{4})\.h5")
SLAB = 46
"""Images of a chunk of the published files. They are read together."""
_CHUNK = (SLAB, 1, 48, 72)

_BLOCK = 512
_LARGEST_RATIO = 1100
"""Deflate compresses at most by 1,032 (zlib's technical details). A larger array was not written."""

Floats = NDArray[np.float32]
Boxes = NDArray[np.int32]


class YearRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    images: int
    mean: list[float]
    deviation: list[float]
    boxes: str
    bytes: int
    pixels: str = ""
    """SHA-256 of all images. Empty in records of former releases."""


class WeatherRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    height: int
    width: int
    years: dict[int, YearRecord]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the statistics. Equal for both layouts of one set."""
        known = [(year, one.images, one.mean, one.deviation, one.boxes) for year, one in sorted(self.years.items())]
        return hashlib.sha256(msgspec.json.encode((self.height, self.width, known))).hexdigest()

    @property
    def contents(self) -> str | None:
        """SHA-256 of pixels and boxes, equal for both layouts. None if the pixels of a year were not hashed."""
        years = self.years.items()
        hashed = contents_of((year, one.pixels, one.boxes) for year, one in years)
        return hashed if all(one.pixels for _, one in years) else None

    def images(self, years: Sequence[int]) -> int:
        return sum(self.years[year].images for year in years)

    def moments(self, years: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation of each channel over all images of the years, shape (channels,) each."""
        chosen = [self.years[year] for year in years]
        return pooled([(one.images, np.array(one.mean), np.array(one.deviation)) for one in chosen])


Moments = tuple[float, NDArray[np.float64], NDArray[np.float64]]


def pooled(parts: Sequence[Moments]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (mean, standard deviation) over the values of several parts together. The weight is a number of values."""
    weight = sum(part[0] for part in parts)
    mean = sum((part[0] / weight * part[1] for part in parts), np.zeros_like(parts[0][1]))
    square = sum((part[0] / weight * (part[2] ** 2 + (part[1] - mean) ** 2) for part in parts), np.zeros_like(mean))
    return mean, np.sqrt(square)


def files_of(root: Path) -> dict[int, Path]:
    """Return the weather files climo_YYYY.h5 in the folder `root` by year, ascending. Raise MissingData if there are none."""
    by_year = {int(match[1]): path for path in root.iterdir() if (match := _FILE.fullmatch(path.name))}
    if not by_year:
        raise MissingData(f"weather images are files climo_YYYY.h5, but found none in {str(root)!r}: name their folder")
    return dict(sorted(by_year.items()))


def require_no_files(folder: Path) -> None:
    """Raise BadConfiguration if the folder has weather files climo_YYYY.h5, which `--pack` would replace."""
    if names := sorted(path.name for path in folder.iterdir() if _FILE.fullmatch(path.name)):
        raise BadConfiguration(
            f"--pack writes into a folder without weather files, but found {names[0]} in {str(folder)!r}: name another folder"
        )


def read_record(root: Path) -> WeatherRecord:
    """Return the statistics that `prepare` recorded. Raise StaleIndex if the files are others by year or size."""
    files, path = files_of(root), root / RECORD
    if not os.path.lexists(path):
        raise MissingData(
            f"weather images need the mean and deviation of each channel, but there is no {str(path)!r}: run "
            f"`python -m aiperf prepare dataset=weather dataset.root={root}`"
        )
    record = _recorded(root)
    if record.version != _VERSION:
        raise DamagedData(f"{RECORD} has version {_VERSION}, but found {record.version}: run `prepare` again")
    sizes = {year: file.stat().st_size for year, file in files.items()}
    recorded = {year: one.bytes for year, one in record.years.items()}
    if differing := sorted(year for year in sizes.keys() | recorded.keys() if sizes.get(year) != recorded.get(year)):
        year = differing[0]
        raise StaleIndex(f"climo_{year}.h5 has {sizes.get(year)} bytes, recorded are {recorded.get(year)}")
    return record


def _recorded(root: Path) -> WeatherRecord:
    rule, fix = f"{RECORD} is a record of `prepare`", "remove it and run `prepare` again"
    return read_json(root / RECORD, rule, WeatherRecord, fix, error=DamagedData)


def known_record(root: Path) -> WeatherRecord:
    """Return the statistics of the files that still have their recorded size. Without a readable record there are no years."""
    try:
        record = _recorded(root)
    except DamagedData:
        return WeatherRecord(_VERSION, 0, 0, {})
    sizes = {year: path.stat().st_size for year in record.years if (path := root / f"climo_{year}.h5").is_file()}
    return msgspec.structs.replace(
        record, years={year: one for year, one in record.years.items() if sizes.get(year) == one.bytes}
    )


def write_record(root: Path, sides: tuple[int, int], years: Mapping[int, YearRecord]) -> WeatherRecord:
    record = WeatherRecord(_VERSION, *sides, {year: years[year] for year in sorted(years)})
    replace_file(root / RECORD, msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    return record


def h5py_module() -> Any:
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise BadConfiguration(
            f"weather files are read by h5py, which cannot be imported ({error}): pip install 'aiperf-cluster[weather]'"
        ) from error


@dataclass(frozen=True, slots=True)
class YearShape:
    images: int
    height: int
    width: int

    @property
    def slabs(self) -> int:
        return -(-self.images // SLAB)


class YearFile:
    """Open weather file of one year. `read` may be called from many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with explained(path, "cannot be opened", "Replace it, or grant this user the permission", DamagedData):
            open_regular(path).close()
        with _named(path):
            # A set that is only read needs no lock, which many file servers lack.
            self._file = h5py_module().File(path, "r", locking=False)
            images, boxes = (self._file.get(name) for name in ("images", "boxes"))
        status = path.stat()
        on_disk = status.st_blocks * _BLOCK or status.st_size
        for name, array, expected, kind in (
            ("images", images, f"(images, {len(CHANNELS)}, height, width)", np.dtype("<f4")),
            ("boxes", boxes, f"(images, {BOX_ROWS}, 5)", np.dtype("<i4")),
        ):
            actual = None if array is None else getattr(array, "dtype", None)
            if actual != kind or array.shape is None or not self._fits(name, array.shape, images):
                actual = "none" if array is None else "a group" if actual is None else f"{array.shape} {actual}"
                self._file.close()
                raise DamagedData(
                    f"{name} of {path.name} is an array {expected} of {kind}, but found {actual}: copy it again"
                )
            if array.nbytes > _LARGEST_RATIO * on_disk:
                self._file.close()
                raise DamagedData(
                    f"{name} of {path.name} is an array {array.shape}, but most of it was never written, since the file has "
                    f"{on_disk} bytes: copy it again"
                )
        self._images, self._boxes = images, boxes
        self.shape = YearShape(images.shape[0], *images.shape[2:])
        offset = images.id.get_offset()
        self._packed = None if offset is None or images.chunks is not None else (os.open(path, os.O_RDONLY), offset)

    @staticmethod
    def _fits(name: str, shape: tuple[int, ...], images: Any) -> bool:
        if name == "images":
            return len(shape) == 4 and shape[0] > 0 and shape[1] == len(CHANNELS)
        return shape == (images.shape[0], BOX_ROWS, 5)

    @property
    def is_packed(self) -> bool:
        return self._packed is not None

    def read(self, image: int) -> Floats:
        """Return one image in FP32, shape (channels, height, width), in the physical units of its channels."""
        shape = (len(CHANNELS), self.shape.height, self.shape.width)
        if self._packed is None:
            with _named(self.path):
                return np.asarray(self._images[image])
        out = np.empty(shape, "<f4")
        file, offset = self._packed
        with _named(self.path):
            done = os.preadv(file, [out.data.cast("B")], offset + image * out.nbytes)
        if done != out.nbytes:
            raise DamagedData(f"{str(self.path)!r} ends in image {image}: copy it again")
        return out

    def slabs(self) -> Iterator[tuple[int, Floats]]:
        """Yield (number of the first image, images) for each group of up to 46 images (SLAB), in order."""
        for start in range(0, self.shape.images, SLAB):
            with _named(self.path):
                images = np.asarray(self._images[start : start + SLAB])
            yield start, images

    def boxes(self) -> Boxes:
        """Return int32 (images, BOX_ROWS, 5): ymin, xmin, ymax, xmax in pixels and the class from 0. Empty rows are −1."""
        with _named(self.path):
            return np.asarray(self._boxes[...])

    def bytes_per_second(self) -> float:
        """Measure the reading rate of pixels by one channel of one image."""
        began = time.perf_counter()
        with _named(self.path):
            plane = self._images[self.shape.images // 2, 0]
        return float(plane.nbytes / max(time.perf_counter() - began, 1e-9))

    def close(self) -> None:
        self._file.close()
        if self._packed is not None:
            os.close(self._packed[0])


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, ValueError, KeyError) as error:  # h5py raises all of them for damaged files
        raise DamagedData(f"{str(path)!r} is no readable HDF5 file ({error}): copy it again") from error


def clipped(boxes: Boxes, shape: YearShape) -> Boxes:
    """Return the boxes (…, 5) with edges limited to the map. Empty rows are unchanged."""
    most = [shape.height, shape.width, shape.height, shape.width, len(CLASSES)]
    return np.where(boxes[..., 4:] >= 0, np.clip(boxes, 0, most), boxes).astype(np.int32)


class WeatherYears:
    def __init__(self, files: Sequence[Path]) -> None:
        self._years = [YearFile(path) for path in files]
        self._ends = np.cumsum([year.shape.images for year in self._years])
        self.boxes = np.concatenate([clipped(year.boxes(), year.shape) for year in self._years])

    @property
    def is_packed(self) -> bool:
        return all(year.is_packed for year in self._years)

    def read(self, image: int) -> Floats:
        year = int(np.searchsorted(self._ends, image, side="right"))
        return self._years[year].read(image - int(self._ends[year - 1] if year else 0))

    def close(self) -> None:
        for year in self._years:
            year.close()


class YearWriter:
    def __init__(self, file: Any, shape: YearShape, *, is_published_layout: bool) -> None:
        sizes = (shape.images, len(CHANNELS), shape.height, shape.width)
        chunks = tuple(min(one, other) for one, other in zip(_CHUNK, sizes, strict=True))
        how = {"chunks": chunks, "compression": "gzip"} if is_published_layout else {}
        self._images = file.create_dataset("images", sizes, "<f4", **how)
        self._boxes = file.create_dataset("boxes", (shape.images, BOX_ROWS, 5), "<i4")
        self._written = 0

    def add(self, images: Floats) -> None:
        """Write images (images, channels, height, width). Compressed chunks are written fastest with 46 (SLAB) at once."""
        self._images[self._written : self._written + len(images)] = images
        self._written += len(images)

    def set_boxes(self, boxes: Boxes) -> None:
        self._boxes[...] = boxes


@contextmanager
def written_year(path: Path, shape: YearShape, *, is_published_layout: bool = False) -> Iterator[YearWriter]:
    """Write a weather file that gets the name `path` at the end: compressed chunks as published or one uncompressed piece."""
    with draft_of(path) as draft, h5py_module().File(draft, "w", locking=False) as file:
        yield YearWriter(file, shape, is_published_layout=is_published_layout)


class ChannelMoments:
    def __init__(self) -> None:
        self._parts: list[Moments] = []
        self._pixels = hashlib.sha256()

    def add(self, image: Floats) -> None:
        self._pixels.update(np.ascontiguousarray(image, "<f4").tobytes())
        values = np.ascontiguousarray(image, np.float64).reshape(len(image), -1)
        with np.errstate(all="ignore"):  # `image_faults` names values that are not finite
            self._parts.append((1.0, values.mean(1), values.std(1)))

    def record(self, boxes: Boxes, path: Path) -> YearRecord:
        mean, deviation = pooled(self._parts)
        digest = hashlib.sha256(np.ascontiguousarray(boxes, "<i4").tobytes()).hexdigest()
        size, pixels = path.stat().st_size, self._pixels.hexdigest()
        return YearRecord(len(self._parts), mean.tolist(), deviation.tolist(), digest, size, pixels)


def image_faults(image: Floats) -> Iterator[str]:
    """Yield one text for each channel that is constant, or has values that are not finite."""
    for channel, plane in zip(CHANNELS, image, strict=True):
        if not np.isfinite(plane).all():
            yield f"{channel} has values that are not finite"
        elif plane.min() == plane.max():
            yield f"{channel} is constant"


def box_faults(boxes: Boxes, shape: YearShape) -> Iterator[str]:
    """Yield one text for each faulty box: unknown class, no area, or completely off the map."""
    for row in boxes.tolist():
        top, left, bottom, right, label = row
        if label == -1:
            continue
        if not 0 <= label < len(CLASSES):
            yield f"box {row} has an unknown class, expected −1 to {len(CLASSES) - 1}"
        elif bottom <= top or right <= left:
            yield f"box {row} has no area (ymin, xmin, ymax, xmax, class)"
        elif bottom <= 0 or right <= 0 or top >= shape.height or left >= shape.width:
            yield f"box {row} is off the map of {shape.height}×{shape.width}"


def count_clipped(boxes: Boxes, shape: YearShape) -> int:
    """Return the number of boxes that extend beyond the map."""
    return int((clipped(boxes, shape) != boxes).any(axis=-1).sum())
