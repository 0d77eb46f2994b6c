"""Weather images generated from a seed: smooth fields of 16 channels, with four kinds of events that no channel alone shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from aiperf.data.dataset_config import WeatherSyntheticConf
from aiperf.data.description import DataSet, PrepareReport
from aiperf.data.files import weather_files
from aiperf.data.files.index import of_options
from aiperf.data.visiting_order import draws

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData

Real = NDArray[np.float64]

DEPRESSION, CYCLONE, EXTRATROPICAL, RIVER = range(len(weather_files.CLASSES))
YEARS = (1979, 1980, 1981, 1982, 1984)
MOST_EVENTS = 4
DISTRACTORS = 4
_TRIES = 8
_NUMBERS = 32
_SALT_FIELD, _SALT_EVENT, _SALT_DISTRACTOR = 41, 42, 43
_SPECTRUM = 1.8
"""Amplitudes of the background fall as (wave number)^−1.8."""
_TYPICAL = {
    "PRECT": (3e-8, 2e-8), "PS": (97_000.0, 900.0), "PSL": (101_000.0, 800.0), "QREFHT": (0.01, 0.003),
    "T200": (218.0, 3.0), "T500": (257.0, 5.0), "TMQ": (25.0, 8.0), "TREFHT": (287.0, 8.0), "TS": (288.0, 8.0),
    "U850": (0.0, 8.0), "UBOT": (0.0, 6.0), "V850": (0.0, 8.0), "VBOT": (0.0, 6.0), "Z1000": (90.0, 60.0),
    "Z200": (11_800.0, 150.0), "ZBOT": (65.0, 3.0),
}  # fmt: skip
"""Mean and deviation of each channel, in its unit."""
MEAN, DEVIATION = (np.array([_TYPICAL[name][part] for name in weather_files.CHANNELS]) for part in (0, 1))
_LOWS, _WINDS = ("PSL", "PS", "Z1000"), (("U850", "V850"), ("UBOT", "VBOT"))
_CORES: dict[int, dict[str, float]] = {
    DEPRESSION: {"T200": 1.2, "T500": 0.7, "TMQ": 1.0, "PRECT": 1.2},
    CYCLONE: {"T200": 2.6, "T500": 1.5, "TMQ": 1.6, "PRECT": 2.0},
    EXTRATROPICAL: {"T500": -2.4, "TMQ": 0.8, "PRECT": 1.5},
}
"""Amplitudes at the centre, in deviations of the channel."""
_STRENGTHS = {DEPRESSION: 0.5, CYCLONE: 1.0, EXTRATROPICAL: 0.85, RIVER: 1.0}
_DIP, _SPEED, _MOISTURE = 3.2, 3.0, 3.2


@dataclass(frozen=True, slots=True)
class _Event:
    kind: int
    y: float
    x: float
    radius: float
    """Half of the box of a cyclone, half of the length of a river, in pixels."""
    thickness: float
    """Standard deviation across a river, in pixels."""
    slope: float
    """Angle of a river against the equator, in radians."""
    hemisphere: int
    factors: tuple[float, ...]

    def box(self, height: int, width: int) -> tuple[int, int, int, int]:
        dy, dx = self.radius, self.radius
        if self.kind == RIVER:
            dy, dx = (self.radius * part + 1.5 * self.thickness for part in (np.sin(self.slope), np.cos(self.slope)))
        edges = (self.y - dy, self.x - dx, self.y + dy, self.x + dx)
        ymin, xmin, ymax, xmax = (round(float(edge)) for edge in edges)
        return max(0, ymin), max(0, xmin), min(height, ymax), min(width, xmax)


def _event(numbers: Real, height: int, width: int) -> _Event:
    kind, side = int(4 * numbers[0]), min(height, width)
    low, span = {EXTRATROPICAL: (0.10, 0.05), RIVER: (0.18, 0.10)}.get(kind, (0.06, 0.035))
    radius = side * (low + span * numbers[1])
    latitudes = {EXTRATROPICAL: (35.0, 60.0), RIVER: (20.0, 45.0)}.get(kind, (8.0, 32.0))
    latitude = latitudes[0] + (latitudes[1] - latitudes[0]) * numbers[2]
    hemisphere = 1 if numbers[3] < 0.5 else -1
    y = height * (0.5 - hemisphere * latitude / 180)
    x = radius + (width - 2 * radius) * numbers[4]
    factors = tuple((0.6 + 0.8 * numbers[6:22]).tolist())
    return _Event(kind, y, x, radius, 0.035 * side, 0.5 + 0.6 * numbers[5], hemisphere, factors)


def _events(conf: WeatherSyntheticConf, image: int) -> list[_Event]:
    numbers = draws(np.arange(image * _TRIES, (image + 1) * _TRIES, dtype=np.int64), _NUMBERS, conf.seed, _SALT_EVENT)
    wanted = 1 + int(MOST_EVENTS * numbers[0, 31])
    events: list[_Event] = []
    for row in numbers:
        event = _event(row, conf.height, conf.width)
        box = event.box(conf.height, conf.width)
        if len(events) < wanted and all(_are_apart(box, other.box(conf.height, conf.width)) for other in events):
            events.append(event)
    return events


def _are_apart(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@cache
def _amplitudes(height: int, width: int) -> Real:
    waves = np.hypot(np.fft.fftfreq(height)[:, None] * height, np.fft.rfftfreq(width)[None] * width)
    waves[0, 0] = np.inf
    return np.asarray(waves**-_SPECTRUM)


def _background(conf: WeatherSyntheticConf, image: int) -> Real:
    shape = (len(weather_files.CHANNELS), conf.height, conf.width)
    white = draws(np.arange(conf.height * conf.width, dtype=np.int64), shape[0], conf.seed, image, _SALT_FIELD) - 0.5
    waves = np.fft.rfft2(white.T.reshape(shape)) * _amplitudes(conf.height, conf.width)
    smooth = np.fft.irfft2(waves, shape[1:])
    return np.asarray(smooth / smooth.std(axis=(1, 2), keepdims=True))


class _Fields:
    def __init__(self, values: Real) -> None:
        self.values = values
        self._y, self._x = (np.arange(side, dtype=np.float64) + 0.5 for side in values.shape[1:])

    def add(self, channel: str, amount: Real, event: _Event) -> None:
        index = weather_files.CHANNELS.index(channel)
        self.values[index] += event.factors[index] * amount

    def core(self, event: _Event) -> Real:
        """Return 1 at the centre of an event, falling to e^−2 at its radius."""
        dy, dx = self._y[:, None] - event.y, self._x[None] - event.x
        return np.asarray(np.exp(-2 * (dy**2 + dx**2) / event.radius**2))

    def vortex(self, event: _Event) -> tuple[Real, Real]:
        """Return eastward and northward wind around the centre, fastest at half the radius, with maximum 1."""
        dy, dx = self._y[:, None] - event.y, self._x[None] - event.x
        scaled = np.hypot(dy, dx) / (event.radius / 2)
        speed = np.exp(0.5 * (1 - scaled**2)) / (event.radius / 2) * event.hemisphere
        return speed * dy, speed * dx

    def filament(self, event: _Event) -> Real:
        """Return the strength of a river at each pixel. It falls to e^−2 along its axis, e^−0.5 across."""
        dy, dx = (self._y[:, None] - event.y) * -event.hemisphere, self._x[None] - event.x
        along = dx * np.cos(event.slope) + dy * np.sin(event.slope)
        across = dx * np.sin(event.slope) - dy * np.cos(event.slope)
        return np.asarray(np.exp(-0.5 * (across / event.thickness) ** 2 - 2 * (along / event.radius) ** 8))


def _add_event(fields: _Fields, event: _Event) -> None:
    strength = _STRENGTHS[event.kind]
    if event.kind == RIVER:
        shape = fields.filament(event)
        fields.add("TMQ", _MOISTURE * shape, event)
        fields.add("PRECT", 1.2 * shape, event)
        for east, north in _WINDS:
            fields.add(east, 2.4 * np.cos(event.slope) * shape, event)
            fields.add(north, 2.4 * np.sin(event.slope) * event.hemisphere * shape, event)
        return
    core = fields.core(event)
    for channel, amount in _CORES[event.kind].items():
        fields.add(channel, amount * core, event)
    for channel in _LOWS:
        fields.add(channel, -_DIP * strength * core, event)
    eastward, northward = fields.vortex(event)
    for east, north in _WINDS:
        fields.add(east, _SPEED * strength * eastward, event)
        fields.add(north, _SPEED * strength * northward, event)


def _add_distractors(fields: _Fields, conf: WeatherSyntheticConf, image: int) -> None:
    """Add signatures in one channel, or one pair of winds, without the others."""
    rows = np.arange(image * DISTRACTORS, (image + 1) * DISTRACTORS, dtype=np.int64)
    for row in draws(rows, _NUMBERS, conf.seed, _SALT_DISTRACTOR):
        event = _event(row, conf.height, conf.width)
        match int(4 * row[31]):
            case 0:
                fields.add(_LOWS[int(3 * row[30])], -_DIP * fields.core(event), event)
            case 1:
                fields.add(
                    ("T200", "T500")[int(2 * row[30])], (2.4 if row[29] < 0.5 else -2.4) * fields.core(event), event
                )
            case 2:
                fields.add("TMQ", _MOISTURE * (fields.filament(event) if row[30] < 0.5 else fields.core(event)), event)
            case _:
                for channel, wind in zip(_WINDS[int(2 * row[30])], fields.vortex(event), strict=True):
                    fields.add(channel, _SPEED * wind, event)


def generated(conf: WeatherSyntheticConf, image: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return image and boxes of a number from 0, in units of the channels. Validation follows the training images."""
    fields = _Fields(_background(conf, image))
    _add_distractors(fields, conf, image)
    boxes = np.full((weather_files.BOX_ROWS, 5), -1, np.int32)
    for row, event in enumerate(_events(conf, image)):
        _add_event(fields, event)
        boxes[row] = (*event.box(conf.height, conf.width), event.kind)
    values = fields.values * DEVIATION[:, None, None] + MEAN[:, None, None]
    return np.ascontiguousarray(values, np.float32), boxes


