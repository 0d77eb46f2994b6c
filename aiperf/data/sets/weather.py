"""Extreme weather in HDF5 files, in the published layout or packed: described, opened, checked and packed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from aiperf.data.dataset_config import WeatherConf
from aiperf.data.description import DataSet, PrepareReport
from aiperf.data.errors import DamagedData, DataError
from aiperf.data.files import weather_files
from aiperf.data.survey import require_fingerprint, root_of
from aiperf.errors import conflict
from aiperf.shell_command import command, option
from aiperf.system.control_groups import usable_processors
from aiperf.units import count, si

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData

_YEARS_OF_A_VALIDATION_YEAR = 10


def split(years: Sequence[int], chosen: Sequence[int] | None) -> tuple[list[int], list[int]]:
    """Return training and validation years. `chosen`: years for validation. None: the last tenth, at least one."""
    validation = sorted(set(chosen)) if chosen else list(years[-max(1, len(years) // _YEARS_OF_A_VALIDATION_YEAR) :])
    training = [year for year in years if year not in validation]
    if not training or not set(validation) <= set(years):
        raise DataError(
            f"some years of the set validate and the others are trained. Its years are {list(years)}, but found "
            f"dataset.validation_years={validation}: name others, or add files"
        )
    return training, validation


def _described(conf: WeatherConf, record: weather_files.WeatherRecord, years: Sequence[int]) -> DataSet:
    training, validation = split(years, conf.validation_years)
    mean, deviation = record.moments(training)
    return DataSet(
        conf.name,
        record.images(training),
        record.images(validation),
        len(weather_files.CLASSES),
        record.height,
        len(weather_files.CHANNELS),
        tuple(mean.tolist()),
        tuple(deviation.tolist()),
        fingerprint=record.fingerprint,
        contents=record.contents,
        width=record.width,
        targets="boxes",
        validation_years=tuple(validation),
    )


def _files_and_record(conf: WeatherConf) -> tuple[dict[int, Path], weather_files.WeatherRecord]:
    root = root_of(conf)
    files, record = weather_files.files_of(root), weather_files.read_record(root)
    require_fingerprint(conf, record.fingerprint)
    return files, record


def describe(conf: WeatherConf) -> DataSet:
    files, record = _files_and_record(conf)
    described = _described(conf, record, list(files))
    with closing(weather_files.YearFile(next(iter(files.values())))) as first:
        if first.is_packed:
            return described
        rate = si(first.bytes_per_second(), "B/s")
    pack = command("prepare", "dataset=weather", option("dataset.root", root_of(conf)), "--pack", "FOLDER")
    note = f"{first.path.name} is compressed in chunks of many images: one core reads {rate}. Pack the set: {pack}"
    return replace(described, note=note)


def open_data(conf: WeatherConf, cores: int | None) -> OpenData:
    from concurrent.futures import ThreadPoolExecutor

    from aiperf.data.boxed import BoxedSplit
    from aiperf.data.opened import OpenData

    files, record = _files_and_record(conf)
    years = split(list(files), conf.validation_years)
    moments = record.moments(years[0])
    training, validation = (weather_files.WeatherYears([files[year] for year in part]) for part in years)
    if not (validation.boxes[..., 4] >= 0).any():
        raise DamagedData(
            f"images must have boxes to validate, but found none in the years {years[1]}: name other years"
        )
    workers = conf.workers or cores or usable_processors()
    pool = ThreadPoolExecutor(workers, "aiperf-read")
    layout = "packed" if training.is_packed and validation.is_packed else "compressed"
    return OpenData(
        _described(conf, record, list(files)),
        BoxedSplit(training, *moments, pool, conf.prefetch_batches),
        BoxedSplit(validation, *moments, pool, conf.prefetch_batches),
        augment=conf.augment,
        how=f"{layout} HDF5 files, {workers} reading threads",
        on_close=lambda: pool.shutdown(cancel_futures=True),
    )


def prepare(conf: WeatherConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    if checksums is not None:
        raise conflict("--checksums", "weather files, which have a record", "Leave it out")
    root = root_of(conf)
    target = root if pack is None else pack
    if pack is not None:
        pack.mkdir(parents=True, exist_ok=True)
        if not (pack / weather_files.RECORD).exists() or pack.samefile(root):  # else an interrupted call continues
            weather_files.require_no_files(pack)
    files, record = weather_files.files_of(root), weather_files.known_record(target)
    faults: list[tuple[str, str]] = []
    unknown = [year for year in files if year not in record.years]
    clipped = 0
    for year in unknown:
        of_year, cut, statistics = _examined(files[year], None if pack is None else pack / files[year].name, out)
        if statistics is not None:
            if (record.height, record.width) not in ((0, 0), statistics[0]):
                of_year.append(f"images of {statistics[0]} pixels, other years have {(record.height, record.width)}")
            else:
                record = weather_files.write_record(target, statistics[0], {**record.years, year: statistics[1]})
        for fault in of_year:  # at once: a whole set takes hours
            out.print(f"{files[year].name}: {fault}", markup=False, highlight=False, soft_wrap=True)
        faults += [(files[year].name, fault) for fault in of_year]
        clipped += cut
    if not record.years:
        raise DamagedData(f"no year of {str(root)!r} is usable, for {count(len(faults))} faults: copy the files again")
    described = _described(conf, record, sorted(record.years))
    notes = [
        f"{count(len(files))} files, {count(len(unknown))} read now; {count(clipped)} boxes of these are clipped to the map",
        f"fingerprint {record.fingerprint}; statistics of the channels, which runs read: {target / weather_files.RECORD}",
        f"{count(len(faults))} faults{': a run refuses these years. Copy the files again' if faults else ''}",
        *(f"  {name}: {fault}" for name, fault in faults),
    ]
    return PrepareReport(
        described,
        len(files),
        len(unknown),
        sum(year.bytes for year in record.years.values()),
        tuple(faults),
        shards=0 if pack is None else len(unknown),
        remarks=tuple(notes),
    )


def _examined(
    path: Path, packed: Path | None, out: Console
) -> tuple[list[str], int, tuple[tuple[int, int], weather_files.YearRecord] | None]:
    try:
        with closing(weather_files.YearFile(path)) as file:
            shape, boxes, moments = file.shape, file.boxes(), weather_files.ChannelMoments()
            faults: list[str] = []
            writing = nullcontext() if packed is None else weather_files.written_year(packed, shape)
            with writing as writer:
                for start, images in track(file.slabs(), path.name, shape.slabs, console=out):
                    for number, image in enumerate(images, start):
                        moments.add(image)
                        of_image = (*weather_files.image_faults(image), *weather_files.box_faults(boxes[number], shape))
                        faults += [f"image {number}: {fault}" for fault in of_image]
                    if writer is not None:
                        writer.add(images)
                if writer is not None:
                    writer.set_boxes(boxes)
            if faults:
                if packed is not None:
                    packed.unlink()
                return faults, 0, None
            record = moments.record(boxes, packed or path)
            return [], weather_files.count_clipped(boxes, shape), ((shape.height, shape.width), record)
    except DamagedData as error:
        return [str(error)], 0, None
