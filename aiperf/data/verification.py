"""`python -m aiperf prepare`: check a data set before a run, and pack it into shards in WebDataset's format.

Every file is read, hashed and decoded once. Its result is appended to aiperf-checksums.jsonl, from which an interrupted check
continues: a line is valid while its file keeps its size and time of change.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from dataclasses import replace as with_fields
from itertools import islice
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from aiperf.atomic_files import replace_file, require_writable
from aiperf.data.dataset_config import DataSetConf, ImagesConf
from aiperf.data.decode import Corrupt, check
from aiperf.data.description import PrepareReport
from aiperf.data.errors import DamagedData, DataError
from aiperf.data.files import index
from aiperf.data.files.archives import unpack
from aiperf.data.files.samples import Samples, Seal, index_shards
from aiperf.data.survey import ImageFileList, index_path, listing, module_of, root_of
from aiperf.data.visiting_order import shuffled
from aiperf.errors import explained
from aiperf.files import lock, name_text, require_file, shown
from aiperf.system.control_groups import usable_processors

# Enough that no thread waits, few enough that Ctrl-C takes effect at once.
_AHEAD = 64


def prepare(conf: DataSetConf, *, pack: Path | None, out: Console, checksums: Path | None = None) -> PrepareReport:
    """Check the data set of `conf`, and pack it into the folder `pack` if given. Corrupt images are listed, not packed."""
    return module_of(conf).prepare(conf, pack, out, checksums)


def prepare_images(
    conf: ImagesConf, pack: Path | None, out: Console, checksums: Path | None, archives: Path | None = None
) -> PrepareReport:
    """Read, hash and decode every image. Unchanged files of an earlier check are not read again.

    `archives`: folder of the original archives of ImageNet, which are unpacked into the set's folder first.
    """
    root = root_of(conf)
    sums = None if archives is None else unpack(archives, root)
    listed = listing(conf, ignore_index=True)
    former = listed.seal
    if not listed.training.is_sharded:
        with index.writing(index_path(conf)):  # checked before hours of reading
            require_writable(index_path(conf))
        with suppress(FileNotFoundError, DamagedData):
            former = index.read(index_path(conf), root).header.seal
    splits = {"train": listed.training, "val": listed.validation}
    files = [file for split, samples in splits.items() for file in _files(root, split, samples)]
    with opened(checksums or root / FILE) as held:
        fresh = [file for file in files if not _is_known(held, file.expected)]
        checked = _check_all(fresh, conf.workers or usable_processors())
        for line in track(checked, "checked", len(files), len(files) - len(fresh), console=out):
            held.add(line)
    lines = [held.known[file.expected.file] for file in files]
    corrupt = tuple((line.file, line.corrupt) for line in lines if line.corrupt is not None)
    for split in splits:
        faults = [line for line in lines if line.split == split]
        if faults and all(line.corrupt is not None for line in faults):
            raise DamagedData(
                f"a data set has images that can be decoded, but each of {len(faults)} in {split}/ of {shown(root)} is "
                f"corrupt. The first: {faults[0].file}: {faults[0].corrupt}. Copy the images again, or correct dataset.root"
            )
    listed = _sealed(listed, lines, sums, former)
    splits = {"train": listed.training, "val": listed.validation}
    shards = 0
    if pack is not None:
        left_out = {file.name for file, line in zip(files, lines, strict=True) if line.corrupt is not None}
        shards = pack_shards(splits, left_out, pack, out)
    size = sum(line.bytes for line in lines)
    written = None
    if not listed.training.is_sharded:
        written = index_path(conf)
        index.write(written, listed.root, listed.training, listed.validation)
    else:
        digests = {
            path: each.digests[each.shard == number].tobytes()
            for each in splits.values()
            for number, path in enumerate(each.paths)
        }
        index_shards([[*each.paths] for each in splits.values()], digests, listed.seal)
    return PrepareReport(
        listed.describe(conf),
        len(files),
        len(fresh),
        size,
        corrupt,
        conf.corrupt_limit,
        held.path,
        shards,
        written,
    )


def _sealed(
    listed: ImageFileList, lines: Iterable[FileCheck], archives: dict[str, dict[str, str]] | None, former: Seal
) -> ImageFileList:
    """Add the contents. A file that cannot be read has 64 zeros. Archives of an earlier check count for equal contents."""
    text, cut = "".join(line.sha256 or "0" * 64 for line in lines), len(listed.training)
    hashes = np.frombuffer(bytes.fromhex(text), np.uint8).reshape(-1, 32)
    training = with_fields(listed.training, digests=hashes[:cut])
    validation = with_fields(listed.validation, digests=hashes[cut:])
    seal = Seal(ImageFileList(listed.root, training, validation).contents(), archives or {})
    if archives is None and former.contents == seal.contents:
        seal = former
    return ImageFileList(listed.root, with_fields(training, seal=seal), with_fields(validation, seal=seal))


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
        name = name_text(Path(samples.path_text(number)).relative_to(root).as_posix())
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


FILE = "aiperf-checksums.jsonl"


class FileCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    file: str
    """Path below the set's root, with '/', as text (`files.name_text`). SHARD:MEMBER for a member of a shard."""
    bytes: int
    changed: int
    sha256: str
    """'' if the file could not be read."""
    split: str
    corrupt: str | None = None


