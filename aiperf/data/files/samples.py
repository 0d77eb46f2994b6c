"""Encoded images of a split, read at random positions: one per file in class folders, or many per file in tar shards."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from aiperf.atomic_files import replace_file
from aiperf.data.errors import DamagedData, DataError, MissingData, StaleIndex
from aiperf.data.files.class_folders import ClassFolders
from aiperf.errors import explained
from aiperf.files import name_of, name_text, open_regular, shown, what_is_wrong_with
from aiperf.shell_command import command
from aiperf.units import count

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"})
RARE_SUFFIXES = frozenset({".jfif", ".jpe", ""})
"""Suffixes of images and of other files. The first bytes decide."""
KINDS_SHOWN = 8
LONGEST_LABEL = 9
_PADDING = 1 << 20
_IMAGE_STARTS = (
    b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM", b"RIFF", b"P5\n", b"P6\n", b"II*\0", b"MM\0*",
)  # fmt: skip

# File systems of clusters have a high latency per request, and serve many requests at the same time well.
_THREADS = 16

# Written to the shards' folder by `prepare`, because reading the headers of all ImageNet takes minutes.
INDEX = "aiperf-index.jsonl"

Member = tuple[str, int, int, int]
Hashes = bytes
"""SHA-256 of several files, 32 bytes each."""

SPLITS: dict[str, tuple[str, ...]] = {"train": ("train",), "val": ("val", "validation", "test")}


class Seal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Contents of a whole set as `prepare` hashed them, and the archives from which it made the set."""

    contents: str | None = None
    """SHA-256 (`contents_of`). None if no image was read."""
    archives: dict[str, dict[str, str]] = {}
    """{"md5": …, "sha256": …} by name."""


