"""HDF5 files of weather images: one file a year, in the published layout or packed, and the record of their statistics.

The published layout is compressed in chunks of 46 images, so that reading one image unpacks 46. Packed files have the same
two arrays in one piece, and are read at the array's offset without HDF5 and its lock. `prepare` writes the record, which a run
needs for the mean and deviation of each channel.
"""

from __future__ import annotations

import hashlib
import importlib
import math
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

Floats = NDArray[np.float32]
Boxes = NDArray[np.int32]


class YearRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statistics of a year."""

    images: int
    mean: list[float]
    """By channel."""
    deviation: list[float]
    boxes: str
    """SHA-256 of the boxes."""
    bytes: int
    """Size of the file. It differs between the layouts."""


class WeatherRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statistics of the files of a folder, by year."""

    version: int
    height: int
    width: int
    years: dict[int, YearRecord]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the statistics. Equal for both layouts of one set."""
        known = [(year, one.images, one.mean, one.deviation, one.boxes) for year, one in sorted(self.years.items())]
        return hashlib.sha256(msgspec.json.encode((self.height, self.width, known))).hexdigest()

    def images(self, years: Sequence[int]) -> int:
        """Return the number of images of these years."""
        return sum(self.years[year].images for year in years)

    def moments(self, years: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation of each channel over the images of these years, (channels,) each."""
        chosen = [self.years[year] for year in years]
        return pooled([(one.images, np.array(one.mean), np.array(one.deviation)) for one in chosen])


Moments = tuple[float, NDArray[np.float64], NDArray[np.float64]]
"""Weight, mean and deviation."""


