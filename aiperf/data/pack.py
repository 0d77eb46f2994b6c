"""Packs images into tar shards in WebDataset's form: NAME.jpg beside NAME.cls, which holds the class's number in digits.

Which image goes into which shard depends on the listing alone, so a pack that was killed goes on where it stood; a shard gets
its name only when it is whole.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from aiperf.data.errors import DataError
from aiperf.data.samples import INDEX, Samples, ShardIndex, scan
from aiperf.data.visiting_order import shuffled

_IMAGES_OF_A_SHARD = 1000
_SEED = 0

CLASSES = "aiperf-classes.json"
"""The classes' names in the order of their numbers, which shards themselves do not hold."""

_PACKED_FROM = "aiperf-packed-from.txt"


def pack(
    samples: dict[str, Samples],
    corrupt: Collection[str],
    folder: Path,
    advance: Callable[[int], None],
    images_of_a_shard: int = _IMAGES_OF_A_SHARD,
) -> int:
    """Writes SPLIT-000000.tar … for each split, without the images named in `corrupt`; returns the number of shards.

    Images are shuffled, since tools that read shards in order need them mixed. `advance(images)` is called after each shard.
    Raises DataError where the folder holds the shards of another listing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _claim(samples, corrupt, folder, images_of_a_shard)
    index: list[ShardIndex] = []
    for split, listed in samples.items():
        order = [int(i) for i in shuffled(len(listed), _SEED, 0) if listed.name(int(i)) not in corrupt]
        digits = len(str(len(listed)))
        for number, start in enumerate(range(0, len(order), images_of_a_shard)):
            path = folder / f"{split}-{number:06d}.tar"
            members = order[start : start + images_of_a_shard]
            if not path.exists():
                _write(path, listed, np.array(members, np.int64), digits)
            index.append(ShardIndex(path.name, path.stat().st_size, scan(path)))
            advance(len(members))
    classes = next(iter(samples.values())).classes
    (folder / CLASSES).write_bytes(msgspec.json.format(msgspec.json.encode(classes)) + b"\n")
    (folder / INDEX).write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in index))
    return len(index)


def _claim(samples: dict[str, Samples], corrupt: Collection[str], folder: Path, images_of_a_shard: int) -> None:
    digest = hashlib.sha256(str(images_of_a_shard).encode())
    for split, listed in samples.items():
        digest.update(split.encode())
        digest.update(listed.sizes().tobytes())
        for number in range(len(listed)):
            digest.update(listed.name(number).encode(errors="surrogateescape"))
    for name in sorted(corrupt):
        digest.update(name.encode(errors="surrogateescape"))
    claim, mine = folder / _PACKED_FROM, digest.hexdigest()
    if not claim.exists():
        if any(folder.glob("*.tar")):
            raise DataError(
                f"shards are packed into a folder of their own; {str(folder)!r} holds others: name an empty one"
            )
        claim.write_text(mine + "\n")
    elif claim.read_text().strip() != mine:
        raise DataError(
            f"the shards in {str(folder)!r} were packed from other files than dataset.root holds now: "
            "remove them, or name an empty folder"
        )


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