class _Generated:
    def __init__(self, made: Sequence[tuple[NDArray[np.float32], NDArray[np.int32]]]) -> None:
        self._images = [image for image, _ in made]
        self.boxes = np.stack([boxes for _, boxes in made])

    def read(self, image: int) -> NDArray[np.float32]:
        return self._images[image]

    def close(self) -> None:
        """Do nothing, because only memory is held."""


def describe(conf: WeatherSyntheticConf) -> DataSet:
    return DataSet(
        conf.name,
        conf.training_images,
        conf.validation_images,
        len(weather_files.CLASSES),
        conf.height,
        len(weather_files.CHANNELS),
        tuple(MEAN.tolist()),
        tuple(DEVIATION.tolist()),
        fingerprint=of_options(conf),
        width=conf.width,
        targets="boxes",
    )


def open_data(conf: WeatherSyntheticConf, cores: int | None) -> OpenData:
    from concurrent.futures import ThreadPoolExecutor

    from aiperf.data.boxed import BoxedSplit
    from aiperf.data.opened import OpenData

    made = [generated(conf, image) for image in range(conf.training_images + conf.validation_images)]
    pool = ThreadPoolExecutor(1, "aiperf-normalise")
    parts = made[: conf.training_images], made[conf.training_images :]
    training, validation = (BoxedSplit(_Generated(part), MEAN, DEVIATION, pool, ahead=2) for part in parts)
    return OpenData(
        describe(conf),
        training,
        validation,
        augment=conf.augment,
        how="generated in memory",
        on_close=lambda: pool.shutdown(cancel_futures=True),
    )