def pooled(parts: Sequence[Moments]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (mean, standard deviation) over all values of several parts, each given by its weight, mean and deviation."""
    weight = sum(part[0] for part in parts)
    mean = sum((part[0] / weight * part[1] for part in parts), np.zeros_like(parts[0][1]))
    square = sum((part[0] / weight * (part[2] ** 2 + (part[1] - mean) ** 2) for part in parts), np.zeros_like(mean))
    return mean, np.sqrt(square)


def files_of(root: Path) -> dict[int, Path]:
    """Return the files below the root by year, sorted. Raises MissingData if there are none."""
    found = {int(match[1]): path for path in root.iterdir() if (match := _FILE.fullmatch(path.name))}
    if not found:
        raise MissingData(f"weather images are files climo_YYYY.h5, but found none in {str(root)!r}: name their folder")
    return dict(sorted(found.items()))


def require_no_files(folder: Path) -> None:
    """Raise BadConfiguration if the folder has weather files, which would be replaced."""
    if found := sorted(path.name for path in folder.iterdir() if _FILE.fullmatch(path.name)):
        raise BadConfiguration(
            f"--pack writes into a folder without weather files, but found {found[0]} in {str(folder)!r}: name another folder"
        )


def read_record(root: Path) -> WeatherRecord:
    """Return the record of a folder, whose files must have their recorded sizes.

    Raises MissingData without a record, DamagedData for an unreadable one, and StaleIndex for other files.
    """
    files, path = files_of(root), root / RECORD
    try:
        record = msgspec.json.decode(path.read_bytes(), type=WeatherRecord)
    except FileNotFoundError as error:
        raise MissingData(
            f"weather images need the mean and deviation of each channel, but there is no {str(path)!r}: run "
            f"`python -m aiperf prepare dataset=weather dataset.root={root}`"
        ) from error
    except msgspec.MsgspecError as error:
        raise DamagedData(f"{str(path)!r} cannot be read ({error}): remove it and run `prepare` again") from error
    if record.version != _VERSION:
        raise DamagedData(f"{RECORD} has version {_VERSION}, but found {record.version}: run `prepare` again")
    sizes = {year: file.stat().st_size for year, file in files.items()}
    recorded = {year: one.bytes for year, one in record.years.items()}
    if differing := sorted(year for year in sizes.keys() | recorded.keys() if sizes.get(year) != recorded.get(year)):
        year = differing[0]
        raise StaleIndex(f"climo_{year}.h5 has {sizes.get(year)} bytes, recorded are {recorded.get(year)}")
    return record


def known_record(root: Path) -> WeatherRecord:
    """Return the record of a folder without the years whose files are missing or have another size. It may be empty."""
    try:
        record = msgspec.json.decode((root / RECORD).read_bytes(), type=WeatherRecord)
    except (FileNotFoundError, msgspec.MsgspecError):
        return WeatherRecord(_VERSION, 0, 0, {})
    sizes = {year: path.stat().st_size for year in record.years if (path := root / f"climo_{year}.h5").is_file()}
    return msgspec.structs.replace(
        record, years={year: one for year, one in record.years.items() if sizes.get(year) == one.bytes}
    )


def write_record(root: Path, sides: tuple[int, int], years: Mapping[int, YearRecord]) -> WeatherRecord:
    """Write the record of a folder. `sides`: height and width of the images. Raises OSError."""
    record = WeatherRecord(_VERSION, *sides, {year: years[year] for year in sorted(years)})
    replace_file(root / RECORD, msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    return record


def h5py_module() -> Any:
    """Import and return h5py. Raises BadConfiguration if it is missing."""
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise BadConfiguration(
            f"weather files are read by h5py, which cannot be imported ({error}): pip install 'aiperf-cluster[weather]'"
        ) from error


@dataclass(frozen=True, slots=True)
class YearShape:
    """Size of the arrays of a file."""

    images: int
    height: int
    width: int

    @property
    def slabs(self) -> int:
        """Number of the parts of `YearFile.slabs`."""
        return -(-self.images // SLAB)


class YearFile:
    """Opened file of a year. `read` may be called from many threads.

    Raises DamagedData for a file that is no HDF5 file, or has other arrays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = h5py_module().File(path, "r")
        except OSError as error:
            raise DamagedData(f"{str(path)!r} is no readable HDF5 file ({error}): copy it again") from error
        images, boxes = (self._file.get(name) for name in ("images", "boxes"))
        for name, array, expected, kind in (
            ("images", images, f"(images, {len(CHANNELS)}, height, width)", np.dtype("<f4")),
            ("boxes", boxes, f"(images, {BOX_ROWS}, 5)", np.dtype("<i4")),
        ):
            if array is None or array.dtype != kind or not self._fits(name, array.shape, images):
                found = "none" if array is None else f"{array.shape} {array.dtype}"
                self._file.close()
                raise DamagedData(
                    f"{name} of {path.name} is an array {expected} of {kind}, but found {found}: copy it again"
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
        """True if the images are stored in one piece."""
        return self._packed is not None

    def read(self, image: int) -> Floats:
        """Return an image (channels, height, width). Raises DamagedData."""
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
        """Yield the number of the first image and up to SLAB images, for all images in their order. Raises DamagedData."""
        for start in range(0, self.shape.images, SLAB):
            with _named(self.path):
                images = np.asarray(self._images[start : start + SLAB])
            yield start, images

    def boxes(self) -> Boxes:
        """Return all boxes (images, BOX_ROWS, 5) as they are stored. Raises DamagedData."""
        with _named(self.path):
            return np.asarray(self._boxes[...])

    def bytes_per_second(self) -> float:
        """Read one channel of an image, and return the rate in bytes of pixels per second. Raises DamagedData."""
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
    except OSError as error:
        raise DamagedData(f"{str(path)!r} cannot be read ({error}): copy it again") from error


def clipped(boxes: Boxes, shape: YearShape) -> Boxes:
    """Return boxes (…, 5) clipped to the map. Empty rows stay."""
    most = [shape.height, shape.width, shape.height, shape.width, len(CLASSES)]
    return np.where(boxes[..., 4:] >= 0, np.clip(boxes, 0, most), boxes).astype(np.int32)


class WeatherYears:
    """Images of several years, with their boxes clipped to the map. `read` may be called from many threads."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._years = [YearFile(path) for path in files]
        self._ends = np.cumsum([year.shape.images for year in self._years])
        self.boxes = np.concatenate([clipped(year.boxes(), year.shape) for year in self._years])

    @property
    def is_packed(self) -> bool:
        """True if the images of all files are stored in one piece."""
        return all(year.is_packed for year in self._years)

    def read(self, image: int) -> Floats:
        """Return an image (channels, height, width). Raises DamagedData."""
        year = int(np.searchsorted(self._ends, image, side="right"))
        return self._years[year].read(image - int(self._ends[year - 1] if year else 0))

    def close(self) -> None:
        """Close the files."""
        for year in self._years:
            year.close()


class YearWriter:
    """Writer of a year's file. Images are added in their order."""

    def __init__(self, file: Any, shape: YearShape, *, is_published_layout: bool) -> None:
        """`file`: HDF5 file that is open for writing."""
        sizes = (shape.images, len(CHANNELS), shape.height, shape.width)
        chunks = tuple(min(one, other) for one, other in zip(_CHUNK, sizes, strict=True))
        how = {"chunks": chunks, "compression": "gzip"} if is_published_layout else {}
        self._images = file.create_dataset("images", sizes, "<f4", **how)
        self._boxes = file.create_dataset("boxes", (shape.images, BOX_ROWS, 5), "<i4")
        self._written = 0

    def add(self, images: Floats) -> None:
        """Add images (images, channels, height, width). Compressed chunks are written fastest with SLAB images at once."""
        self._images[self._written : self._written + len(images)] = images
        self._written += len(images)

    def set_boxes(self, boxes: Boxes) -> None:
        """Set all boxes (images, BOX_ROWS, 5)."""
        self._boxes[...] = boxes


@contextmanager
def written_year(path: Path, shape: YearShape, *, is_published_layout: bool = False) -> Iterator[YearWriter]:
    """Yield the writer of a year's file, which gets its name at the end of the block.

    `is_published_layout`: compressed chunks as published, otherwise in one piece. Raises OSError, and BadConfiguration if h5py
    is missing.
    """
    with draft_of(path) as draft, h5py_module().File(draft, "w") as file:
        yield YearWriter(file, shape, is_published_layout=is_published_layout)


class ChannelMoments:
    """Mean and deviation of each channel over images, added one by one in FP64."""

    def __init__(self) -> None:
        self._parts: list[Moments] = []

    def add(self, image: Floats) -> None:
        """Add an image (channels, height, width)."""
        values = np.ascontiguousarray(image, np.float64).reshape(len(image), -1)
        self._parts.append((1.0, values.mean(1), values.std(1)))

    def record(self, boxes: Boxes, path: Path) -> YearRecord:
        """Return the statistics of the images that were added. `boxes`: of the year. `path`: its file, for the size."""
        mean, deviation = pooled(self._parts)
        digest = hashlib.sha256(np.ascontiguousarray(boxes, "<i4").tobytes()).hexdigest()
        return YearRecord(len(self._parts), mean.tolist(), deviation.tolist(), digest, path.stat().st_size)


def image_faults(image: Floats) -> Iterator[str]:
    """Yield a text for each channel of an image (channels, height, width) that is constant or has values not finite."""
    for channel, plane in zip(CHANNELS, image, strict=True):
        if not math.isfinite(float(plane.sum(dtype=np.float64))):
            yield f"{channel} has values that are not finite"
        elif plane.min() == plane.max():
            yield f"{channel} is constant"


def box_faults(boxes: Boxes, shape: YearShape) -> Iterator[str]:
    """Yield the faults of the boxes of an image (BOX_ROWS, 5), as text."""
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
    """Return the number of boxes that are partly off the map."""
    return int((clipped(boxes, shape) != boxes).any(axis=-1).sum())