class ShardIndex(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a shard index: positions of the images in one shard. Valid while the shard has this number of bytes."""

    shard: str
    bytes: int
    members: list[Member]
    digests: Hashes = b""
    """Empty if no image was read."""
    seal: Seal = Seal()


def contents_of(lines: Iterable[tuple[object, ...]]) -> str:
    """Return the SHA-256 over a set's sorted lines "SPLIT LABEL SHA256", without names, so that files and shards are equal."""
    return hashlib.sha256("".join(sorted(" ".join(map(str, words)) + "\n" for words in lines)).encode()).hexdigest()


@dataclass(frozen=True)
class Samples:
    """Encoded images of one split with their labels. An image is addressed by its number in the split, from 0."""

    classes: tuple[str, ...]
    labels: NDArray[np.int64]
    paths: ClassFolders | tuple[Path, ...]
    """The files. Image i is in paths[i], or for shards in paths[shard[i]]."""
    keys: tuple[str, ...] = ()
    shard: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    offset: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    length: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    indexed_sizes: NDArray[np.int64] | None = None
    """Bytes of each file from the index of the folders. None without an index."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Entries of the class folders that are no images, by suffix ('' without one, '/' for folders)."""
    checksum: str | None = None
    """Checksum of the index from which the files were read. None if folders were listed."""
    digests: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 32), np.uint8))
    """SHA-256 of each image by the index (images, 32). Empty if no image was read for it."""
    seal: Seal = field(default_factory=Seal)
    """Contents of the whole set by the index."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_sharded(self) -> bool:
        return bool(self.keys)

    def name(self, index: int) -> str:
        """Return the path of an image's file, or SHARD:MEMBER, as text for messages and records."""
        return name_text(self.path_text(index))

    def path_text(self, index: int) -> str:
        """Return the path of an image's file, or SHARD:MEMBER, as in the file system."""
        if isinstance(self.paths, ClassFolders):
            return self.paths.path_text(index)
        return f"{self.paths[self.shard[index]]}:{self.keys[index]}"

    def read(self, index: int) -> bytes:
        """Return the encoded image. Raise OSError if it is cut short, and StaleIndex if its size differs from the index."""
        path: str | Path
        if isinstance(self.paths, ClassFolders):
            path, offset, length = self.paths.path_text(index), 0, -1
        else:
            path, offset, length = self.paths[self.shard[index]], int(self.offset[index]), int(self.length[index])
        # O_NONBLOCK: do not wait for a FIFO that replaced an image
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"it is {what_is_wrong_with(Path(path))}, not a file")
            length = status.st_size if length < 0 else length
            value = os.pread(file, length, offset)
        finally:
            os.close(file)
        if self.indexed_sizes is not None and length != self.indexed_sizes[index]:
            raise StaleIndex(
                f"{shown(path)} has {length} bytes, and {self.indexed_sizes[index]} when the index was written"
            )
        if len(value) < length:
            raise OSError(f"ends after {len(value)} of {length} bytes")
        return value

    def lines(self, split: str) -> Iterator[tuple[object, ...]]:
        """Return the lines of the images for `contents_of`."""
        text = self.digests.tobytes().hex()
        return ((split, label, text[64 * at : 64 * at + 64]) for at, label in enumerate(self.labels.tolist()))

    def sizes(self) -> NDArray[np.int64]:
        """Return bytes of each image. Files are examined only if neither an index nor headers of shards give the sizes."""
        if self.is_sharded:
            return self.length
        return self.sizes_and_times[0] if self.indexed_sizes is None else self.indexed_sizes

    @cached_property
    def sizes_and_times(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Bytes of each image, and time of change of its file or shard in nanoseconds. Examined once, at the first access."""
        with ThreadPoolExecutor(_THREADS) as pool:
            paths = (self.path_text(index) for index in range(len(self))) if not self.is_sharded else self.paths
            stats = list(pool.map(os.stat, paths, chunksize=64))
        times = np.array([s.st_mtime_ns for s in stats], np.int64)
        if self.is_sharded:
            return self.length, times[self.shard]
        return np.array([s.st_size for s in stats], np.int64), times


def list_folder(root: Path, split: str, names: Sequence[str] | None = None) -> Samples:
    """Return the images in root/SPLIT/CLASS/. `names`: possible names of the split's folder, the first existing one is used.

    Raise MissingData if the folder does not exist, has fewer than two classes, or has a training class without images. Raise
    DamagedData for a broken link or a device in the folder.
    """
    folder = _split_folder(root, names or (split,))
    if folder is None:
        raise MissingData(f"there is no folder {str(root / split)!r}. Expected: {tree(root)}")
    classes = class_names(folder)
    if len(classes) < 2:
        raise MissingData(
            f"a set must have at least two classes, one folder each, not {len(classes)} as in {str(folder)!r}. "
            f"Expected: {tree(root)}"
        )
    with ThreadPoolExecutor(_THREADS) as pool:
        entries = list(pool.map(lambda name: _entries(folder / name), classes))
    listed = [names for names, _ in entries]
    empty = [name for name, images in zip(classes, listed, strict=True) if not images]
    if empty and split == "train":
        first = folder / empty[0]
        nested = next((each for each in sorted(first.iterdir()) if each.is_dir() and image_names(each)), None)
        if nested is not None:
            inner = nested.relative_to(folder).as_posix()
            raise MissingData(
                f"images must be directly in their class folder, but in {str(folder)!r} those of {empty[0]!r} are one folder "
                f"deeper ({inner!r}): move them up (mv {shlex.quote(str(nested))}/* {shlex.quote(str(first))}/). "
                f"Expected: {tree(root)}"
            )
        raise MissingData(
            f"every class must have at least one training image ({', '.join(sorted(IMAGE_SUFFIXES))}), but there is "
            f"none in {len(empty)} of {len(classes)} folders of {str(folder)!r}, first {empty[0]!r}: fill or remove them"
        )
    files = ClassFolders.of(folder, list(zip(classes, listed, strict=True)))
    return Samples(tuple(classes), files.labels, files, left_out=sum((others for _, others in entries), Counter[str]()))


def class_names(folder: Path) -> list[str]:
    """Return the sorted class folders of a split. Regular files and hidden names are ignored."""
    names = []
    for entry in _scanned(folder):
        if _leads_to(entry, folders=True):
            names.append(entry.name)
        elif not _leads_to(entry, folders=False):
            raise DamagedData(
                f"a split must contain only one folder for each class, but {entry.path!r} is "
                f"{what_is_wrong_with(Path(entry.path))}: repair or remove it"
            )
    return sorted(names)


def _scanned(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


def image_names(folder: Path) -> list[str]:
    """Return the sorted image files of a class folder, by suffix, and with a rare suffix or none by their first bytes."""
    return _entries(folder)[0]


def _entries(folder: Path) -> tuple[list[str], Counter[str]]:
    images, others = [], Counter[str]()
    for entry in _scanned(folder):
        suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122
        if suffix not in IMAGE_SUFFIXES and not (suffix in RARE_SUFFIXES and _begins_like_an_image(entry)):
            others["/" if _leads_to(entry, folders=True) else name_text(suffix)] += 1
        elif not _leads_to(entry, folders=False):
            raise DamagedData(
                f"every image of a set must be a file, but {entry.path!r} is {what_is_wrong_with(Path(entry.path))}: "
                "repair or remove it"
            )
        else:
            images.append(entry.name)
    return sorted(images), others


def _begins_like_an_image(entry: os.DirEntry[str]) -> bool:
    if not _leads_to(entry, folders=False):
        return False
    with open_regular(Path(entry.path)) as file:
        return file.read(8).startswith(_IMAGE_STARTS)


def left_out_text(splits: Sequence[Samples]) -> str | None:
    others = sum((Counter(split.left_out) for split in splits), Counter[str]())
    if not others:
        return None
    names = {"/": "folders", "": "without a suffix"}
    kinds = ", ".join(
        f"{count(number)} {names.get(suffix, suffix)}" for suffix, number in others.most_common(KINDS_SHOWN)
    )
    kinds += ", …" if len(others) > KINDS_SHOWN else ""
    return f"{count(others.total())} entries of the class folders are left out, since they are no images: {kinds}"


def _leads_to(entry: os.DirEntry[str], *, folders: bool) -> bool:
    try:
        return entry.is_dir() if folders else entry.is_file()
    except OSError:  # a link that leads back to itself
        return False


def list_shards(root: Path, split: str) -> Samples:
    """Return the images in the shards of a split: root/SPLIT-*.tar, root/*-SPLIT-*.tar or root/SPLIT/*.tar.

    For 'val' the names validation and test are also tried. A shard that the index does not list with its present size is
    scanned. Raise MissingData if there are no shards, and DamagedData if a shard or the index is damaged, or if there is no
    image.
    """
    shards = find_shards(root, split)
    if not shards:
        raise MissingData(
            f"there are no {split} shards in {str(root)!r}. Provide {split}-000000.tar, {split}-000001.tar … of NAME.jpg and "
            f"NAME.cls (the class as a number), or pack them from folders: "
            + command("prepare", "dataset.root=FOLDER", "--pack", str(root))
        )
    for shard in shards:
        if (wrong := what_is_wrong_with(shard)) is not None:
            raise DamagedData(
                f"every shard of a set must be a file, but {str(shard)!r} is {wrong}: repair or remove it"
            )
    known = _read_index(shards[0].parent / INDEX)

    def entry_of(shard: Path) -> ShardIndex:
        entry, size = known.get(shard.name), shard.stat().st_size
        return entry if entry is not None and entry.bytes == size else ShardIndex(shard.name, size, scan(shard))

    with ThreadPoolExecutor(_THREADS) as pool:
        entries = list(pool.map(entry_of, shards))
    rows = [(number, *member) for number, entry in enumerate(entries) for member in entry.members]
    if not rows:
        raise DamagedData(
            f"the shards of {str(root)!r} contain no pair of an image and a .cls file (first shard: {shards[0].name!r}): pack "
            "them again with `python -m aiperf prepare`"
        )
    labels = np.array([row[4] for row in rows], np.int64)
    digests, seal = b"".join(entry.digests for entry in entries), entries[0].seal
    is_sealed = len(digests) == 32 * len(rows) and all(entry.seal == seal for entry in entries)
    return Samples(
        tuple(str(label) for label in range(int(labels.max()) + 1)),
        labels,
        tuple(shards),
        tuple(row[1] for row in rows),
        np.array([row[0] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.int64),
        np.array([row[3] for row in rows], np.int64),
        digests=np.frombuffer(digests if is_sealed else b"", np.uint8).reshape(-1, 32),
        seal=seal if is_sealed else Seal(),
    )


def index_shards(splits: Sequence[Sequence[Path]], digests: Mapping[Path, Hashes], seal: Seal) -> dict[Path, int]:
    """Write an index into each folder of shards. Return the number of shards by path of the index.

    `digests`: of the images of each shard in sequence, by path of the shard.
    """
    of_folder: dict[Path, list[Path]] = {}
    for shards in splits:
        for shard in shards:
            of_folder.setdefault(shard.parent, []).append(shard)
    for folder, shards in of_folder.items():
        entries = (
            ShardIndex(
                name_text(path.name), path.stat().st_size, _named(scan(path), name_text), digests.get(path, b""), seal
            )
            for path in shards
        )
        lines = [msgspec.json.encode(entry) + b"\n" for entry in entries]
        fix = "Allow writing during `prepare`, or pack the set into another folder"
        with explained(folder / INDEX, "cannot be written", fix, DataError):
            replace_file(folder / INDEX, b"".join(lines))
    return {folder / INDEX: len(shards) for folder, shards in of_folder.items()}


def find_shards(root: Path, split: str) -> list[Path]:
    """Return the sorted shards of a split. For 'val' the names validation and test are also tried."""
    for name in SPLITS[split]:
        shards = sorted({*root.glob(f"{name}-*.tar"), *root.glob(f"*-{name}-*.tar"), *root.glob(f"{name}/*.tar")})
        if shards:
            return shards
    return []


def agree(training: Samples, validation: Samples, root: Path) -> None:
    """Raise DataError if class folders differ between the splits, or a class of shards has no training image."""
    if training.is_sharded:
        beyond = set(np.unique(validation.labels)) - set(np.unique(training.labels))
        lacking = set(range(len(training.classes))) - set(np.unique(training.labels).tolist())
        if beyond or lacking:
            raise DataError(
                f"the training shards must contain every class 0..{len(training.classes) - 1}, and the validation shards no "
                f"other, but in {str(root)!r} no training image has class {sorted(map(int, beyond | lacking))[:5]}: "
                "correct the .cls files, or pack the set again"
            )
        return
    if training.classes != validation.classes:
        unmatched = sorted(set(training.classes) ^ set(validation.classes))
        raise DataError(
            f"train/ and val/ must contain folders of the same classes, but in {str(root)!r} {len(unmatched)} are in only one: "
            f"{', '.join(map(repr, unmatched[:5]))}{' …' if len(unmatched) > 5 else ''}. Add or remove these folders"
        )


def tree(root: Path) -> str:
    return f"""
  {root}/
    train/
      CLASS_A/  one.jpg two.jpg …
      CLASS_B/  …
    val/
      CLASS_A/  …
      CLASS_B/  …"""


def _split_folder(root: Path, names: Sequence[str]) -> Path | None:
    return next((root / name for name in names if (root / name).is_dir()), None)


def _read_index(path: Path) -> dict[str, ShardIndex]:
    if not path.exists():
        return {}
    decoder = msgspec.json.Decoder(ShardIndex)
    try:
        entries = [decoder.decode(line) for line in path.read_bytes().splitlines()]
    except msgspec.DecodeError as error:
        raise DamagedData(
            f"the index {str(path)!r} is damaged: {error}. Remove it, and the shards are scanned again"
        ) from error
    return {name_of(entry.shard): replace(entry, members=_named(entry.members, name_of)) for entry in entries}


def _named(members: Sequence[Member], form: Callable[[str], str]) -> list[Member]:
    return [(form(name), *rest) for name, *rest in members]  # type: ignore[misc]  # mypy widens the rest to a list


def scan(shard: Path) -> list[Member]:
    """Return (name, offset in bytes, length in bytes, label) of each image in a shard, from its headers.

    Raise DamagedData if the file is no readable tar file, an image lacks its .cls file or the reverse, or a .cls file has no
    number.
    """
    images: dict[str, tuple[str, int, int]] = {}
    labels: dict[str, int] = {}
    dotted: dict[str, str] = {}
    try:
        with tarfile.open(shard, "r:") as tar:
            for member in tar:
                # WebDataset's rule: members of a sample share the name up to the first dot of its last part.
                folder, _, file = member.name.rpartition("/")
                stem, _, extension = file.partition(".")
                key = f"{folder}/{stem}"
                is_image = f".{extension.lower()}" in IMAGE_SUFFIXES | RARE_SUFFIXES - {""}
                if key in (images if is_image else labels if extension == "cls" else ()):
                    raise _ShardFault(f"the key {key.lstrip('/')!r} is used twice (again {member.name!r})")
                if extension == "cls":
                    labels[key] = _label(tar, member)
                elif is_image:
                    images[key] = (member.name, member.offset_data, member.size)
                elif Path(file).suffix.lower() in IMAGE_SUFFIXES | {".cls"}:
                    dotted.setdefault(key, member.name)
            _require_end(shard, tar.offset)
    except _ShardFault as error:
        raise DamagedData(
            f"shard {str(shard)!r}: {error}. Copy it again, or pack it again with `python -m aiperf prepare`"
        ) from error
    except (tarfile.TarError, ValueError, OSError) as error:
        raise DamagedData(
            f"shard {str(shard)!r} cannot be read: {error}. Copy it again, or pack it again with `python -m aiperf prepare`"
        ) from error
    unpaired = sorted(images.keys() ^ labels.keys())
    if name := next((name for key, name in dotted.items() if key in unpaired or not images), None):
        stem, _, extension = Path(name).name.partition(".")
        raise DamagedData(
            f"the key of a sample ends at the first dot of its name, but in {str(shard)!r} {name!r} has the key {stem!r} and "
            f"the suffix {'.' + extension!r}: rename the members, without other dots"
        )
    if unpaired:
        raise DamagedData(
            f"in a shard every image must have a .cls file, but in {str(shard)!r} {len(unpaired)} names have only one "
            f"of the two, first {unpaired[0]!r}: pack it again with `python -m aiperf prepare`"
        )
    return [(*images[key], labels[key]) for key in images]


class _ShardFault(Exception):
    pass


def _label(tar: tarfile.TarFile, member: tarfile.TarInfo) -> int:
    held = tar.extractfile(member)
    text = b"" if held is None else held.read(LONGEST_LABEL + 1)
    if not text.strip().isdigit() or len(text) > LONGEST_LABEL:
        raise _ShardFault(
            f"a .cls file must hold the class as a number from 0, but {member.name!r} holds {text[:40]!r}"
        )
    return int(text)


def _require_end(shard: Path, offset: int) -> None:
    """Raise _ShardFault unless a tar file has its end mark (a block of zeros) at `offset`, and no samples behind it."""
    with open_regular(shard) as file:
        file.seek(offset)
        rest = file.read(_PADDING)
    if len(rest) < tarfile.BLOCKSIZE or any(rest[: tarfile.BLOCKSIZE]):
        raise _ShardFault(
            f"a tar file ends with a block of zeros, but after {count(offset)} bytes there is none: it is cut short"
        )
    if any(rest):
        raise _ShardFault("data follow its end mark, as in tar files that were joined by cat")
