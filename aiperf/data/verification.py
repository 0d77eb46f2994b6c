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

from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aiperf.data.dataset_config import DataSetConf, ImagesConf
from aiperf.data.files import index
from aiperf.data.files.checksums import FILE, Checksums, FileCheck, opened, set_checksum
from aiperf.data.files.pack import pack as pack_shards
from aiperf.data.files.samples import Samples
from aiperf.data.images.decode import Corrupt, check
from aiperf.data.prepare_report import PrepareReport
from aiperf.data.survey import index_path, listing, module_of, root_of
from aiperf.files import name_text
from aiperf.system.control_groups import usable_processors

# Enough that no thread waits, few enough that Ctrl-C takes effect at once.
_AHEAD = 64


def prepare(conf: DataSetConf, *, pack: Path | None, out: Console, checksums: Path | None = None) -> PrepareReport:
    """Check the data set of `conf`, and pack it into the folder `pack` if one is given.

    Corrupt images are listed in the result and not packed. Raise MissingData without the files, DataError if the set is
    damaged, DataError or OSError if a file cannot be written, and BadConfiguration if the set allows no `pack` or no
    `checksums`, or a package is missing.
    """
    return module_of(conf).prepare(conf, pack, out, checksums)


def prepare_images(conf: ImagesConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    """Read, hash and decode every image. Unchanged files of an earlier check are not read again.

    `checksums`: None: aiperf-checksums.jsonl in the set's folder.
    """
    root = root_of(conf)
    found = listing(conf, ignore_index=True)
    if not found.training.is_sharded:
        index.require_writable(index_path(conf))  # checked before hours of reading
    splits = {"train": found.training, "val": found.validation}
    files = [file for split, samples in splits.items() for file in _files(root, split, samples)]
    with opened(checksums or root / FILE) as held:
        fresh = [file for file in files if not _is_known(held, file.expected)]
        with _progress(out) as progress:
            task = progress.add_task("checked", total=len(files), completed=len(files) - len(fresh))
            for line in _check_all(fresh, conf.workers or usable_processors()):
                held.add(line)
                progress.advance(task)
    lines = [held.known[file.expected.file] for file in files]
    corrupt = tuple((line.file, line.corrupt) for line in lines if line.corrupt is not None)
    shards = 0
    if pack is not None:
        left_out = {file.name for file, line in zip(files, lines, strict=True) if line.corrupt is not None}
        with _progress(out) as progress:
            task = progress.add_task("packed", total=len(files) - len(left_out))
            shards = pack_shards(splits, left_out, pack, lambda images: progress.advance(task, images))
    size = sum(line.bytes for line in lines)
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


@dataclass(frozen=True, slots=True)
class _File:
    """An item to check: a file, or a member of a shard."""

    expected: FileCheck
    samples: Samples
    index: int

    @property
    def name(self) -> str:
        return self.samples.name(self.index)


def _files(root: Path, split: str, samples: Samples) -> Iterator[_File]:
    sizes, times = samples.sizes_and_times
    for number in range(len(samples)):
        name = name_text(Path(samples.word(number)).relative_to(root).as_posix())
        yield _File(FileCheck(name, int(sizes[number]), int(times[number]), "", split), samples, number)


def _is_known(held: Checksums, expected: FileCheck) -> bool:
    line = held.known.get(expected.file)
    # no checksum: reading failed in the last check, so try again
    return line is not None and line.sha256 != "" and (line.bytes, line.changed) == (expected.bytes, expected.changed)


def _check(file: _File) -> FileCheck:
    try:
        encoded = file.samples.read(file.index)
    except OSError as error:
        return replace(file.expected, corrupt=f"cannot be read: {error}")
    checked = replace(file.expected, sha256=hashlib.sha256(encoded).hexdigest())
    try:
        check(encoded)
    except Corrupt as error:
        return replace(checked, corrupt=str(error))
    return checked


def _check_all(files: list[_File], workers: int) -> Iterator[FileCheck]:
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
