"""HDF5 files of weather images: one file a year, in the published layout or packed, and the record of their statistics.

The published layout is compressed in chunks of 46 images, so that reading one image unpacks 46. Packed files have the same
two arrays in one piece, and are read at the array's offset without HDF5 and its lock. `prepare` writes the record, which a run
needs for the mean and deviation of each channel.
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
from aiperf.errors import BadConfiguration
from aiperf.files import open_regular
from aiperf.given_file import read_json

CHANNELS = (
    "PRECT", "PS", "PSL", "QREFHT", "T200", "T500", "TMQ", "TREFHT", "TS", "U850", "UBOT", "V850", "VBOT", "Z1000", "Z200",
    "ZBOT",
)  # fmt: skip
CLASSES = ("tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river")
BOX_ROWS = 15
"""Rows of boxes of an image. Unused rows are −1."""
RECORD = "aiperf-weather.json"
"""File with the statistics of a folder."""
_VERSION = 1
_FILE = re.compile(r"climo_(\d{4})\.h5")
SLAB = 46
"""Images of a chunk of the published files. They are read together."""
_CHUNK = (SLAB, 1, 48, 72)
"""Chunks of the published files, which h5py chose."""

_BLOCK = 512
"""Bytes of a block in st_blocks."""
_LARGEST_RATIO = 1100
"""Deflate compresses at most by 1,032 (zlib's technical details). A larger array was not written."""

Floats = NDArray[np.float32]
Boxes = NDArray[np.int32]


class YearRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statistics of the images in the file of one year."""

    images: int
    mean: list[float]
    """By channel."""
    deviation: list[float]
    boxes: str
    """SHA-256 of the boxes."""
    bytes: int
    """Size of the file. It differs between the layouts."""


class WeatherRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of aiperf-weather.json: statistics of the weather files of a folder, by year."""

    version: int
    height: int
    width: int
    years: dict[int, YearRecord]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the statistics, as hexadecimal digits. Equal for both layouts of one set."""
        known = [(year, one.images, one.mean, one.deviation, one.boxes) for year, one in sorted(self.years.items())]
        return hashlib.sha256(msgspec.json.encode((self.height, self.width, known))).hexdigest()

    def images(self, years: Sequence[int]) -> int:
        """Return the total number of images of the given years, which must be recorded."""
        return sum(self.years[year].images for year in years)

    def moments(self, years: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation of each channel over all images of the given years, shape (channels,) each.

        Values are in the physical units of the channels. Every year must be recorded.
        """
        chosen = [self.years[year] for year in years]
        return pooled([(one.images, np.array(one.mean), np.array(one.deviation)) for one in chosen])


Moments = tuple[float, NDArray[np.float64], NDArray[np.float64]]
"""Weight, mean and deviation."""


def pooled(parts: Sequence[Moments]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (mean, standard deviation) over the values of several parts together, in the shape of one part's mean.

    `parts`: (weight, mean, deviation) of each part, at least one. The weight is the number of values or images.
    """
    weight = sum(part[0] for part in parts)
    mean = sum((part[0] / weight * part[1] for part in parts), np.zeros_like(parts[0][1]))
    square = sum((part[0] / weight * (part[2] ** 2 + (part[1] - mean) ** 2) for part in parts), np.zeros_like(mean))
    return mean, np.sqrt(square)


def files_of(root: Path) -> dict[int, Path]:
    """Return the paths of the weather files climo_YYYY.h5 in the folder `root` by year, ascending.

    Raise MissingData if there are none.
    """
    found = {int(match[1]): path for path in root.iterdir() if (match := _FILE.fullmatch(path.name))}
    if not found:
        raise MissingData(f"weather images are files climo_YYYY.h5, but found none in {str(root)!r}: name their folder")
    return dict(sorted(found.items()))


def require_no_files(folder: Path) -> None:
    """Raise BadConfiguration if the folder has weather files climo_YYYY.h5, which `--pack` would replace. Return nothing."""
    if found := sorted(path.name for path in folder.iterdir() if _FILE.fullmatch(path.name)):
        raise BadConfiguration(
            f"--pack writes into a folder without weather files, but found {found[0]} in {str(folder)!r}: name another folder"
        )


def read_record(root: Path) -> WeatherRecord:
    """Return the statistics of the weather files in the folder `root`, as `prepare` recorded them in aiperf-weather.json.

    Raise MissingData if there are no files or no record, DamagedData for a record that is unreadable or of another version,
    and StaleIndex if the files are not those of the record, by year and size.
    """
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
    """Return the recorded statistics of the weather files in the folder `root` that still have their recorded size.

    Without a readable record the result has no years, and its height and width are 0.
    """
    try:
        record = _recorded(root)
    except DamagedData:
        return WeatherRecord(_VERSION, 0, 0, {})
    sizes = {year: path.stat().st_size for year in record.years if (path := root / f"climo_{year}.h5").is_file()}
    return msgspec.structs.replace(
        record, years={year: one for year, one in record.years.items() if sizes.get(year) == one.bytes}
    )


def write_record(root: Path, sides: tuple[int, int], years: Mapping[int, YearRecord]) -> WeatherRecord:
    """Write the statistics of weather files to aiperf-weather.json in the folder `root`, and return them as a record.

    `sides`: height and width of the images in pixels. `years`: statistics by year. Raise OSError if the file cannot be written.
    """
    record = WeatherRecord(_VERSION, *sides, {year: years[year] for year in sorted(years)})
    replace_file(root / RECORD, msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    return record


def h5py_module() -> Any:
    """Import the module h5py and return it. Raise BadConfiguration if it cannot be imported."""
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise BadConfiguration(
            f"weather files are read by h5py, which cannot be imported ({error}): pip install 'aiperf-cluster[weather]'"
        ) from error


@dataclass(frozen=True, slots=True)
class YearShape:
    """Size of one weather file: number of images, and their height and width in pixels."""

    images: int
    height: int
    width: int

    @property
    def slabs(self) -> int:
        """Number of groups of up to 46 images (SLAB) in which the file is read."""
        return -(-self.images // SLAB)


class YearFile:
    """Open weather file of one year. `read` may be called from many threads.

    Raise DamagedData if the file is no HDF5 file, or has other arrays. Raise BadConfiguration if h5py is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            open_regular(path).close()
        except OSError as error:
            raise DamagedData(
                f"{str(path)!r} cannot be opened ({error.strerror}): replace it, or grant this user the permission"
            ) from error
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
            found = None if array is None else getattr(array, "dtype", None)
            if found != kind or array.shape is None or not self._fits(name, array.shape, images):
                found = "none" if array is None else "a group" if found is None else f"{array.shape} {found}"
                self._file.close()
                raise DamagedData(
                    f"{name} of {path.name} is an array {expected} of {kind}, but found {found}: copy it again"
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
        """True if the images are stored in one piece, uncompressed. False for chunks, compressed or not."""
        return self._packed is not None

    def read(self, image: int) -> Floats:
        """Return one image in FP32, shape (channels, height, width), in the physical units of its channels.

        `image`: number of the image in the file, from 0. Raise DamagedData if the file cannot be read or is cut short.
        """
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
        """Yield (number of the first image, images) for each group of up to 46 images (SLAB), in order.

        Images: FP32, shape (images, channels, height, width). Raise DamagedData if the file cannot be read.
        """
        for start in range(0, self.shape.images, SLAB):
            with _named(self.path):
                images = np.asarray(self._images[start : start + SLAB])
            yield start, images

    def boxes(self) -> Boxes:
        """Return the boxes of all images as stored, int32, shape (images, BOX_ROWS, 5).

        Columns: ymin, xmin, ymax, xmax in pixels and the class from 0. Empty rows are −1. Raise DamagedData if the file cannot
        be read.
        """
        with _named(self.path):
            return np.asarray(self._boxes[...])

    def bytes_per_second(self) -> float:
        """Read one channel of one image as a measurement. Return the reading rate in bytes of pixels per second.

        Raise DamagedData if the file cannot be read.
        """
        began = time.perf_counter()
        with _named(self.path):
            plane = self._images[self.shape.images // 2, 0]
        return float(plane.nbytes / max(time.perf_counter() - began, 1e-9))

    def close(self) -> None:
        """Close the file. No image can be read afterwards."""
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
    """Return the boxes with edges limited to the map (0 to its height or width in pixels). Empty rows are unchanged.

    `boxes` and the result: (…, 5) with ymin, xmin, ymax, xmax and the class, −1 for an empty row. `shape`: size of the map.
    """
    most = [shape.height, shape.width, shape.height, shape.width, len(CLASSES)]
    return np.where(boxes[..., 4:] >= 0, np.clip(boxes, 0, most), boxes).astype(np.int32)


class WeatherYears:
    """Images of several years with their boxes, clipped to the map. `read` may be called from many threads."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._years = [YearFile(path) for path in files]
        self._ends = np.cumsum([year.shape.images for year in self._years])
        self.boxes = np.concatenate([clipped(year.boxes(), year.shape) for year in self._years])

    @property
    def is_packed(self) -> bool:
        """True if the images of all files are stored in one piece."""
        return all(year.is_packed for year in self._years)

    def read(self, image: int) -> Floats:
        """Return one image in FP32, shape (channels, height, width), in the physical units of its channels.

        `image`: number of the image over all years in order, from 0. Raise DamagedData if the file cannot be read.
        """
        year = int(np.searchsorted(self._ends, image, side="right"))
        return self._years[year].read(image - int(self._ends[year - 1] if year else 0))

    def close(self) -> None:
        """Close the files of all years. No image can be read afterwards."""
        for year in self._years:
            year.close()


class YearWriter:
    """Writer of a weather file. Images are added in their order."""

    def __init__(self, file: Any, shape: YearShape, *, is_published_layout: bool) -> None:
        """`file`: HDF5 file that is open for writing."""
        sizes = (shape.images, len(CHANNELS), shape.height, shape.width)
        chunks = tuple(min(one, other) for one, other in zip(_CHUNK, sizes, strict=True))
        how = {"chunks": chunks, "compression": "gzip"} if is_published_layout else {}
        self._images = file.create_dataset("images", sizes, "<f4", **how)
        self._boxes = file.create_dataset("boxes", (shape.images, BOX_ROWS, 5), "<i4")
        self._written = 0

    def add(self, images: Floats) -> None:
        """Write images behind those of earlier calls. `images`: FP32, shape (images, channels, height, width).

        Compressed chunks are written fastest with 46 images (SLAB) at once.
        """
        self._images[self._written : self._written + len(images)] = images
        self._written += len(images)

    def set_boxes(self, boxes: Boxes) -> None:
        """Write the boxes of all images of the year. `boxes`: int32, shape (images, BOX_ROWS, 5).

        Columns: ymin, xmin, ymax, xmax in pixels and the class from 0. Empty rows are −1.
        """
        self._boxes[...] = boxes


@contextmanager
def written_year(path: Path, shape: YearShape, *, is_published_layout: bool = False) -> Iterator[YearWriter]:
    """Return a context manager that yields the writer of a weather file. The file gets the name `path` at the end of the block.

    `shape`: number and size of the images. `is_published_layout`: True: compressed chunks as published. False: one uncompressed
    piece. Raise OSError if the file cannot be written, and BadConfiguration if h5py is missing.
    """
    with draft_of(path) as draft, h5py_module().File(draft, "w", locking=False) as file:
        yield YearWriter(file, shape, is_published_layout=is_published_layout)


class ChannelMoments:
    """Accumulator of mean and standard deviation of each channel over images, computed in FP64."""

    def __init__(self) -> None:
        self._parts: list[Moments] = []

    def add(self, image: Floats) -> None:
        """Add one image to the statistics. `image`: shape (channels, height, width)."""
        values = np.ascontiguousarray(image, np.float64).reshape(len(image), -1)
        with np.errstate(all="ignore"):  # `image_faults` names values that are not finite
            self._parts.append((1.0, values.mean(1), values.std(1)))

    def record(self, boxes: Boxes, path: Path) -> YearRecord:
        """Return the statistics of all added images: number, mean and deviation by channel, hash of the boxes, file size.

        `boxes`: boxes of the year, (images, BOX_ROWS, 5). `path`: file of the year, for its size in bytes. At least one image
        must have been added.
        """
        mean, deviation = pooled(self._parts)
        digest = hashlib.sha256(np.ascontiguousarray(boxes, "<i4").tobytes()).hexdigest()
        return YearRecord(len(self._parts), mean.tolist(), deviation.tolist(), digest, path.stat().st_size)


def image_faults(image: Floats) -> Iterator[str]:
    """Yield one text for each faulty channel of an image: it is constant, or has values that are not finite.

    `image`: shape (channels, height, width). Nothing is yielded for a valid image.
    """
    for channel, plane in zip(CHANNELS, image, strict=True):
        if not np.isfinite(plane).all():
            yield f"{channel} has values that are not finite"
        elif plane.min() == plane.max():
            yield f"{channel} is constant"


def box_faults(boxes: Boxes, shape: YearShape) -> Iterator[str]:
    """Yield one text for each faulty box of an image: unknown class, no area, or completely off the map.

    `boxes`: (BOX_ROWS, 5) with ymin, xmin, ymax, xmax in pixels and the class from 0, −1 for an empty row. `shape`: size of the
    map.
    """
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
    """Return the number of boxes that extend beyond the map. `boxes`: (…, 5) in pixels. `shape`: size of the map."""
    return int((clipped(boxes, shape) != boxes).any(axis=-1).sum())