@dataclass(frozen=True, slots=True)
class Checksums:
    path: Path
    known: dict[str, FileCheck]
    out: IO[bytes]

    def add(self, line: FileCheck) -> None:
        """Append the result of one file, or replace its earlier one. The line may reach the disk later."""
        self.known[line.file] = line
        self.out.write(msgspec.json.encode(line) + b"\n")


@contextmanager
def opened(path: Path) -> Iterator[Checksums]:
    """Open `path` for appending by this process alone. An incomplete last line is removed. Raise DataError or DamagedData."""
    fix = "Allow writing during the check, or name another file for the checksums: --checksums FILE"
    with explained(path, "cannot be written", fix, DataError):
        require_file(path)
        out = path.open("a+b")  # never truncated here: another process may be writing it
    with out:
        _require_alone(out, path)
        yield Checksums(path, _known(out, path), out)


def _require_alone(file: IO[bytes], path: Path) -> None:
    try:
        lock(file)
    except BlockingIOError as error:
        raise DataError(
            f"only one `prepare` may write {str(path)!r} at a time, and another one is running: wait until it has ended"
        ) from error


def _known(file: IO[bytes], path: Path) -> dict[str, FileCheck]:
    file.seek(0)
    content = file.read()
    complete = content.rfind(b"\n") + 1
    file.truncate(complete)
    decoder, known = msgspec.json.Decoder(FileCheck), {}
    for number, text in enumerate(content[:complete].splitlines(), 1):
        try:
            line = decoder.decode(text)
        except msgspec.DecodeError as error:
            raise DamagedData(
                f"{str(path)!r} is damaged at line {number} ({error}): remove it, and all files are checked again"
            ) from error
        known[line.file] = line
    return known


_SEED = 0
CLASSES = "aiperf-classes.json"
"""File with the classes' names in the order of their numbers. Shards do not contain the names."""


def pack_shards(
    samples: dict[str, Samples], corrupt: Collection[str], folder: Path, out: Console, images_of_a_shard: int = 1000
) -> int:
    """Write the images by split, 'train' and 'val', into shards SPLIT-000000.tar, …. Return the number of shards.

    Images are shuffled, because tools that read shards in order
    need them mixed. Raise DataError if the folder is not empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise DataError(
            f"shards must be packed into an empty folder, but {str(folder)!r} contains files: remove them, or name an empty "
            "folder"
        )
    shards: list[Path] = []
    digests: dict[Path, bytes] = {}
    first = next(iter(samples.values()))
    seal = Seal() if corrupt else first.seal
    for split, listed in samples.items():
        order = [int(i) for i in shuffled(len(listed), _SEED, 0) if listed.name(int(i)) not in corrupt]
        starts = range(0, len(order), images_of_a_shard)
        for number, start in enumerate(track(starts, f"packed {split}", console=out)):
            members = order[start : start + images_of_a_shard]
            shards.append(folder / f"{split}-{number:06d}.tar")
            _write(shards[-1], listed, np.array(members, np.int64), len(str(len(listed))))
            if seal.contents is not None:
                digests[shards[-1]] = listed.digests[members].tobytes()
    replace_file(folder / CLASSES, msgspec.json.format(msgspec.json.encode([*map(name_text, first.classes)])) + b"\n")
    index_shards([shards], digests, seal)
    return len(shards)


def _write(path: Path, samples: Samples, members: NDArray[np.int64], digits: int) -> None:
    partial = path.with_suffix(".partial")
    with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar:
        for member in members.tolist():
            key = f"{member:0{digits}d}"
            name = samples.keys[member] if samples.is_sharded else samples.paths[member].name
            _add(tar, f"{key}.cls", str(int(samples.labels[member])).encode())
            _add(tar, f"{key}{_extension(name)}", samples.read(member))
    partial.replace(path)


def _extension(name: str) -> str:
    extension = Path(name).suffix.lower()
    return ".jpg" if extension == ".jpeg" else extension


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
