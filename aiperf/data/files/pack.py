"""Packing of images into shards: tar files of many images in WebDataset's format.

A sample is a pair of NAME.jpg and NAME.cls, which has the class's number as text. A shard is renamed to its final name when it
is complete, and the index is written last.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from aiperf.atomic_files import replace_file
from aiperf.data.errors import DataError
from aiperf.data.files.samples import Samples, index_shards
from aiperf.data.visiting_order import shuffled
from aiperf.files import name_text

_SEED = 0
CLASSES = "aiperf-classes.json"
"""File with the classes' names in the order of their numbers. Shards do not contain the names."""


def pack(
    samples: dict[str, Samples],
    corrupt: Collection[str],
    folder: Path,
    advance: Callable[[int], None],
    images_of_a_shard: int = 1000,
) -> int:
    """Write the images by split, 'train' and 'val', into shards SPLIT-000000.tar, …. Return the number of shards.

    `advance`: called after each shard with its number of images. Images are shuffled, because tools that read shards in order
    need them mixed. Raise DataError if the folder is not empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise DataError(
            f"shards must be packed into an empty folder, but {str(folder)!r} contains files: remove them, or name an empty "
            "folder"
        )
    shards: list[Path] = []
    for split, listed in samples.items():
        order = [int(i) for i in shuffled(len(listed), _SEED, 0) if listed.name(int(i)) not in corrupt]
        for number, start in enumerate(range(0, len(order), images_of_a_shard)):
            members = order[start : start + images_of_a_shard]
            shards.append(folder / f"{split}-{number:06d}.tar")
            _write(shards[-1], listed, np.array(members, np.int64), len(str(len(listed))))
            advance(len(members))
    classes = next(iter(samples.values())).classes
    replace_file(folder / CLASSES, msgspec.json.format(msgspec.json.encode([*map(name_text, classes)])) + b"\n")
    index_shards([shards])
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