def prepare(
    conf: WeatherSyntheticConf,
    pack: Path | None,
    out: Console,
    checksums: Path | None,
    *,
    is_published_layout: bool = False,
) -> PrepareReport:
    if pack is None:
        return PrepareReport(describe(conf))
    pack.mkdir(parents=True, exist_ok=True)
    weather_files.require_no_files(pack)
    years: dict[int, weather_files.YearRecord] = {}
    for year, images in zip(YEARS, _years(conf), strict=False):
        path, moments = pack / f"climo_{year}.h5", weather_files.ChannelMoments()
        shape = weather_files.YearShape(len(images), conf.height, conf.width)
        boxes = np.zeros((len(images), weather_files.BOX_ROWS, 5), np.int32)
        with weather_files.written_year(path, shape, is_published_layout=is_published_layout) as writer:
            for start in track(range(0, len(images), weather_files.SLAB), path.name, console=out):
                made = [generated(conf, image) for image in images[start : start + weather_files.SLAB]]
                boxes[start : start + len(made)] = np.stack([found for _, found in made])
                writer.add(np.stack([image for image, _ in made]))
                for image, _ in made:
                    moments.add(image)
            writer.set_boxes(boxes)
        years[year] = moments.record(boxes, path)
    record = weather_files.write_record(pack, (conf.height, conf.width), years)
    notes = f"{len(years)} files written to {pack}", f"fingerprint {record.fingerprint}"
    size = sum(one.bytes for one in years.values())
    return PrepareReport(describe(conf), len(years), len(years), size, shards=len(years), remarks=notes)


def _years(conf: WeatherSyntheticConf) -> Iterator[range]:
    parts = min(4, conf.training_images)
    edges = [conf.training_images * part // parts for part in range(parts + 1)]
    yield from (range(first, last) for first, last in pairwise(edges))
    yield range(conf.training_images, conf.training_images + conf.validation_images)
