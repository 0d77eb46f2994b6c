"""File aiperf-folders.index: list of the image files in a set's class folders. A run reads it instead of listing the folders.

Lines "aiperf-folders 2 SHA256" (of all that follows) and a JSON object (`Header`), then little-endian columns, split by split:
bytes of each file (int64), end of its name (int64), the concatenated names and, if `prepare` has read the files, their SHA-256.
The fingerprint of a set is the SHA-256 over "PATH LABEL BYTES" of each image, separated by tabs, in the order of the columns.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from dataclasses import replace as with_fields
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from aiperf.atomic_files import draft_of
from aiperf.data.dataset_config import DataSetConf
from aiperf.data.errors import DamagedData, DataError, StaleIndex
from aiperf.data.files.class_folders import ClassFolders
from aiperf.data.files.samples import Samples, Seal, class_names, image_names
from aiperf.errors import explained
from aiperf.files import name_of, name_text, require_file, shown

FILE = "aiperf-folders.index"
VERSION = 2
FOLDERS_CHECKED = 32
"""Number of a set's class folders whose time of change is checked at each opening. The planner checks all of them."""
_THREADS = 16
_MARK = b"aiperf-folders"


def of_splits(root: Path, splits: Sequence[Samples]) -> str:
    cut = len(str(root)) + 1
    return of_lines(
        (split.path_text(index)[cut:], label, size)
        for split in splits
        for index, (label, size) in enumerate(zip(split.labels.tolist(), split.sizes().tolist(), strict=True))
    )


def of_files(root: Path, files: Iterable[Path]) -> str:
    """Return the fingerprint of files with many images each, over path and size of each file."""
    return of_lines((file.relative_to(root).as_posix(), -1, file.stat().st_size) for file in files)


def of_lines(lines: Iterable[tuple[str, int, int]]) -> str:
    """Return the SHA-256 over (path below the set's root, label, size in bytes) of each file. Label −1: no label."""
    digest = hashlib.sha256()
    for path, label, size in lines:
        digest.update(os.fsencode(f"{path}\t{label}\t{size}\n"))
    return digest.hexdigest()


def of_options(conf: DataSetConf) -> str:
    return hashlib.sha256(msgspec.json.encode(asdict(conf), order="deterministic")).hexdigest()


class SplitHeader(msgspec.Struct, frozen=True):
    folder: str
    changed: int
    """Time of change of the folder itself, in nanoseconds. It contains the class folders."""
    classes: list[str]
    images: list[int]
    classes_changed: list[int]
    """Time of change of each class's folder, in nanoseconds."""
    name_bytes: int
    left_out: dict[str, int] = {}
    """Entries of the class folders that are no images, by suffix."""

    @property
    def bytes(self) -> int:
        return sum(self.images) * 16 + self.name_bytes


class Header(msgspec.Struct, frozen=True):
    """Second line of the index file: fingerprint, and header of each split."""

    fingerprint: str
    splits: list[SplitHeader]
    seal: Seal = Seal()
    """Indexes of former releases have none."""


@dataclass(frozen=True, slots=True)
class Index:
    path: Path
    root: Path
    header: Header
    training: Samples
    validation: Samples

    def check(self, host: str | None) -> None:
        """Raise StaleIndex if the set's class folders have changed since the index was written.

        `host`: name of the opening host, which selects 32 class folders of each split to check. Many hosts together check most
        of them. None: check all folders. Only folders with another time of change are listed.
        """
        chosen = random.Random(f"{self.header.fingerprint} {host}")
        for samples, header in zip((self.training, self.validation), self.header.splits, strict=True):
            folder = self.root / header.folder
            if _changed(folder) != header.changed and (classes := class_names(folder)) != header.classes:
                raise StaleIndex(
                    f"the class folders of '{folder}' have changed: {_difference(header.classes, classes)}"
                )
            labels = range(len(header.classes))
            some = labels if host is None else sorted(chosen.sample(labels, min(FOLDERS_CHECKED, len(labels))))
            with ThreadPoolExecutor(_THREADS) as pool:
                list(pool.map(lambda label, of=samples, split=header: _check_class(of, split, label), some))


def writing(path: Path) -> AbstractContextManager[None]:
    """Context manager that raises DataError if its block cannot write the index file `path`."""
    fix = "Set dataset.index=FILE on a file system that the workers share, here and in the run"
    return explained(path, "cannot be written", fix, DataError)


def write(path: Path, root: Path, training: Samples, validation: Samples) -> Header:
    """Write the index atomically. Raise StaleIndex if the folders changed after the listing."""
    splits = (training, validation)
    header = Header(of_splits(root, splits), [_split_header(root, samples) for samples in splits], training.seal)
    for samples, split in zip(splits, header.splits, strict=True):
        for label in range(len(split.classes)):
            _check_names(samples, split, label)  # files that were added after the listing are not in its times
    columns = [*_columns(splits)]
    second = msgspec.json.encode(_with_classes(header, name_text)) + b"\n"
    digest = hashlib.sha256(second)
    for column in columns:
        digest.update(column)
    with writing(path), draft_of(path) as draft, draft.open("wb") as file:
        file.write(b"%s %d %s\n" % (_MARK, VERSION, digest.hexdigest().encode()))
        file.write(second)
        for column in columns:
            file.write(column)
    return header


