"""`python -m aiperf prepare`: check a data set before a run, and pack it into shards that other tools can read.

Every file is read, hashed and decoded once. An interrupted check continues with the remaining files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aiperf.data.dataset_config import Cifar10Conf, DataSetConf, ImagesConf, WeatherSyntheticConf
from aiperf.data.files import cifar10, index
from aiperf.data.files.checksums import FILE, Checksums, FileCheck, set_checksum
from aiperf.data.files.pack import pack as pack_shards
from aiperf.data.files.samples import Samples
from aiperf.data.images.decode import Corrupt, check
from aiperf.data.prepare_report import PrepareReport
from aiperf.data.sets import weather_synthetic
from aiperf.data.survey import index_path, listing, module_of, root_of
from aiperf.errors import BadConfiguration
from aiperf.system.control_groups import usable_processors

# Enough that no thread waits, few enough that Ctrl-C takes effect at once.
_AHEAD = 64


@dataclass(frozen=True, slots=True)
class _File:
    """An item to check: a file, or a member of a shard."""

    name: str
    split: str
    bytes: int
    changed: int
    samples: Samples
    index: int


def prepare(
    conf: DataSetConf,
    *,
    pack: Path | None,
    out: Console,
    checksums: Path | None = None,
    is_published_layout: bool = False,
) -> PrepareReport:
    """Check the set of `conf`, show progress on `out`, and pack it into the folder `pack` if one is given.

    Checksums are written to aiperf-checksums.jsonl in the set's root, or to the file `checksums`. All corrupt images
    are listed. They are not packed. `is_published_layout`: write generated weather images in the layout of the real set.
    Raises MissingData, DataError, and BadConfiguration if there is nothing to pack.
    """
    if is_published_layout:
        if not isinstance(conf, WeatherSyntheticConf) or pack is None:
            raise BadConfiguration(
                "--published-layout goes with dataset=weather_synthetic --pack FOLDER, but found "
                f"dataset={conf.name}{'' if pack is None else f' --pack {pack}'}: leave it out"
            )
        return weather_synthetic.prepare(conf, pack, out, checksums, is_published_layout=True)
    return module_of(conf).prepare(conf, pack, out, checksums)


def prepare_images(conf: ImagesConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    """Check, and pack, a set of image files."""
    root = root_of(conf)
    found = listing(conf, ignore_index=True)
    if not found.training.is_sharded:
        index.require_writable(index_path(conf))  # checked before hours of reading
    splits = {"train": found.training, "val": found.validation}
    files = [file for split, samples in splits.items() for file in _files(root, split, samples)]
    with Checksums(checksums or root / FILE) as held:
        fresh = [file for file in files if not _is_known(held, file)]
        with _progress(out) as progress:
            task = progress.add_task("checked", total=len(files), completed=len(files) - len(fresh))
            for line in _check_all(fresh, conf.workers or usable_processors()):
                held.add(line)
                progress.advance(task)
        lines = [held.known[file.name] for file in files]
    corrupt = tuple((line.file, line.corrupt) for line in lines if line.corrupt is not None)
    shards = 0
    if pack is not None:
        left_out = {
            file.samples.name(file.index) for file, line in zip(files, lines, strict=True) if line.corrupt is not None
        }
        with _progress(out) as progress:
            task = progress.add_task("packed", total=len(files) - len(left_out))
            shards = pack_shards(splits, left_out, pack, lambda images: progress.advance(task, images))
    size = sum(file.bytes for file in files)
    written = None
    if not found.training.is_sharded:
        written = index_path(conf)
        index.write(written, found.root, found.training, found.validation, set_checksum(lines))
    return PrepareReport(
        found.describe(conf),
        len(files),
        len(fresh),
        size,
        corrupt,
        conf.corrupt_limit,
        set_checksum(lines),
        held.path,
        shards,
        written,
    )


def prepare_cifar10(
    conf: Cifar10Conf, folder: Path, pack: Path | None, out: Console, checksums: Path | None
) -> PrepareReport:
    """Check CIFAR-10's binary version in `folder`."""
    if pack is not None:
        raise BadConfiguration(
            "CIFAR-10's binary version contains pixels, not image files, so there is nothing to pack"
        )
    splits = {"train": cifar10.TRAINING_FILES, "val": (cifar10.VALIDATION_FILE,)}
    lines = []
    with Checksums(checksums or folder / FILE) as held, _progress(out) as progress:
        task = progress.add_task("checked", total=len(cifar10.TRAINING_FILES) + 1)
        for split, names in splits.items():
            for name in names:
                cifar10.labels(folder / name)  # raises for a damaged file
                stat = (folder / name).stat()
                digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
                lines.append(FileCheck(name, stat.st_size, stat.st_mtime_ns, digest, split))
                if held.known.get(name) != lines[-1]:
                    held.add(lines[-1])
                progress.advance(task)
    size = sum(line.bytes for line in lines)
    return PrepareReport(
        conf.published(), len(lines), len(lines), size, (), conf.corrupt_limit, set_checksum(lines), held.path, 0
    )


def _files(root: Path, split: str, samples: Samples) -> Iterator[_File]:
    sizes, times = samples.sizes_and_times()
    for number in range(len(samples)):
        name = Path(samples.name(number)).relative_to(root).as_posix()
        yield _File(name, split, int(sizes[number]), int(times[number]), samples, number)


def _is_known(held: Checksums, file: _File) -> bool:
    line = held.known.get(file.name)
    # no checksum: reading failed in the last check, so try again
    return line is not None and line.sha256 != "" and (line.bytes, line.changed) == (file.bytes, file.changed)


def _check(file: _File) -> FileCheck:
    try:
        encoded = file.samples.read(file.index)
    except OSError as error:
        return FileCheck(file.name, file.bytes, file.changed, "", file.split, f"cannot be read: {error}")
    digest = hashlib.sha256(encoded).hexdigest()
    try:
        check(encoded)
    except Corrupt as error:
        return FileCheck(file.name, file.bytes, file.changed, digest, file.split, str(error))
    return FileCheck(file.name, file.bytes, file.changed, digest, file.split)


def _check_all(files: list[_File], workers: int) -> Iterator[FileCheck]:
    """Yield results in the order of completion. Reading, hashing and decoding release the interpreter lock."""
    rest = iter(files)
    with ThreadPoolExecutor(workers, "aiperf-check") as pool:
        running: set[Future[FileCheck]] = {pool.submit(_check, file) for file in islice(rest, _AHEAD)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(_check, file) for file in islice(rest, len(done))}
                yield from (each.result() for each in done)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _progress(out: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=out
    )