def read(path: Path, root: Path) -> Index:
    """Return the content of the index file for the set in the folder `root`. The class folders are not read."""
    # not mapped: if the file is replaced on a network file system, reading a mapped page kills the process
    require_file(path)
    content = path.read_bytes()
    held, first = memoryview(content), content[:128].partition(b"\n")[0]
    mark, version, checksum = [*first.split(b" "), b"", b"", b""][:3]
    if mark != _MARK:
        raise DamagedData(f"'{path}' is no index of class folders. Remove it, and write it again: {_REMEDY}")
    if version != b"%d" % VERSION:
        raise DamagedData(
            f"'{path}' has version {version.decode()!r}, but this program reads {VERSION}. Write it again: {_REMEDY}"
        )
    if hashlib.sha256(held[len(first) + 1 :]).hexdigest().encode() != checksum:
        raise DamagedData(f"'{path}' is damaged: its content does not match its checksum. Write it again: {_REMEDY}")
    start = content.index(b"\n", len(first) + 1) + 1
    header = _with_classes(msgspec.json.decode(held[len(first) + 1 : start], type=Header), name_of)
    body = np.frombuffer(content, np.uint8)[start:]
    samples, digests = [], body[sum(split.bytes for split in header.splits) :]
    for split in header.splits:
        size = 32 * sum(split.images)
        found = _split(root, split, body[: split.bytes], checksum.decode())
        samples.append(with_fields(found, digests=digests[:size].reshape(-1, 32), seal=header.seal))
        body, digests = body[split.bytes :], digests[size:]
    training, validation = samples
    return Index(path, root, header, training, validation)


def _with_classes(header: Header, form: Callable[[str], str]) -> Header:
    return replace(header, splits=[replace(split, classes=[*map(form, split.classes)]) for split in header.splits])


_REMEDY = "`python -m aiperf prepare … --index-only`"


def _split(root: Path, header: SplitHeader, body: NDArray[np.uint8], checksum: str) -> Samples:
    images = sum(header.images)
    sizes, ends = body[: 8 * images].view("<i8"), body[8 * images : 16 * images].view("<i8")
    files = ClassFolders(
        root / header.folder, tuple(header.classes), np.array(header.images, np.int64), ends, body[16 * images :]
    )
    return Samples(
        files.classes,
        files.labels,
        files,
        indexed_sizes=sizes,
        checksum=f"{checksum} {header.folder}",
        left_out=header.left_out,
    )


def _split_header(root: Path, samples: Samples) -> SplitHeader:
    files = samples.paths
    assert isinstance(files, ClassFolders), "shards have an index of their own"
    return SplitHeader(
        folder=files.folder.relative_to(root).as_posix(),
        changed=_changed(files.folder),
        classes=list(files.classes),
        images=files.images.tolist(),
        classes_changed=[_changed(files.folder / name) for name in files.classes],
        name_bytes=len(files.names),
        left_out=dict(samples.left_out),
    )


def _columns(splits: Sequence[Samples]) -> Iterator[bytes]:
    for samples in splits:
        files = samples.paths
        assert isinstance(files, ClassFolders)
        yield samples.sizes().astype("<i8").tobytes()
        yield files.ends.astype("<i8").tobytes()
        yield files.names.tobytes()
    for samples in splits:
        yield samples.digests.tobytes()


def _changed(folder: Path) -> int:
    with explained(folder, "cannot be read", "Mount it, or grant this user the permission", StaleIndex):
        return folder.stat().st_mtime_ns


def _check_class(samples: Samples, header: SplitHeader, label: int) -> None:
    files = samples.paths
    assert isinstance(files, ClassFolders)
    if _changed(files.folder / header.classes[label]) != header.classes_changed[label]:
        _check_names(samples, header, label)  # a copy of the set has other times, so only its names count


def _check_names(samples: Samples, header: SplitHeader, label: int) -> None:
    files = samples.paths
    assert isinstance(files, ClassFolders)
    folder = files.folder / header.classes[label]
    listed, indexed = image_names(folder), files.files(label)
    if listed != indexed:
        raise StaleIndex(
            f"{shown(folder)} holds {len(listed)} images and {len(indexed)} were indexed: {_difference(indexed, listed)}"
        )


def _difference(indexed: Sequence[str], listed: Sequence[str]) -> str:
    removed, new = sorted(set(indexed) - set(listed)), sorted(set(listed) - set(indexed))
    changes = [
        f"{len(names)} {what}, first {names[0]!r}" for names, what in ((removed, "removed"), (new, "new")) if names
    ]
    return ", ".join(changes)
